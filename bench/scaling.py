"""Several hubs over one PostgreSQL and one upstream, each limited to a share of a processor.

The limit is a control group of Linux, so that the hubs and the clients do not compete for the processors of a small
machine. Where such a group cannot be made, nothing is measured.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench import corpus, hub, machine
from bench.client import some_call
from bench.corpus import Made
from bench.house import settle
from bench.hub import Hub
from bench.row import Row, compare, missing, percentile, value
from kgd.config import Home
from kgd.config.entries import Entry
from kgd.config.registry import RegistryFile

SHARE = 0.3
"""Of a processor, for each hub."""
HUBS, CLIENTS, SECONDS = 3, 24, 10.0
TWICE, THRICE = 1.8, 2.5
GROUPS = Path("/sys/fs/cgroup/cpu")
PERIOD_US = 100_000

Call = Callable[[Made, random.Random], dict[str, Any]]


def rows(made: Made, folder: Path, *, clients: int = CLIENTS, seconds: float = SECONDS) -> Iterator[Row]:
    """Calls per second of one, two and three hubs: reads, writes to one workspace, and the processor time of each."""
    from tests import postgres_server  # needs psycopg, which only this section uses

    if postgres_server.programs() is None:
        yield missing("reads of several hubs", "1 hub", "there is no PostgreSQL")
        return
    if not os.access(GROUPS, os.W_OK):
        yield missing("reads of several hubs", "1 hub", "the hubs' processor time cannot be limited here")
        return
    with contextlib.ExitStack() as held:
        state = held.enter_context(held.enter_context(postgres_server.server()).schema())
        upstream = _upstream(made, folder)
        hubs = [held.enter_context(_member(folder / f"hub{n}", state, upstream, n)) for n in range(HUBS)]
        tokens = [hubs[0].mint("write") for _ in range(clients)]
        for one in hubs:
            settle(one.call)
        for what, call in (("reads", _read), ("writes to one workspace", _write)):
            found = [_rate(hubs[:count], made, tokens, seconds, call) for count in range(1, HUBS + 1)]
            yield from _growth(what, found, made.nodes, call is _read)


def _growth(what: str, found: list[tuple[float, float, float]], nodes: int, with_target: bool) -> Iterator[Row]:
    (alone, p99, cpu), *more = found
    yield value(f"{what} of 1 hub at {SHARE:g} processors", "per_s", alone, nodes=nodes, note=_note(p99, cpu))
    for count, (rate, p99, cpu), target in zip((2, 3), more, (TWICE, THRICE), strict=True):
        bound = target if with_target else None
        yield compare(
            f"{what} of {count} hubs", "1 hub", "per_s", rate, alone, bound, nodes=nodes, note=_note(p99, cpu)
        )


def _note(p99: float, cpu: float) -> str:
    return f"p99 {p99 * 1e3:.0f} ms, {cpu * 1e3:.2f} ms of processor time of the hubs per call"


def _read(made: Made, chance: random.Random) -> dict[str, Any]:
    while (call := some_call(made, chance))["name"] == "put":
        pass
    return call


def _write(made: Made, chance: random.Random) -> dict[str, Any]:
    change = corpus.upsert(corpus.newcomer(made.nodes, chance))
    return {"name": "put", "arguments": {"changes": [change], "request_id": f"{chance.getrandbits(64):x}"}}


def _rate(hubs: list[Hub], made: Made, tokens: list[str], seconds: float, call: Call) -> tuple[float, float, float]:
    """Answered calls per second, p99 in seconds, and seconds of the hubs' processor time per call."""
    before = sum(machine.cpu_seconds(one.pid) for one in hubs)
    times = asyncio.run(_ask(hubs, made, tokens, seconds, call))
    used = sum(machine.cpu_seconds(one.pid) for one in hubs) - before
    return len(times) / seconds, percentile(times, 0.99), used / len(times)


async def _ask(hubs: list[Hub], made: Made, tokens: list[str], seconds: float, call: Call) -> list[float]:
    """Clients with one connection each, the same number at every hub. A refused call is repeated at the next hub."""
    times: list[float] = []
    end = time.monotonic() + seconds

    async def client(number: int, token: str) -> None:
        chance = random.Random(f"{number} {len(hubs)} {call.__name__}")
        async with contextlib.AsyncExitStack() as held:
            line = await hub.connected(hubs[number % len(hubs)])
            held.callback(line[1].close)
            while time.monotonic() < end:
                asked = call(made, chance)
                begun = time.perf_counter()
                status, body = 503, b""
                while status == 503 and time.monotonic() < end:
                    status, body = await hub.asked(*line, token, asked["name"], asked["arguments"])
                assert status in (200, 503), body[:300]
                if status == 200:
                    times.append(time.perf_counter() - begun)

    await asyncio.gather(*(client(number, token) for number, token in enumerate(tokens)))
    return times


# ---- the hubs


def _upstream(made: Made, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    there = folder / "upstream.git"
    subprocess.run(["git", "clone", "-q", "--bare", str(made.layout.work_tree), str(there)], check=True)
    return there


@contextlib.contextmanager
def _member(folder: Path, state: str, upstream: Path, number: int) -> Iterator[Hub]:
    """A hub with a home of its own, in a control group of its own."""
    home = Home.at(str(folder / "home"))
    home.prepare()
    environment = {**os.environ, "KGD_HOME": home.config}
    clone = [sys.executable, "-P", "-m", "kgd.cli", "clone", str(upstream), str(folder / "tree")]
    subprocess.run(clone, env=environment, cwd=folder, check=True, capture_output=True)
    subprocess.run([sys.executable, "-P", "-m", "kgd.cli", "down"], env=environment, cwd=folder, check=True)
    RegistryFile(home).register(
        Entry(corpus.WORKSPACE, str(folder / "tree"), standalone=True, remote=str(upstream)), replace=True
    )
    group = GROUPS / f"kgd-bench-{os.getpid()}-{number}"
    group.mkdir()
    (group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
    (group / "cpu.cfs_quota_us").write_text("-1")  # the start is not limited
    try:
        with hub.listening(home, folder, "--state", state, begun=lambda: _join(group)) as made:
            (group / "cpu.cfs_quota_us").write_text(str(int(SHARE * PERIOD_US)))
            yield made
            (group / "cpu.cfs_quota_us").write_text("-1")
    finally:
        for left in (group / "cgroup.procs").read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(left), signal.SIGKILL)
        group.rmdir()


def _join(group: Path) -> None:
    (group / "cgroup.procs").write_text(str(os.getpid()))
