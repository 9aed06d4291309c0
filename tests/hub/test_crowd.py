"""Crowds of hostile connections: holders of tokens are served as before, and the hub's memory stays bounded."""

from __future__ import annotations

import contextlib
import dataclasses
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
from tests.hub.crowd import UNANSWERED
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


def latencies(hub: Hub, tokens: list[str], seconds: float) -> list[float]:
    """In seconds, of all honest clients; a request without its answer counts as `UNANSWERED`."""
    command = [*CROWD, "honest", str(urlsplit(hub.url).port), str(seconds), *tokens]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, text=True).stdout
    found: list[float] = json.loads(said)
    return found


def p99(latencies: list[float]) -> float:
    return statistics.quantiles(latencies, n=100)[98]


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


@dataclasses.dataclass
class Measured:
    """Of rounds in which the honest clients were first alone and then beside the crowd."""

    idle: list[list[float]] = dataclasses.field(default_factory=list)
    """Latencies of each round, in seconds."""
    attacked: list[list[float]] = dataclasses.field(default_factory=list)
    open_files: int = 0
    grown: float = 0
    """Of the hub's memory at its peak, in MiB."""

    def ratio(self) -> float:
        """The median over the rounds, because other programs slow single rounds."""
        return statistics.median(
            p99(attacked) / p99(idle) for idle, attacked in zip(self.idle, self.attacked, strict=True)
        )


def attack(hub: Hub, count: int, seconds: float, enough: Callable[[Measured], bool]) -> Measured:
    """Rounds until it is enough."""
    hub.put("concept://infra/services/auth", summary="Issues tokens", content="Signed by the key service.")
    tokens = [hub.mint(name=f"client-{n}", requests_per_minute=100_000) for n in range(HONEST)]
    until(lambda: at_rest(hub.call("status", workspace="infra")))
    latencies(hub, tokens, 2)
    before, alone = rss(hub), descriptors(hub)
    measured = Measured()
    while not enough(measured):
        measured.idle.append(latencies(hub, tokens, seconds))
        with hostile(hub, count):
            until(lambda: descriptors(hub) > alone + CONNECTED, 20)
            measured.attacked.append(latencies(hub, tokens, seconds))
            measured.open_files = max(measured.open_files, descriptors(hub))
        print(f"p99 idle {p99(measured.idle[-1]):.3f} s, attacked {p99(measured.attacked[-1]):.3f} s")
    measured.grown = rss(hub, "VmHWM") - before
    print(f"{measured.ratio():.2f} times; {before:.0f} MiB + {measured.grown:.0f}; {measured.open_files} descriptors")
    return measured


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_holders_are_answered_beside_a_hostile_crowd_and_memory_stays_bounded(own_hub: Callable[..., Hub]) -> None:
    measured = attack(own_hub().start(limits=limited), 400, 3, lambda so_far: len(so_far.idle) == 2)
    assert max(latency for one in measured.attacked for latency in one) < UNANSWERED
    assert measured.grown < RSS_MIB
    assert measured.open_files < 900


@pytest.mark.large
@pytest.mark.timeout(1_800)
def test_a_hostile_crowd_of_2_000_does_not_slow_holders(own_hub: Callable[..., Hub]) -> None:
    def enough(so_far: Measured) -> bool:
        rounds = len(so_far.idle)
        return rounds >= MOST_ROUNDS or (rounds >= ROUNDS and so_far.ratio() < 2)

    measured = attack(own_hub().start(limits=limited), 2_000, 10, enough)
    assert measured.ratio() < 2
    assert measured.grown < RSS_MIB
    assert measured.open_files < 900


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
