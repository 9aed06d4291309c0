#!/bin/sh
# Installs what kgd is measured against, below bench-results/peers: nothing else is touched. Called by `python -m bench`
# with its own Python; what cannot be installed is reported as not measured.
set -u
cd "$(dirname "$0")/.."
into=bench-results/peers
mkdir -p "$into"
[ -f "$into/node_modules/@modelcontextprotocol/server-memory/dist/index.js" ] ||
  npm install --prefix "$into" --no-audit --no-fund --loglevel=error @modelcontextprotocol/server-memory@2026.8.31 >&2 ||
  echo "the official memory server could not be installed" >&2
[ -d "$into/python/rustworkx" ] ||
  "$1" -m pip install -q --disable-pip-version-check --target "$into/python" --only-binary :all: --require-hashes \
    -r bench/peers.txt >&2 ||
  echo "PyYAML and rustworkx could not be installed" >&2
