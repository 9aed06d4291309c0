"""Sharing: a round with nothing to do, and the way of one node between two daemons.

The peer is a person with plain git between the same two repositories over the same bare directory, with the installed
git program. Both sides run in this process, since only the time between them is measured.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from bench import corpus
from bench.commits import read_until, settled
from bench.corpus import Made
from bench.row import Row, compare, percentile
from kgd import tools
from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.git.layout import Layout, locate
from kgd.model.change import Author, ChangeSet, Upsert
from kgd.model.node import Node
from kgd.tools.session import Session
from kgd.workspace.answers import Outcome
from kgd.workspace.workspace import Workspace

IDLE, ONE_NODE = 1.3, 2.0
ROUNDS = 15
READS, MERGES, MANY, IDLE_SECONDS = 2.0, 4, 1_000, 1.0
ANN = Author("Ann", "ann@example.org", "bench")
PATIENCE = 30.0


class Replica:
    """A daemon with a copy of the workspace, in step with a bare directory."""

    def __init__(self, made: Made, folder: Path, remote: Path | str, **more: object) -> None:
        home = Home.at(str(folder / "home"))
        home.prepare()
        tree = folder / "tree"
        shutil.copytree(made.layout.git_dir, tree / ".git")
        self.daemon = Daemon(home, since="", locate=locate, open_workspace=Workspace.open)
        self.session = Session(self.daemon, cwd=tree, client="bench", context_id=None)
        self.call("up", directory=str(tree), standalone=True)
        self.call("remote", action="add", name="origin", url=str(remote), **more)
        self.workspace = self.daemon.workspace(directory=tree)
        self.came = threading.Event()
        self.workspace.on_commit(lambda uris: self.came.set())

    def call(self, name: str, /, **arguments: object) -> dict[str, object]:
        return dict(tools.call(self.session, name, arguments))

    def submit(self, *nodes: Node) -> Outcome:
        edits = (Upsert(n.uri, type=n.type, name=n.name, summary=n.summary, content=n.content) for n in nodes)
        return self.edit(*edits)

    def edit(self, *edits: Upsert) -> Outcome:
        return self.workspace.submit(ChangeSet(edits, ANN))

    def arrival(self, commit: str) -> float:
        """Seconds until that commit is the tip here. Clear `came` before making the commit."""
        begun = time.perf_counter()
        while self.workspace.tip != commit:
            if not self.came.wait(PATIENCE):
                raise TimeoutError("the change does not arrive")
            self.came.clear()
        return time.perf_counter() - begun

    @property
    def layout(self) -> Layout:
        return self.workspace.layout


def rows(made: Made, folder: Path, rounds: int = ROUNDS) -> Iterator[Row]:
    remote = folder / "hub.git"
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(remote)], check=True)
    first, second = (Replica(made, folder / name, remote, sync=60) for name in ("first", "second"))
    try:
        yield _idle(first, remote, rounds, made.nodes)
        yield _one_node(first, second, folder, remote, rounds, made.nodes)
        yield _reads(first, second, remote, made)
    finally:
        first.daemon.close()
        second.daemon.close()


def _idle(one: Replica, remote: Path, rounds: int, nodes: int) -> Row:
    times: dict[str, list[float]] = {"kgd": [], "git": []}
    git_dir = str(one.layout.git_dir)
    for _ in range(rounds):
        times["kgd"].append(timed(lambda: one.call("sync")))
        times["git"].append(timed(lambda: git("--git-dir", git_dir, "fetch", "-q", str(remote), "main")))
    ours, theirs = (statistics.median(found) * 1e3 for found in times.values())
    return compare("a sync with nothing to do, bare directory", "git fetch", "ms", ours, theirs, IDLE, nodes=nodes)


def _one_node(first: Replica, second: Replica, folder: Path, remote: Path, rounds: int, nodes: int) -> Row:
    chance = random.Random(7)
    times: dict[str, list[float]] = {"kgd": [], "git": []}
    plain = [folder / "plain-a", folder / "plain-b"]
    for clone in plain:
        git("clone", "-q", "--bare", str(remote), str(clone))
    for _ in range(rounds):
        second.came.clear()
        outcome = first.submit(corpus.newcomer(nodes, chance))
        times["kgd"].append(second.arrival(str(outcome.commit)))
        _commit(plain[0])
        times["git"].append(timed(lambda: _exchange(plain[0], plain[1])))
        time.sleep(0.4)  # one by one, as people make them
    ours, theirs = (statistics.median(found) * 1e3 for found in times.values())
    what = "one node from daemon to daemon, bare directory"
    return compare(what, "git push and git fetch", "ms", ours, theirs, ONE_NODE, nodes=nodes)


def _reads(first: Replica, second: Replica, remote: Path, made: Made) -> Row:
    """Reads at one daemon while it merges and pushes the writes of both, against the same reads before."""
    second.call("remote", action="remove", name="origin")
    second.call("remote", action="add", name="origin", url=str(remote), sync=0)
    chance = random.Random(7)
    many = min(MANY, made.nodes // 2)
    idle, busy = list[float](), list[float]()
    for number in range(MERGES):
        chosen = chance.sample(range(made.nodes), 2 * many)
        for replica, part in ((first, chosen[:many]), (second, chosen[many:])):
            replica.edit(*(Upsert(corpus.uri_of(n), summary=f"of merge {number}") for n in part))
        first.call("sync")
        for replica in (first, second):
            settled(replica.workspace)
        end = time.monotonic() + IDLE_SECONDS
        idle += read_until(second.workspace, made, lambda end=end: time.monotonic() > end)  # type: ignore[misc]
        merging = threading.Thread(target=lambda: second.call("sync"))
        merging.start()
        busy += read_until(second.workspace, made, lambda merging=merging: not merging.is_alive())  # type: ignore[misc]
        merging.join()
        first.call("sync")
    ours, theirs = (percentile(times, 0.99) * 1e3 for times in (busy, idle))
    what = f"p99 of reads during a merge of {many} nodes on either side, and its push"
    return compare(what, "idle", "ms", ours, theirs, READS, nodes=made.nodes, reads=len(busy))


def _commit(clone: Path) -> None:
    """A commit that the remote does not have, on a branch of its own."""
    tree = git("--git-dir", str(clone), "rev-parse", "main^{tree}")
    tip = git("--git-dir", str(clone), "commit-tree", tree, "-p", "main", "-m", f"{time.time_ns()}")
    git("--git-dir", str(clone), "update-ref", "refs/heads/plain", tip)


def _exchange(one: Path, other: Path) -> None:
    git("--git-dir", str(one), "push", "-q", "-f", "origin", "plain")
    git("--git-dir", str(other), "fetch", "-q", "origin", "+plain:plain")


def git(*words: str) -> str:
    who = {f"GIT_{role}_{part}": "ann@example.org" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    done = subprocess.run(["git", *words], check=True, capture_output=True, text=True, env={**os.environ, **who})
    return done.stdout.strip()


def timed(action: object) -> float:
    begun = time.perf_counter()
    action()  # type: ignore[operator]
    return time.perf_counter() - begun
