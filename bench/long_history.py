"""The history of a node that changed once, among many commits that changed others."""

from __future__ import annotations

import random
import shutil
import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from bench import corpus
from bench.house import House, settle
from bench.row import Row, value
from kgd.model.node import Node

COMMITS, NODES = 200_000, 1_000
ANSWER_SECONDS = 0.4
ASKED = 5
SETTLED_WITHIN = 400.0


def rows(folder: Path, commits: int = COMMITS, nodes: int = NODES) -> Iterator[Row]:
    made = corpus.build(folder / "workspace", nodes, nodes=_nodes(commits, nodes), each=1)
    with House(folder / "home") as house:
        house.up(made)
        settle(house.call, SETTLED_WITHIN)
        times = []
        for number in range(ASKED):
            begun = time.perf_counter()
            entries = house.call("history", workspace=corpus.WORKSPACE, uri=corpus.uri_of(number))["commits"]
            times.append(time.perf_counter() - begun)
            assert len(entries) == 1, entries
        what = f"history of a node that changed once in {commits:,} commits"
        yield value(f"{what}, first", "s", times[0], ANSWER_SECONDS)
        yield value(f"{what}, median", "s", statistics.median(times), ANSWER_SECONDS)
    shutil.rmtree(folder)


def _nodes(commits: int, nodes: int) -> Iterator[Node]:
    """The nodes, and then changes of all but the first nodes."""
    first = list(corpus.corpus(nodes))
    chance = random.Random(3)
    yield from first
    for number in range(commits - nodes):
        yield replace(first[chance.randrange(ASKED, nodes)], summary=f"Change {number}.")
