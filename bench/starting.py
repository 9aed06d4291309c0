"""Starts: from a new process to its first answer, a walk from one node.

Each start is a separate process, on a warm page cache, in turn with its bound: PyYAML's C loader in the same harness
(trees, blobs, YAML, a networkx graph, one walk), or walking the trees and reading all blobs without looking into them.
`python -m bench.starting VARIANT GIT_DIR` is one such process.
"""

from __future__ import annotations

import random
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from bench import PYTHON_PEERS
from bench.row import Row, compare, missing, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    import pygit2

    from bench.corpus import Made

NO_CACHE, CACHE, MOVED = 1.0, 1.2, 0.25
RESTART = {10_000: 2.0, 100_000: 10.0}
ROUNDS = 3
BOUND = "walking the trees and reading all blobs"
YAML = "PyYAML's C loader in the same harness"


def without_cache(git_dir: Path, nodes: int, rounds: int = ROUNDS) -> list[Row]:
    """Starts without derived files."""
    times = _in_turn(["kgd", "yaml"], git_dir, rounds, before=lambda: _forget(git_dir))
    what = "start until the first answer, no cache"
    found = [
        compare(what, YAML, "s", times["kgd"], times["yaml"], NO_CACHE, nodes=nodes)
        if times["yaml"]
        else missing(what, YAML, "PyYAML is missing")
    ]
    _forget(git_dir)
    return [
        *found,
        value("the same until versions and full text are there as well", "s", _start("kgd-all", git_dir), nodes=nodes),
    ]


def with_cache(git_dir: Path, nodes: int, rounds: int = ROUNDS) -> list[Row]:
    """Starts from the state of the last process; then with 1 % of the nodes changed since the snapshot."""
    _start("kgd-all", git_dir)
    kept = git_dir.parent / "kept"
    shutil.copytree(git_dir / "kgd", kept)
    times = _in_turn(["kgd", "bound"], git_dir, rounds)
    what = "start until the first answer, with cache"
    found = [compare(what, BOUND, "s", times["kgd"], times["bound"], CACHE, nodes=nodes)]
    _move_tip(git_dir, nodes)
    moved = _in_turn(["kgd", "bound"], git_dir, rounds, before=lambda: _bring_back(kept, git_dir / "kgd"))
    # The cost of the move alone: the start with its imports is part of both figures.
    what = "start after the tip moved by 1 %"
    found.append(compare(what, BOUND, "s", moved["kgd"], moved["bound"], None, nodes=nodes))
    added = max(moved["kgd"] - times["kgd"], 0.0)
    found.append(compare("what the moved tip adds to a start", BOUND, "s", added, moved["bound"], MOVED, nodes=nodes))
    shutil.rmtree(kept)
    return found


def _in_turn(variants: list[str], git_dir: Path, rounds: int, before: object = None) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in variants}
    for _ in range(rounds):
        for name in variants:
            if callable(before):
                before()
            times[name].append(_start(name, git_dir))
    return {name: statistics.median(found) for name, found in times.items()}


def _start(variant: str, git_dir: Path) -> float:
    """Seconds until a new process answers; 0 if it cannot."""
    begun = time.perf_counter()
    command = [sys.executable, "-m", "bench.starting", variant, str(git_dir)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout
        answered = process.stdout.readline()
        took = time.perf_counter() - begun
    return took if answered.strip() == b"answered" else 0.0


def _forget(git_dir: Path) -> None:
    shutil.rmtree(git_dir / "kgd")
    (git_dir / "kgd").mkdir()


def _bring_back(kept: Path, derived: Path) -> None:
    shutil.rmtree(derived)
    shutil.copytree(kept, derived)


def _move_tip(git_dir: Path, nodes: int) -> None:
    """One more commit that rewrites every hundredth node."""
    from bench import corpus
    from kgd.codec import documents, paths
    from kgd.git.refs import HEAD

    chance = random.Random(9)
    with subprocess.Popen(["git", "--git-dir", git_dir, "fast-import", "--quiet"], stdin=subprocess.PIPE) as importing:
        assert importing.stdin
        importing.stdin.write(b"commit %s\ncommitter Ann <ann@example.org> 1800000000 +0000\n" % HEAD.encode())
        importing.stdin.write(b"data 4\nmore\nfrom %s^0\n" % HEAD.encode())
        for number in range(0, nodes, 100):
            data = documents.encode(corpus.node(number, nodes, chance))
            path = paths.path_of(corpus.uri_of(number)).encode()
            importing.stdin.write(b"M 100644 inline %s\ndata %d\n%s\n" % (path, len(data), data))


def restart(folder: Path, made: Made, *, seconds: float = 0.5) -> Row:
    """From starting the daemon to its first answer, after `kill -9` in the middle of writing."""
    from bench import corpus
    from bench.house import House

    house = House(folder)
    house.start()
    house.up(made)
    stop = threading.Event()

    def write() -> None:
        chance = random.Random()
        with suppress(Exception):  # the daemon dies in the middle of a call
            while not stop.is_set():
                change = corpus.upsert(corpus.newcomer(made.nodes, chance))
                house.call("put", workspace=corpus.WORKSPACE, changes=[change])

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    time.sleep(seconds)
    house.stop(signal.SIGKILL)
    stop.set()
    for writer in writers:
        writer.join()
    begun = time.perf_counter()
    house.start()
    house.call("get", workspace=corpus.WORKSPACE, uris=[corpus.uri_of(0)])
    took = time.perf_counter() - begun
    house.stop()
    return value(
        "restart after kill -9 until an answer, checks included", "s", took, RESTART.get(made.nodes), nodes=made.nodes
    )


# ---- the processes that are timed


def _kgd(git_dir: Path, *, everything: bool) -> None:
    from kgd.git.layout import locate
    from kgd.graph.traverse import traverse
    from kgd.workspace.workspace import Workspace

    layout = locate(git_dir.parent)
    assert layout
    workspace = Workspace.open(layout, publish=False)
    start = next(iter(workspace.graph.uris()))
    assert traverse(workspace.sources(), [start], max_nodes=100).nodes
    if everything:
        assert workspace.node_version(start)
        workspace.text().search("lease")
    print("answered", flush=True)
    workspace.close()


def _bound(git_dir: Path) -> int:
    import pygit2

    repository = pygit2.Repository(str(git_dir))
    held = [blob.data for blob in _blobs(repository)]
    print("answered", flush=True)
    return len(held)


def _yaml(git_dir: Path) -> None:
    import gc

    sys.path.append(str(PYTHON_PEERS))
    import networkx as nx
    import pygit2
    import yaml

    gc.disable()
    repository = pygit2.Repository(str(git_dir))
    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    nodes = [yaml.load(blob.data, Loader=yaml.CSafeLoader) for blob in _blobs(repository)]
    for node in nodes:
        graph.add_node(node["uri"], data=node)
    for node in nodes:
        # The stubs of networkx know no edges with a key.
        edges: Any = [
            (node["uri"], r["target"], r["type"], {"weight": r.get("weight", 1.0)}) for r in node["relations"]
        ]
        graph.add_edges_from(edges)
    assert nx.single_source_dijkstra(graph, nodes[0]["uri"], cutoff=1)
    print("answered", flush=True)


def _blobs(repository: pygit2.Repository) -> Iterator[pygit2.Blob]:
    """Every node's blob, by an explicit walk."""
    import pygit2

    tip = repository.references["refs/kgd/head"].target
    waiting = [repository[repository[tip].tree["nodes"].id]]
    while waiting:
        entry = waiting.pop()
        if isinstance(entry, pygit2.Tree):
            waiting.extend(entry)
        else:
            assert isinstance(entry, pygit2.Blob)
            yield entry


if __name__ == "__main__":
    what, where = sys.argv[1], Path(sys.argv[2])
    if what == "yaml":
        _yaml(where)
    elif what == "bound":
        _bound(where)
    else:
        _kgd(where, everything=what == "kgd-all")
