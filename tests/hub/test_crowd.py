"""Crowds of hostile connections: holders of tokens are served as before, and the hub's memory stays bounded."""

from __future__ import annotations

import contextlib
import json
import os
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
from tests.waiting import at_rest, until

RSS_MIB = 128
"""What docs/hub.md states."""
HONEST = 64
ROUNDS, MOST_ROUNDS = 5, 15
SHARE = 0.3
"""Of one processor, for all strangers."""
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
    latencies: list[float] = json.loads(said)
    return statistics.quantiles(latencies, n=100)[98] * 1_000


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


def processor_seconds(hub: Hub) -> float:
    """That the hub has used since its start."""
    assert hub.process is not None
    fields = Path(f"/proc/{hub.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize(
    ("count", "seconds"),
    [
        pytest.param(400, 3, marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
        pytest.param(2_000, 10, marks=[pytest.mark.large, pytest.mark.timeout(1_800)]),
    ],
)
def test_a_hostile_crowd_neither_slows_holders_nor_fills_the_memory(
    own_hub: Callable[..., Hub], count: int, seconds: float
) -> None:
    """Idle and attacked in turns. Other programs slow single rounds: the median ratio counts, and rounds are added."""
    hub = own_hub().start(limits=limited)
    hub.put("concept://infra/services/auth", summary="Issues tokens", content="Signed by the key service.")
    tokens = [hub.mint(name=f"client-{n}", requests_per_minute=100_000) for n in range(HONEST)]
    until(lambda: at_rest(hub.call("status", workspace="infra")))
    p99(hub, tokens, 2)
    before, alone = rss(hub), descriptors(hub)
    ratios: list[float] = []
    open_files: list[int] = []
    while len(ratios) < ROUNDS or (statistics.median(ratios) >= 2 and len(ratios) < MOST_ROUNDS):
        idle = p99(hub, tokens, seconds)
        with hostile(hub, count):
            until(lambda: descriptors(hub) > alone + CONNECTED, 20)
            attacked = p99(hub, tokens, seconds)
            open_files.append(descriptors(hub))
        ratios.append(attacked / idle)
        print(f"p99 idle {idle:.0f} ms, attacked {attacked:.0f} ms, ratio {ratios[-1]:.2f}")
    grown = rss(hub, "VmHWM") - before
    print(f"median {statistics.median(ratios):.2f}; RSS {before:.0f} MiB + {grown:.0f}; {max(open_files)} descriptors")
    assert statistics.median(ratios) < 2
    assert grown < RSS_MIB
    assert max(open_files) < 900


@pytest.mark.slow
def test_a_hostile_crowd_takes_little_of_a_processor(own_hub: Callable[..., Hub]) -> None:
    """Counted in time of the processor, which other programs on the machine hardly change."""
    hub = own_hub().start(limits=limited)
    hub.put("concept://infra/services/auth", summary="Issues tokens")
    until(lambda: at_rest(hub.call("status", workspace="infra")))
    alone = descriptors(hub)
    with hostile(hub, 400):
        until(lambda: descriptors(hub) > alone + CONNECTED, 20)
        began, used = time.monotonic(), processor_seconds(hub)
        until(lambda: time.monotonic() > began + 8)
        share = (processor_seconds(hub) - used) / (time.monotonic() - began)
    print(f"{share:.2f} of a processor")
    assert share < SHARE
