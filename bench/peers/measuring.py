"""The measurements: each server answers the same calls in turn, block by block, over the same notes.

The servers run side by side during reads and writes, each with one client; before a block of writes the others are at
rest. A server that fails or takes too long is not measured further, and the others are.
"""

from __future__ import annotations

import random
import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import machine
from bench.host import Host
from bench.limit import at_most
from bench.peers import durability
from bench.peers.notes import Note, Question, any_words, key, note, phrase
from bench.peers.servers import SERVERS, Call, Kgd, Refused, Server, call, holds
from bench.row import Row, missing, percentile, value

FIRST_NEW = 1_000_000
PLACES = 5
FILL_SECONDS = 900.0
"""For storing all notes of one size; a server that needs longer is not measured at this size."""
CALLS_SECONDS = 120.0
"""For all calls of one kind; after this time the calls so far count."""
PHASE_SECONDS = 900.0
REST_SECONDS = 10.0
RATIOS = ("ms", "s", "MB")
_KEY = re.compile(r"\bn\d{7}\b")

Ask = Callable[[Server, int], Call]
See = Callable[[Server, int, str], None]
Times = dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Effort:
    """How often things are measured."""

    blocks: int = 5
    calls: int = 40
    """Per block and kind."""
    starts: int = 5
    shared: int = 200
    """Notes of each of two writers."""
    kills: int = 10
    killed_writes: int = 50


FULL = Effort()


def rows(
    folder: Path, sizes: Sequence[int], effort: Effort = FULL, kinds: Sequence[type[Server]] = SERVERS
) -> Iterator[Row]:
    """Rows of all sizes. Two writers and kills are measured at the smallest size."""
    absent = {kind.name: kind.absent() for kind in kinds}
    yield from (missing("all calls", name, why) for name, why in absent.items() if why)
    for notes in sizes:
        servers = [kind(folder / f"{notes}" / kind.name) for kind in kinds if not absent[kind.name]]
        comparison = Comparison(servers, notes, effort)
        try:
            yield from comparison.speed()
            if notes == min(sizes):
                yield from comparison.safety()
        finally:
            for server in servers:
                server.kill()


class Comparison:
    """All servers over so many notes."""

    def __init__(self, servers: Sequence[Server], notes: int, effort: Effort) -> None:
        self._servers, self._notes, self._effort = list(servers), notes, effort
        self._hosts: dict[str, Host] = {}
        self._chance = random.Random(notes)
        self._failed: list[Row] = []
        self._versions = {server.name: server.version() for server in servers}

    def speed(self) -> Iterator[Row]:
        stored = [note(number) for number in range(self._notes)]
        self._each("storing the notes", lambda server: server.fill(stored), FILL_SECONDS)
        self._each("a start", self._connect)
        self._each("the work after a start", self._rest)
        yield from self._rows("disk", "MB", {server.name: server.disk_mb() for server in self._servers})
        chosen = [self._chance.choice(stored) for _ in range(self._calls)]
        yield from self._gets(chosen)
        yield from self._searches("a phrase of three words", [phrase(one.number, self._chance) for one in chosen])
        yield from self._searches("three words of a note", [any_words(one.number, self._chance) for one in chosen])
        yield from self._rows("memory", "MB", {server.name: server.memory_mb() for server in self._servers})
        yield from self._writes()
        self._each("a stop", self._disconnect)
        yield from self._starts(chosen)
        yield from self._failures()

    def safety(self) -> Iterator[Row]:
        effort = self._effort
        together: dict[str, durability.TwoWriters] = {}
        killed: dict[str, durability.Kills] = {}

        def both(server: Server) -> None:
            together[server.name] = durability.two_writers(server, effort.shared)

        def kill(server: Server) -> None:
            killed[server.name] = durability.kills(server, effort.kills, effort.killed_writes)

        self._each("two writers", both)
        what = f"two writers, {effort.shared} notes each"
        yield from self._rows(what, "s", {name: found.seconds for name, found in together.items()})
        yield from self._rows(f"{what}: errors", "calls", {name: found.errors for name, found in together.items()})
        lost = {name: found.missing for name, found in together.items()}
        yield from self._rows(f"{what}: acknowledged notes missing", "notes", lost)
        self._each("kill -9", kill)
        counts = {name: f"of {found.acknowledged}" for name, found in killed.items()}
        lost = {name: found.missing for name, found in killed.items()}
        yield from self._rows("kill -9: acknowledged notes missing", "notes", lost, counts)
        what = f"kill -9: starts after {effort.kills} kills"
        yield from self._rows(what, "starts", {name: found.starts for name, found in killed.items()})
        yield from self._failures()

    @property
    def _calls(self) -> int:
        return self._effort.blocks * self._effort.calls

    def _gets(self, chosen: Sequence[Note]) -> Iterator[Row]:
        def see(server: Server, number: int, text: str) -> None:
            if not holds(text, chosen[number]):
                raise Refused(f"get: not the note {chosen[number].title}")

        times = self._in_turn("get", lambda server, number: server.get(chosen[number]), see)
        yield from self._rows("get, median", "ms", _ms(times, 0.5))

    def _searches(self, what: str, questions: Sequence[Question]) -> Iterator[Row]:
        found: dict[str, list[bool]] = {server.name: [] for server in self._servers}

        def see(server: Server, number: int, text: str) -> None:
            found[server.name].append(is_among_first(text, questions[number].note))

        times = self._in_turn(f"search for {what}", lambda server, number: server.search(questions[number].words), see)
        yield from self._rows(f"search for {what}, median", "ms", _ms(times, 0.5))
        share = {name: 100 * sum(hits) / len(hits) for name, hits in found.items() if name in times}
        yield from self._rows(f"search for {what}: note among the first {PLACES}", "%", share)

    def _writes(self) -> Iterator[Row]:
        new = [note(FIRST_NEW + number) for number in range(self._calls)]
        times = self._in_turn("write", lambda server, number: server.write(new[number]), rest=True)
        yield from self._rows("write, median", "ms", _ms(times, 0.5))
        yield from self._rows("write, p99", "ms", _ms(times, 0.99))

    def _starts(self, chosen: Sequence[Note]) -> Iterator[Row]:
        """From the start of a server's process, with no other process of it, to its first answers."""
        listed: Times = {server.name: [] for server in self._servers}
        read: Times = {server.name: [] for server in self._servers}

        def start(server: Server) -> None:
            begun = time.perf_counter()
            self._hosts[server.name] = host = server.open()
            listed[server.name].append(time.perf_counter() - begun)
            call(host, server.get(chosen[0]))
            read[server.name].append(time.perf_counter() - begun)
            self._disconnect(server)

        for _ in range(self._effort.starts):
            self._each("a start over existing notes", start)
        yield from self._rows("first contact: `initialize` and `tools/list`", "ms", _ms(listed, 0.5))
        yield from self._rows("first answered get", "ms", _ms(read, 0.5))

    def _in_turn(self, what: str, ask: Ask, see: See | None = None, *, rest: bool = False) -> Times:
        """Seconds of each server's calls: block by block, and in each block server by server.

        `see` gets the text of each answer. With `rest`, the servers finish their work after each block.
        """
        times: Times = {server.name: [] for server in self._servers}

        def block(server: Server) -> None:
            spent = times[server.name]
            for number in numbers:
                if sum(spent) > CALLS_SECONDS:
                    return
                asked = ask(server, number)
                begun = time.perf_counter()
                text = call(self._hosts[server.name], asked)
                spent.append(time.perf_counter() - begun)
                if see:
                    see(server, number, text)
            if rest:
                self._rest(server)

        for first in range(0, self._calls, self._effort.calls):
            numbers = range(first, first + self._effort.calls)
            self._each(what, block)
        return {server.name: times[server.name] for server in self._servers}

    def _each(self, what: str, action: Callable[[Server], None], seconds: float = PHASE_SECONDS) -> None:
        """Do it with each server. A server that fails is not measured further."""
        for server in list(self._servers):
            try:
                with at_most(seconds):
                    action(server)
            except (Refused, OSError, ValueError, subprocess.SubprocessError) as error:
                self._servers.remove(server)
                self._failed.append(missing(f"from {what} on, {self._notes:,} notes", server.name, f"{error}"[:300]))
                server.kill()

    def _failures(self) -> Iterator[Row]:
        yield from self._failed
        self._failed = []

    def _connect(self, server: Server) -> None:
        self._hosts[server.name] = server.open()

    def _disconnect(self, server: Server) -> None:
        server.stop()
        del self._hosts[server.name]

    def _rest(self, server: Server) -> None:
        machine.wait_for_rest(*server.pids(), seconds=REST_SECONDS)

    def _rows(
        self, what: str, unit: str, figures: Mapping[str, float], notes: Mapping[str, str] | None = None
    ) -> Iterator[Row]:
        """A row for each server, with kgd's figure as a ratio where figures are times or sizes."""
        ours = figures.get(Kgd.name)
        for name, figure in figures.items():
            more: dict[str, Any] = {"measure": what, "server": name, "version": self._versions[name]}
            if ours is not None and unit in RATIOS and name != Kgd.name and figure:
                more["ratio_of_kgd"] = round(ours / figure, 3)
            if notes:
                more["note"] = notes[name]
            yield value(f"{what}: {name}", unit, figure, nodes=self._notes, **more)


def table(rows: Sequence[Row]) -> str:
    """The rows of this section as tables of docs/performance.md, one for each size."""
    lines: list[str] = []
    found = [row for row in rows if "measure" in row]
    names = {row["server"]: f"{row['server']} {row['version']}" for row in found}
    for notes in dict.fromkeys(row["nodes"] for row in found):
        lines += ["", f"| {notes:,} notes | {' | '.join(names.values())} |", "|---" * (len(names) + 1) + "|"]
        cells: dict[str, dict[str, str]] = defaultdict(dict)
        for row in found:
            if row["nodes"] == notes:
                cells[row["measure"]][row["server"]] = _cell(row)
        lines += [
            f"| {what} | {' | '.join(by_server.get(name, 'not measured') for name in names)} |"
            for what, by_server in cells.items()
        ]
    return "\n".join(lines) + "\n" if lines else ""


def _cell(row: Row) -> str:
    """`85 ms (0.2)`: in brackets, kgd's figure divided by this one."""
    figure = f"{row['value']:,.3g}" if row["value"] < 1000 else f"{row['value']:,.0f}"
    unit = f" {row['unit']}" if row["unit"] in (*RATIOS, "%") else ""
    ratio = f" ({row['ratio_of_kgd']:.2g})" if "ratio_of_kgd" in row else ""
    return f"{figure}{unit} {row.get('note', '')}".rstrip() + ratio


def is_among_first(text: str, wanted: int) -> bool:
    """Whether a note is among the first results of an answer, which names each by its key."""
    return key(wanted) in list(dict.fromkeys(_KEY.findall(text)))[:PLACES]


def _ms(times: Times, share: float) -> dict[str, float]:
    return {name: percentile(spent, share) * 1e3 for name, spent in times.items() if spent}
