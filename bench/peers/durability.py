"""Acknowledged notes that are missing after two clients wrote at once, and after `kill -9` in the middle of writes.

`kill -9` ends the processes and leaves the machine running: it says nothing about a power failure.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.host import Host
from bench.peers.notes import Note, note
from bench.peers.servers import Refused, Server, call, holds

SHARED, KILLED = 2_000_000, 3_000_000
"""Numbers of the first new notes."""


@dataclass(frozen=True, slots=True)
class TwoWriters:
    seconds: float
    errors: int
    missing: int
    """Acknowledged notes that a later process does not find."""


@dataclass(frozen=True, slots=True)
class Kills:
    acknowledged: int
    missing: int
    starts: int
    """Kills after which the server answered a `get` again."""


def two_writers(server: Server, notes: int) -> TwoWriters:
    """Two clients that write so many notes each, at once, each through its own process."""
    hosts = [server.open(), server.open()]
    for host in hosts:
        call(host, server.search("lease"))
    acknowledged: list[Note] = []
    errors: list[str] = []

    def write(host: Host, first: int) -> None:
        for number in range(first, first + notes):
            new = note(number)
            try:
                call(host, server.write(new))
            except (Refused, OSError, ValueError) as error:
                errors.append(str(error))
            else:
                acknowledged.append(new)

    threads = [
        threading.Thread(target=write, args=(host, SHARED + which * notes), daemon=True)
        for which, host in enumerate(hosts)
    ]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = time.perf_counter() - begun
    server.stop()
    missing = _missing(server.open(), server, acknowledged)
    server.stop()
    return TwoWriters(took, len(errors), missing)


def kills(server: Server, rounds: int, writes: int) -> Kills:
    """Kill all processes of the server at a random moment among so many writes, and look for the acknowledged notes.

    Ends early after a kill from which the server does not recover.
    """
    chance = random.Random(9)
    acknowledged = missing = starts = 0
    host = server.open()
    for number in range(rounds):
        new = [note(KILLED + number * writes + one) for one in range(writes)]
        before = 1 + chance.randrange(writes - 1)
        begun = time.perf_counter()
        for one in new[:before]:
            call(host, server.write(one))
        typical = (time.perf_counter() - begun) / before
        tool, arguments = server.write(new[before])
        host.send("tools/call", {"name": tool, "arguments": arguments})
        time.sleep(chance.random() * typical)
        server.kill()
        acknowledged += before
        try:
            host = server.open()
            missing += _missing(host, server, new[:before])
            starts += 1
        except (OSError, ValueError):
            missing += before
            break
    server.stop()
    return Kills(acknowledged, missing, starts)


def _missing(host: Host, server: Server, notes: Sequence[Note]) -> int:
    return sum(not _is_there(host, server, one) for one in notes)


def _is_there(host: Host, server: Server, wanted: Note) -> bool:
    try:
        return holds(call(host, server.get(wanted)), wanted)
    except Refused:
        return False
