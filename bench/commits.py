"""Durable commits in process, measured against flushed commits of libgit2 and against an append.

Each change is a commit of its own on the same history of the same size. kgd runs as in the daemon, with publication
and index. libgit2 only gets the setting for durability (`enable_fsync_gitdir`): no validation, no read-back, no graph.
Variants take turns; figures are wall clock.
"""

from __future__ import annotations

import gc
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pygit2

from bench import corpus
from bench.corpus import Made
from bench.row import Row, compare, percentile
from kgd.codec import documents, paths
from kgd.daemon.process import COLLECT_EVERY, SWITCH_SECONDS
from kgd.git.objects import ObjectId, signature
from kgd.git.staging import Staging
from kgd.graph.traverse import traverse
from kgd.model.change import Author, ChangeSet, Upsert
from kgd.model.node import Node
from kgd.workspace.publishing import adoption
from kgd.workspace.workspace import Workspace

ONE_WRITER, RATE, APPEND, STALL, READS = 0.6, 8.0, 0.25, 1.0, 2.0
WRITERS = 32
ROUNDS = 5
SINGLE = 40
"""Changes of one writer."""
BURST_SECONDS = 1.2
EMBEDDING_SECONDS = 60.0
READS_WANTED, JOBS = 300, 20
"""A background job is repeated, at most so many times, until there are enough reads beside it for a p99."""
ANN = Author("Ann", "ann@example.org", "bench")


def rows(made: Made, folder: Path, *, rounds: int = ROUNDS, seconds: float = BURST_SECONDS) -> list[Row]:
    """kgd writes to `made`, the peer to a copy in `folder`."""
    interval, collected = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(COLLECT_EVERY)
    raw = Raw(made, folder / "raw.git")
    log = os.open(folder / "append", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    workspace = Workspace.open(made.layout)
    try:
        workspace.text().search("lease")
        mine = Mine(workspace, made)
        return [
            _one_writer(mine, raw, made, rounds),
            *_many_writers(mine, raw, log, made, rounds, seconds),
            *_reads(mine, made, seconds),
        ]
    finally:
        workspace.close()
        os.close(log)
        sys.setswitchinterval(interval)
        gc.set_threshold(*collected)


class Mine:
    """Changes through the only write path."""

    def __init__(self, workspace: Workspace, made: Made) -> None:
        self.workspace, self._made = workspace, made

    def commit(self, chance: random.Random) -> None:
        self.submit([corpus.newcomer(self._made.nodes, chance)])

    def submit(self, nodes: list[Node]) -> None:
        edits = tuple(
            Upsert(
                n.uri,
                type=n.type,
                name=n.name,
                summary=n.summary,
                content=n.content,
                tags=n.tags,
                relations=n.relations,
                data=n.data,
            )
            for n in nodes
        )
        self.workspace.submit(ChangeSet(edits, ANN))

    def settled(self) -> None:
        settled(self.workspace)


def settled(workspace: Workspace) -> None:
    """Wait until publication and index are idle, so that they do not disturb the next measurement."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        stages = workspace.health()
        if all(stages[name].state == "ok" for name in ("publish", "index")):
            return
        time.sleep(0.02)


class Raw:
    """The plain libgit2 way: blob, trees and commit as loose objects, then the ref, each of them flushed."""

    def __init__(self, made: Made, git_dir: Path) -> None:
        command = ["git", "clone", "-q", "--bare", "--no-hardlinks", str(made.layout.git_dir), str(git_dir)]
        subprocess.run(command, check=True)
        pygit2.settings.enable_fsync_gitdir(True)
        self._repository = pygit2.Repository(str(git_dir))
        self._branch, self._nodes = made.layout.branch, made.nodes
        self._lock = threading.Lock()

    def commit(self, chance: random.Random) -> None:
        new = corpus.newcomer(self._nodes, chance)
        path, data = paths.path_of(new.uri), documents.encode(new)
        with self._lock:
            repository = self._repository
            tip: Any = repository[repository.references[self._branch].target]
            blob = repository.create_blob(data)
            tree = self._edited(tip.tree, path.split("/"), blob)
            who = pygit2.Signature("Ann", "ann@example.org")
            repository.create_commit(self._branch, who, who, "put", tree, [tip.id])

    def _edited(self, tree: Any, names: list[str], blob: Any) -> Any:
        builder = self._repository.TreeBuilder(tree)
        if len(names) == 1:
            builder.insert(names[0], blob, pygit2.enums.FileMode.BLOB)
        else:
            below = self._edited(tree[names[0]], names[1:], blob)
            builder.insert(names[0], below, pygit2.enums.FileMode.TREE)
        return builder.write()


def _one_writer(mine: Mine, raw: Raw, made: Made, rounds: int) -> Row:
    chance = random.Random()
    times: dict[str, list[float]] = {"kgd": [], "raw": []}
    for commit in (mine.commit, raw.commit):
        commit(chance)
    for _ in range(rounds * SINGLE // ROUNDS):
        for name, commit in (("kgd", mine.commit), ("raw", raw.commit)):
            times[name].append(_timed(lambda commit=commit: commit(chance)))  # type: ignore[misc]
    ours, theirs = (statistics.median(times[name]) * 1e3 for name in ("kgd", "raw"))
    peer = "libgit2 commit with fsync"
    return compare("durable commit, one writer", peer, "ms", ours, theirs, ONE_WRITER, nodes=made.nodes)


def _many_writers(mine: Mine, raw: Raw, log: int, made: Made, rounds: int, seconds: float) -> list[Row]:
    rates: dict[str, list[float]] = {"kgd": [], "raw": [], "raw 32": [], "append": []}
    stalls: dict[str, list[float]] = {"kgd": [], "raw": []}

    def append(_: random.Random) -> None:
        os.write(log, b"x" * 685)
        os.fdatasync(log)

    for _ in range(rounds):
        mine.settled()
        with _stall(stalls["kgd"]):
            rates["kgd"].append(rate(mine.commit, WRITERS, seconds))
        mine.settled()
        with _stall(stalls["raw"]):
            rates["raw 32"].append(rate(raw.commit, WRITERS, seconds))
        rates["raw"].append(rate(raw.commit, 1, seconds / 2))
        rates["append"].append(rate(append, 1, seconds / 4))
    middle = {name: statistics.median(found) for name, found in rates.items()}
    ours, theirs = (statistics.median(found) * 1e3 for found in stalls.values())
    what = f"durable commits, {WRITERS} writers"
    peer = "libgit2 commit with fsync"
    return [
        compare(
            what,
            f"{peer}, one writer",
            "per_s",
            middle["kgd"],
            middle["raw"],
            RATE,
            nodes=made.nodes,
            note=f"libgit2 with {WRITERS} writers {middle['raw 32']:.0f}/s",
        ),
        compare(
            what, "append and fdatasync, one writer", "per_s", middle["kgd"], middle["append"], APPEND, nodes=made.nodes
        ),
        compare(
            f"longest stall of another thread under {WRITERS} writers",
            peer,
            "ms",
            ours,
            theirs,
            STALL,
            nodes=made.nodes,
            note="median of the longest of each burst",
        ),
    ]


def _theirs(mine: Mine, made: Made, base: ObjectId, first: int) -> ObjectId:
    """A colleague's commit on `base`, with a new summary in one node of a hundred from the first."""
    store = mine.workspace.store
    staging = Staging(store, store.tree_of(base))
    for number in range(first, made.nodes, 100):
        path = paths.path_of(corpus.uri_of(number))
        data = staging.read(path)
        assert data is not None
        staging.put(path, documents.encode(replace(documents.decode(data), summary=f"by a colleague {number}")))
    made_by = signature(ANN, store.commit(base).committer.time)
    commit = staging.commit(staging.write_tree(), [base], made_by, "a colleague's\n")
    store.release(store.write(staging.objects))
    return commit


def _reads(mine: Mine, made: Made, seconds: float) -> list[Row]:
    """Reads during a background job that must not delay them, against the same reads before it.

    A short job is repeated, since the p99 of a few reads is the longest of them.
    """
    git_dir = made.layout.git_dir
    chance = random.Random()
    many = min(2_000, made.nodes)

    def publication() -> None:
        mine.submit([corpus.newcomer(made.nodes, chance) for _ in range(many)])
        mine.settled()

    def repack() -> None:
        subprocess.run(["git", "--git-dir", git_dir, "repack", "-adq", "--window=0", "--threads=1"], check=True)

    base = bytes.fromhex(mine.workspace.tip)
    colleagues = [_theirs(mine, made, base, first) for first in range(JOBS)]

    def merge() -> None:
        mine.workspace.run(adoption.merge(mine.workspace, colleagues.pop()), alone=True)
        mine.settled()

    def embedding() -> None:
        mine.workspace.meaning.follow()
        mine.workspace.meaning.catch_up(EMBEDDING_SECONDS)

    found = []
    for what, work in (
        ("a large change, its index and its publication", publication),
        ("a merge of two trees, 1 % edited on theirs, and its publication", merge),
        ("embedding all texts", embedding),
        ("a repack", repack),  # the last: it drops unreachable objects, such as their commit before the merge
    ):
        mine.settled()
        end = time.monotonic() + seconds
        idle = read_until(mine.workspace, made, lambda end=end: time.monotonic() > end)  # type: ignore[misc]
        busy = list[float]()
        for _ in range(JOBS):
            thread = threading.Thread(target=work)
            thread.start()
            busy += read_until(mine.workspace, made, lambda thread=thread: not thread.is_alive())  # type: ignore[misc]
            thread.join()
            if len(busy) >= READS_WANTED:
                break
        ours, theirs = (percentile(times, 0.99) * 1e3 for times in (busy, idle))
        found.append(
            compare(f"p99 of reads during {what}", "idle", "ms", ours, theirs, READS, nodes=made.nodes, reads=len(busy))
        )
    return found


def read_until(workspace: Workspace, made: Made, done: Callable[[], bool]) -> list[float]:
    """One thread that walks and reads, at a human pace rather than as a rival for the processor."""
    chance, times = random.Random(1), list[float]()
    while not done():
        uri = corpus.uri_of(chance.randrange(made.nodes))
        begun = time.perf_counter()
        traverse(workspace.sources(), [uri], max_nodes=100)
        workspace.node(uri)
        times.append(time.perf_counter() - begun)
        time.sleep(0.001)
    return times


def rate(commit: Callable[[random.Random], None], writers: int, seconds: float) -> float:
    """Commits a second of so many threads, each waiting for its own commits."""
    counts = [0] * writers
    end = time.perf_counter() + seconds

    def write(number: int) -> None:
        chance = random.Random()
        while time.perf_counter() < end:
            commit(chance)
            counts[number] += 1

    threads = [threading.Thread(target=write, args=(number,)) for number in range(writers)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - begun)


@contextmanager
def _stall(found: list[float]) -> Any:
    """Records the worst delay of another thread's wake-up."""
    stop, longest = threading.Event(), [0.0]

    def tick() -> None:
        last = time.perf_counter()
        while not stop.is_set():
            time.sleep(0.001)
            now = time.perf_counter()
            longest[0] = max(longest[0], now - last)
            last = now

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        found.append(longest[0])


def _timed(action: Callable[[], None]) -> float:
    begun = time.perf_counter()
    action()
    return time.perf_counter() - begun
