"""A large workspace from a cold start: the time until each call is answered, memory, stop, restart and disk.

Times are wall clock from the start of the daemon, without derived files. Memory is the resident memory of the daemon
and its children, sampled; pages of mapped files that processes share are counted in each.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

from bench import corpus, machine
from bench.corpus import Made
from bench.house import House, settle
from bench.row import Row, value
from kgd.errors import Unavailable

SEARCHABLE, WARM_GET, RESIDENT_MB, STOP = 60.0, 2.0, 1_200.0, 2.0
LARGE = 1_000_000
AFTER_SEARCH_MB = {100_000: 250.0, LARGE: RESIDENT_MB}
WITHIN = 2_000.0
LOOK, RARELY = 0.1, 1.0
"""Seconds between looks; a look at the status costs the daemon some milliseconds."""


def rows(made: Made, folder: Path) -> Iterator[Row]:
    """A cold start, a stop during embedding, a warm start, rest, and a stop."""
    derived = made.layout.git_dir / "kgd"
    shutil.rmtree(derived, ignore_errors=True)
    house = House(folder)
    try:
        yield from _cold(house, made)
        yield from _warm(house, made)
    finally:
        house.stop()
    size = sum(file.stat().st_size for file in derived.rglob("*") if file.is_file())
    yield _row(made, "derived files", "MB", size / 2**20)


def _cold(house: House, made: Made) -> Iterator[Row]:
    begun = time.monotonic()
    house.start()
    with Watch(house.pid) as watch:
        up(house, made)
        yield _row(made, "cold until `up` answers", "s", time.monotonic() - begun)
        answered(house, "get", uris=[corpus.uri_of(0)])
        yield _row(made, "cold until the first get", "s", time.monotonic() - begun)
        answered(house, "search", query="lease")
        yield _row(made, "cold until words of some texts are searchable", "s", time.monotonic() - begun, SEARCHABLE)
        wait(lambda: state(house, "index")["state"] == "ok")
        yield _row(made, "cold until words of all texts are searchable", "s", time.monotonic() - begun, SEARCHABLE)
        answered(house, "search", query="lease")
        yield _memory(made, "memory of all processes after a first search", watch, AFTER_SEARCH_MB)
    begun = time.monotonic()
    house.stop()
    yield _row(made, "stop while texts are embedded", "s", time.monotonic() - begun, STOP)


def _warm(house: House, made: Made) -> Iterator[Row]:
    begun = time.monotonic()
    house.start()
    answered(house, "get", uris=[corpus.uri_of(0)])
    yield _row(made, "warm until the first get", "s", time.monotonic() - begun, WARM_GET)
    answered(house, "search", query="lease")
    yield _row(made, "warm until the first search", "s", time.monotonic() - begun)
    with Watch(house.pid) as watch:
        settle(house.call, WITHIN)
        yield _row(made, "warm until all texts are embedded", "s", time.monotonic() - begun)
        machine.wait_for_rest(house.pid)
        yield _memory(made, "memory of all processes at rest", watch, {LARGE: RESIDENT_MB})
    begun = time.monotonic()
    house.stop()
    yield _row(made, "stop at rest", "s", time.monotonic() - begun, STOP)


def _row(made: Made, what: str, unit: str, figure: float, target: float | None = None) -> Row:
    return value(what, unit, figure, target if made.nodes == LARGE else None, nodes=made.nodes)


def _memory(made: Made, what: str, watch: Watch, targets: Mapping[int, float]) -> Row:
    now = watch.read()
    return value(what, "MB", now, targets.get(made.nodes), nodes=made.nodes, note=f"peak {watch.most:.0f} MB")


class Watch:
    """Samples the memory of a process and its children, in MB, until the end of the block."""

    def __init__(self, pid: int) -> None:
        self.most = 0.0
        self._pid, self._stopping = pid, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def read(self) -> float:
        now = machine.memory_of_all({self._pid, *machine.children(self._pid)})
        self.most = max(self.most, now)
        return now

    def _run(self) -> None:
        while not self._stopping.wait(LOOK):
            self.read()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopping.set()
        self._thread.join()


def up(house: House, made: Made) -> None:
    patiently(lambda: house.call("up", directory=str(made.layout.work_tree), standalone=True))


def answered(house: House, name: str, **arguments: Any) -> dict[str, Any]:
    return patiently(lambda: house.call(name, **{"workspace": corpus.WORKSPACE, **arguments}))


def patiently(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Repeat a call that is refused because something is being built."""
    deadline = time.monotonic() + WITHIN
    while True:
        try:
            return call()
        except Unavailable:
            if time.monotonic() > deadline:
                raise
            time.sleep(LOOK)


def state(house: House, stage: str) -> dict[str, Any]:
    stages = answered(house, "status")["stages"]
    return next(one for one in stages if one["name"] == stage)


def wait(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not after {WITHIN:g} s")
        time.sleep(RARELY)
