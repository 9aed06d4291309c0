"""The merge of two trees, measured against the time of libgit2 to find the files that differ.

The peer merges lines and returns an index in memory; kgd merges nodes and returns the files to write. Both read the
same packed objects; one side's edits are 1 % of all nodes, and so are the other's, chosen independently.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from bench import corpus
from bench.corpus import Made
from bench.row import Row, compare
from kgd.codec import documents, paths
from kgd.git.objects import ObjectId
from kgd.git.refs import HEAD
from kgd.git.staging import Staging
from kgd.git.store import ObjectStore
from kgd.workspace.merging.trees import merge_trees

ROUNDS = 15
SHARE = 0.01
TARGET = 1.0
NONE: frozenset[str] = frozenset()


def rows(made: Made) -> Iterator[Row]:
    import pygit2  # the peer

    store = made.layout.open()
    tip = store.ref(HEAD)
    assert tip is not None
    base = store.tree_of(tip)
    chance = random.Random(7)
    ours, theirs = (_edited(store, base, made.nodes, chance, field) for field in ("name", "summary"))
    repository = pygit2.Repository(str(made.layout.git_dir))
    ancestor, mine, others = (pygit2.Oid(raw=tree) for tree in (base, ours, theirs))
    flags = pygit2.enums.MergeFlag(0)
    one: list[float] = []
    other: list[float] = []
    for _ in range(ROUNDS):
        one.append(_timed(lambda: merge_trees(store, base, ours, theirs, NONE)))
        other.append(_timed(lambda: repository.merge_trees(ancestor, mine, others, flags=flags)))
    conflicts = len(merge_trees(store, base, ours, theirs, NONE).conflicts)
    yield compare(
        "merge of two trees, 1 % edited on each side",
        "pygit2 merge_trees",
        "ms",
        statistics.median(one),
        statistics.median(other),
        TARGET,
        nodes=made.nodes,
        conflicts=conflicts,
    )


def _edited(store: ObjectStore, tree: ObjectId, nodes: int, chance: random.Random, field: str) -> ObjectId:
    staging = Staging(store, tree)
    for number in chance.sample(range(nodes), int(nodes * SHARE)):
        path = paths.path_of(corpus.uri_of(number))
        data = staging.read(path)
        assert data is not None
        changes: dict[str, Any] = {field: f"edited {chance.randrange(10**6)}"}
        staging.put(path, documents.encode(replace(documents.decode(data), **changes)))
    made = staging.write_tree()
    store.release(store.write(staging.objects))
    return made


def _timed(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000
