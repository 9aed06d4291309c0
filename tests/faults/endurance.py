"""A daemon under long load by one client with many concurrent calls, and its resource use."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

from kgd.client import start
from kgd.config import Home
from kgd.daemon.endpoint import WORKERS
from kgd.daemon.process import holder
from kgd.git import pack
from kgd.git.pack_upkeep import FANOUT, GROWTH, ROLLED, level_of
from kgd.index.change_feed import GONE_KEPT
from kgd.index.database import LOG_KEPT
from kgd.workspace.repository import LOOK_FLUSHES
from tests.conftest import ROOT
from tests.daemon.conftest import end_daemon
from tests.waiting import until

NODES = 1_000
CACHES_FILL = 20_000
"""Writes after the warm-up in which caches of recent versions fill. Memory may grow by 5 % in them, and by 5 % after
them."""
GONE_BYTES = 14
"""Bytes of one recorded removal of a text. Each write removes a text, and the text index keeps the last `GONE_KEPT`
removals for its readers."""
SEGMENTS = 1.25
"""Factor by which the other derived data may grow. It describes the same thousand nodes, so only the number of full
text's segments varies; measured 1.05. SQLite's logs are truncated before a daemon is settled."""
UNDER_WAY = 32
"""Concurrent calls: each flush has several, so packs come and go as with many clients."""


@dataclass(frozen=True, slots=True)
class Vitals:
    """Resource use of a daemon at rest. Sizes in KiB; `repository` counts only the objects.

    `settled`: freed memory and unused disk space had been returned to the system. `kept`: descriptors of closed
    connections, which SQLite keeps for reuse while another connection holds a lock; at most as many as threads have
    used a file at once. `descriptors` does not count them.
    """

    settled: bool
    descriptors: int
    kept: int
    threads: int
    rss: int
    anonymous: int
    packs: int
    derived: int
    repository: int


class Served:
    """A daemon with one workspace, and one connection to it."""

    def __init__(self, home: Home, directory: Path) -> None:
        self.home, self.git_dir = home, directory / ".git"
        self._sock = _connected(home, "call", str(directory))
        self._answers = self._sock.makefile("rb")
        self.pid = int(str(holder(home.lock)["pid"]))

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        return self.many(name, [arguments])[0]

    def many(self, name: str, calls: Iterable[dict[str, Any]], under_way: int = UNDER_WAY) -> list[dict[str, Any]]:
        """The results of the calls, in the order of their ends. An error fails the test."""
        waiting, found = enumerate(calls), []
        left = 0
        while batch := list(islice(waiting, under_way - left)) or left:
            if isinstance(batch, list):
                lines = [json.dumps({"id": number, "call": name, "args": args}) + "\n" for number, args in batch]
                self._sock.sendall("".join(lines).encode())
                left += len(batch)
            answer = json.loads(self._answers.readline())
            if "progress" in answer:
                continue
            assert "error" not in answer, answer
            found.append(answer["result"])
            left -= 1
        return found

    def write(self, first: int, count: int, folders: int = 1) -> None:
        """Overwrite nodes one after the other, a commit each; the thousandth write comes back to the first node."""
        self.many("put", ({"changes": [_upsert(number, folders)]} for number in range(first, first + count)))

    def read(self, count: int, folders: int = 1) -> None:
        found = self.many("get", ({"uris": [_uri(number, folders)]} for number in range(count)))
        assert all(len(answer["nodes"]) == 1 for answer in found)

    def start_workers(self) -> None:
        """Make enough concurrent calls for the daemon to start all of its threads, which it starts on demand."""
        bursts_without_a_new_thread, most = 0, 0  # on a busy machine, other threads end and start between two bursts
        while bursts_without_a_new_thread < 3:
            self.many("doctor", [{}] * WORKERS, under_way=WORKERS)
            threads = len(os.listdir(f"/proc/{self.pid}/task"))
            bursts_without_a_new_thread = 0 if threads > most else bursts_without_a_new_thread + 1
            most = max(most, threads)

    def load_sdk(self) -> None:
        """Load the MCP SDK by a request, so that the daemon does not load it between two measurements."""
        parameters = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters}
        with _connected(self.home, "mcp") as sock, sock.makefile("rb") as answers:
            sock.sendall(json.dumps(request).encode() + b"\n")
            assert "result" in json.loads(answers.readline())

    def vitals(self, *, settled: bool = False) -> Vitals:
        """Measure once the changes are indexed, published and rolled up.

        `settled`: also wait until memory is returned to the system, which takes seconds without a change or a roll-up.
        """
        until(self._rests, 300)
        if settled:
            last = [time.monotonic(), self._rss()]
            until(lambda: self._is_settled(last), 60)
        status = Path(f"/proc/{self.pid}/status").read_text()
        opened = self._open_files()
        kept = sum(name.endswith(".sqlite") for name in opened) - sum(name.endswith(".sqlite-wal") for name in opened)
        return Vitals(
            settled=settled,
            descriptors=len(opened) - kept,
            kept=kept,
            threads=_number(status, "Threads"),
            rss=_number(status, "VmRSS"),
            anonymous=_number(status, "RssAnon"),
            packs=len(list((self.git_dir / "objects/pack").glob("*.pack"))),
            derived=_size(self.git_dir / "kgd"),
            repository=_size(self.git_dir / "objects"),
        )

    def _open_files(self) -> list[str]:
        found = list[str]()
        for descriptor in Path(f"/proc/{self.pid}/fd").iterdir():
            with suppress(OSError):  # it has been closed
                found.append(os.readlink(descriptor))
        return found

    def _rss(self) -> int:
        return _number(Path(f"/proc/{self.pid}/status").read_text(), "VmRSS")

    def _is_settled(self, last: list[float]) -> bool:
        """Whether resident memory stayed within 1 MiB for four seconds without a roll-up or a long log of SQLite.

        `last` is the time of the last change, and the memory then.
        """
        has_long_log = any(log.stat().st_size > LOG_KEPT for log in (self.git_dir / "kgd").glob("*.sqlite-wal"))
        if abs((now := self._rss()) - last[1]) > 1024 or self._has_children() or has_long_log:
            last[:] = time.monotonic(), now
        return time.monotonic() - last[0] > 4

    def objects(self) -> int:
        return sum(map(pack.count_of, pack.stems(self.git_dir / "objects/pack")))

    def after_a_repack(self) -> int:
        """KiB of objects in a freshly packed copy."""
        with tempfile.TemporaryDirectory(dir=self.git_dir.parent.parent) as copy:
            subprocess.run(["git", "clone", "-q", "--bare", "--no-local", self.git_dir, copy], check=True)
            subprocess.run(["git", "-C", copy, "fetch", "-q", "origin", "refs/kgd/*:refs/kgd/*"], check=True)
            subprocess.run(["git", "-C", copy, "repack", "-adfq"], check=True)
            return _size(Path(copy, "objects"))

    def close(self) -> None:
        self._answers.close()
        self._sock.close()

    def _rests(self) -> bool:
        if any(stage["state"] == "waiting" for stage in self.call("status")["stages"]):
            return False
        keeps = (self.git_dir / "objects/pack").glob("*.keep")
        return not self._has_children() and all(keep.read_bytes() == ROLLED for keep in keeps)

    def _has_children(self) -> bool:
        """Whether git runs for the daemon. A child is listed with the thread that started it."""
        for thread in Path(f"/proc/{self.pid}/task").iterdir():
            with suppress(OSError):  # the thread has ended
                if (thread / "children").read_text().strip():
                    return True
        return False


def _connected(home: Home, kind: str, cwd: str = "") -> socket.socket:
    sock = start.connect(home, start.hello(kind, "endurance", cwd=cwd), start=False)
    assert sock
    return socket.socket(fileno=sock.detach())


@contextmanager
def serving(folder: Path, **environment: str) -> Iterator[Served]:
    """A daemon in `folder`, with a workspace of a thousand nodes."""
    home, directory = Home.at(str(folder / "home")), folder / "knowledge"
    directory.mkdir()
    command = [sys.executable, "-P", "-m", "kgd.cli", "up", "--standalone", "--quiet"]
    around = {**os.environ, "KGD_HOME": home.config, "PYTHONPATH": str(ROOT), **environment}
    subprocess.run(command, cwd=directory, env=around, check=True)
    served = Served(home, directory)
    try:
        yield served
    finally:
        served.close()
        end_daemon(home)


def lived_through(
    served: Served, writes: int, reads: int, *, warm: int = 2_000, folders: int = 20, parts: int = 10
) -> Iterator[Vitals]:
    """Vitals after the warm-up, and after each of some equal parts of the writes and reads."""
    served.load_sdk()
    served.start_workers()
    served.write(0, warm, folders)
    served.read(NODES, folders)
    yield served.vitals(settled=True)
    for part in range(parts):
        served.write(warm + part * writes // parts, writes // parts, folders)
        served.read(reads // parts, folders)
        written = (part + 1) * writes // parts
        yield served.vitals(settled=written in (CACHES_FILL, writes))


def complaints(served: Served, seen: list[Vitals]) -> list[str]:
    """The growth of a daemon; the first of `seen` is after the warm-up."""
    first, last = seen[0], seen[-1]
    found = []
    if last.descriptors > first.descriptors + 8:
        found.append(f"descriptors: {first.descriptors}, later {last.descriptors}")
    if last.kept > last.threads:
        found.append(f"descriptors that SQLite keeps: {first.kept}, later {last.kept}")
    if last.threads > first.threads + 2:
        found.append(f"threads: {first.threads}, later {last.threads}")
    for earlier, later in pairwise(vitals.rss for vitals in seen if vitals.settled):
        if later > 1.05 * earlier:
            found.append(f"resident memory: {earlier} KiB, later {later} KiB")
    if last.packs > (most := most_packs(served.objects())):
        found.append(f"packs: {first.packs}, later {last.packs}, more than {most}")
    if last.derived > (bound := most_derived(first)):
        found.append(f"derived data: {first.derived} KiB, later {last.derived} KiB, more than {bound} KiB")
    fresh = served.after_a_repack()
    if last.repository > 1.5 * fresh:
        found.append(f"repository: {last.repository} KiB, repacked {fresh} KiB")
    return found


def most_packs(objects: int) -> int:
    """The number of packs before the next roll-up, if each level is one pack short of it.

    The lowest level may have a few more, since the packs are counted only every few flushes. The levels grow with the
    logarithm of the history.
    """
    return FANOUT - 1 + LOOK_FLUSHES + level_of(objects) * (GROWTH - 1)


def most_derived(first: Vitals) -> int:
    return int(SEGMENTS * first.derived) + (GONE_KEPT * GONE_BYTES >> 10)


def line(at: int, vitals: Vitals) -> str:
    return f"{at:3} % " + ", ".join(f"{name} {value}" for name, value in asdict(vitals).items() if name != "settled")


def _uri(number: int, folders: int) -> str:
    return f"concept://knowledge/f{number % folders}/n{number % NODES}"


def _upsert(number: int, folders: int) -> dict[str, Any]:
    name = f"n{number % NODES}"
    return {"op": "upsert", "uri": _uri(number, folders), "name": name, "summary": f"version {number}"}


def _number(status: str, name: str) -> int:
    return int(status.partition(f"{name}:")[2].split()[0])


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) >> 10
