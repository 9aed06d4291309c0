"""Crowds of hostile connections: holders of tokens are served as before, and the hub's memory stays bounded."""

from __future__ import annotations

import contextlib
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.conftest import ROOT
from tests.hub.conftest import Hub

RSS_MIB = 128
"""What docs/hub.md states."""
HONEST = 64
PROCESSES = 4
CROWD = [sys.executable, "-m", "tests.hub.crowd"]


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))


@contextlib.contextmanager
def hostile(hub: Hub, count: int) -> Iterator[None]:
    port = str(urlsplit(hub.url).port)
    crowd = [
        subprocess.Popen([*CROWD, "hostile", port, str(count // PROCESSES), str(n)], cwd=ROOT) for n in range(PROCESSES)
    ]
    try:
        yield
    finally:
        for one in crowd:
            one.kill()
        for one in crowd:
            one.wait()


def p99(hub: Hub, tokens: list[str], seconds: float) -> float:
    """In milliseconds, of 64 clients together."""
    command = [*CROWD, "honest", str(urlsplit(hub.url).port), str(seconds), *tokens]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    return statistics.quantiles(json.loads(said), n=100)[98] * 1_000


def rss(hub: Hub) -> float:
    """In MiB."""
    assert hub.process is not None
    for line in Path(f"/proc/{hub.process.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")


def descriptors(hub: Hub) -> int:
    assert hub.process is not None
    return len(list(Path(f"/proc/{hub.process.pid}/fd").iterdir()))


@pytest.mark.parametrize(
    ("count", "rounds", "seconds"),
    [
        pytest.param(400, 3, 3, marks=pytest.mark.slow),
        pytest.param(2_000, 5, 10, marks=[pytest.mark.large, pytest.mark.timeout(600)]),
    ],
)
def test_a_hostile_crowd_neither_slows_holders_nor_fills_the_memory(
    own_hub: Callable[..., Hub], count: int, rounds: int, seconds: float
) -> None:
    hub = own_hub().start(limits=limited)
    hub.put("concept://infra/services/auth", summary="Issues tokens", content="Signed by the key service.")
    tokens = [hub.mint(name=f"client-{n}", requests_per_minute=100_000) for n in range(HONEST)]
    p99(hub, tokens, 1)
    idle, attacked, memory, open_files = [], [], [], []
    before = rss(hub)
    for _ in range(rounds):
        idle.append(p99(hub, tokens, seconds))
        with hostile(hub, count):
            deadline = time.monotonic() + 2
            while time.monotonic() < deadline:
                memory.append(rss(hub))
                open_files.append(descriptors(hub))
            attacked.append(p99(hub, tokens, seconds))
            memory.append(rss(hub))
            open_files.append(descriptors(hub))
    print(
        f"p99 idle {idle}, attacked {attacked} ms; RSS {before:.0f} -> {max(memory):.0f} MiB; {max(open_files)} files"
    )
    assert statistics.median(attacked) < 2 * statistics.median(idle)
    assert max(memory) - before < RSS_MIB
    assert max(open_files) < 900
