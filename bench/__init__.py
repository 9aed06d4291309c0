"""Benchmarks of kgd: `python -m bench` runs every row of docs/performance.md."""

from pathlib import Path

RESULTS = Path(__file__).resolve().parent.parent / "bench-results"
PYTHON_PEERS = RESULTS / "peers/python"
MEMORY_SERVER = RESULTS / "peers/node_modules/@modelcontextprotocol/server-memory/dist/index.js"
