"""Crowds of hostile connections: holders of tokens are served as before, and the hub's memory stays bounded."""

from __future__ import annotations

import contextlib
import json
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.conftest import ROOT
from tests.hub.conftest import Hub
from tests.waiting import until

RSS_MIB = 128
"""What docs/hub.md states."""
HONEST = 64
CONNECTED = 100
"""Hostile connections that the hub has before the honest clients begin."""
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


def rss(hub: Hub, field: str = "VmRSS") -> float:
    """In MiB; its highest value since the start as `VmHWM`."""
    assert hub.process is not None
    for line in Path(f"/proc/{hub.process.pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise AssertionError(f"no {field}")


def descriptors(hub: Hub) -> int:
    assert hub.process is not None
    return len(list(Path(f"/proc/{hub.process.pid}/fd").iterdir()))


@pytest.mark.parametrize(
    ("count", "rounds", "seconds"),
    [
        pytest.param(400, 5, 3, marks=[pytest.mark.slow, pytest.mark.timeout(300)]),
        pytest.param(2_000, 7, 10, marks=[pytest.mark.large, pytest.mark.timeout(900)]),
    ],
)
def test_a_hostile_crowd_neither_slows_holders_nor_fills_the_memory(
    own_hub: Callable[..., Hub], count: int, rounds: int, seconds: float
) -> None:
    """Idle and attacked in turns, since other programs load the machine: the median of the rounds' ratios counts."""
    hub = own_hub().start(limits=limited)
    hub.put("concept://infra/services/auth", summary="Issues tokens", content="Signed by the key service.")
    tokens = [hub.mint(name=f"client-{n}", requests_per_minute=100_000) for n in range(HONEST)]
    p99(hub, tokens, 2)
    idle, attacked, open_files = [], [], []
    before = rss(hub)
    for _ in range(rounds):
        idle.append(p99(hub, tokens, seconds))
        alone = descriptors(hub)
        with hostile(hub, count):
            until(lambda alone=alone: descriptors(hub) > alone + CONNECTED, 20)  # type: ignore[misc]
            attacked.append(p99(hub, tokens, seconds))
            open_files.append(descriptors(hub))
    ratios = [one / other for one, other in zip(attacked, idle, strict=True)]
    grown = rss(hub, "VmHWM") - before
    print(f"p99 in ms: idle {idle}, attacked {attacked}; ratios {ratios}")
    print(f"RSS {before:.0f} MiB and {grown:.0f} more; {max(open_files)} files")
    assert statistics.median(ratios) < 2
    assert grown < RSS_MIB
    assert max(open_files) < 900
