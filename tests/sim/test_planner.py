"""The laws of the merge over whole histories: replicas as plain values, in seeded schedules."""

from __future__ import annotations

import pytest

from kgd.codec import documents, paths
from kgd.git.objects import ObjectId
from kgd.git.staging import Staging, Unwritten
from kgd.git.store import ObjectStore
from kgd.model.merge_graph import Graph, merge_graphs
from kgd.workspace.merging.files import record_files
from kgd.workspace.merging.trees import merge_trees
from tests.builders import new_layout
from tests.sim import planner

NONE: frozenset[str] = frozenset()
FOUND = (520, 2470, 2496, 6043, 14470, 109282, 119409, 120782, 126869, 209179, 210603, 303621, 310634, 1082428, 3021486)
"""Seeds that once found a defect."""


@pytest.mark.slow
def test_no_edit_is_lost_and_replicas_agree_in_a_thousand_schedules() -> None:
    for seed in range(1_000):
        planner.run(seed)


@pytest.mark.parametrize("seed", FOUND)
def test_a_schedule_that_found_a_defect_finds_none(seed: int) -> None:
    planner.run(seed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "count"),
    [(100_000, 3_000), *(pytest.param(n, 30_000, marks=pytest.mark.large) for n in (103_000, 133_000, 163_000))],
)
def test_no_edit_is_lost_and_replicas_agree_in_many_schedules(first: int, count: int) -> None:
    for seed in range(first, first + count):
        planner.run(seed)


def test_one_seed_is_one_history() -> None:
    told: list[list[str]] = [[], []]
    for lines in told:
        planner.run(7, tell=lines.append)
    assert told[0] == told[1]
    assert told[0]


@pytest.mark.slow
def test_trees_merge_to_what_the_graphs_in_them_merge_to(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The merge of files equals the merge of values, in a hundred schedules with each merge made both ways."""
    store = new_layout(tmp_path_factory.mktemp("both")).open()
    compared = 0

    def both(base: Graph | None, a: Graph, b: Graph) -> Graph:
        nonlocal compared
        compared += 1
        view = Unwritten(store)
        was, ours, theirs = (tree(view, graph) for graph in (base or Graph(), a, b))
        merged = merge_trees(view, was, ours, theirs, NONE)
        expected = merge_graphs(base or Graph(), a, b).graph
        made = applied(view, ours, {p: d for p, d in merged.files.items() if "/twin" not in p})
        assert without_twins(view, made) == without_twins(view, tree(view, expected))
        return real(base, a, b)

    real = planner.merged
    monkeypatch.setattr(planner, "merged", both)
    for seed in range(100):
        planner.run(seed)
    assert compared > 200


def tree(view: Unwritten, graph: Graph) -> ObjectId:
    files = {paths.path_of(uri): documents.encode(node) for uri, node in graph.nodes.items()}
    return applied(view, None, {**files, **record_files(graph.conflicts.values(), NONE)})


def applied(view: Unwritten, onto: ObjectId | None, files: dict[str, bytes | None] | dict[str, bytes]) -> ObjectId:
    staging = Staging(view, onto)
    for path, data in files.items():
        if data is None:
            staging.remove(path)
        else:
            staging.put(path, data)
    made = staging.write_tree()
    view.add(staging.objects)
    return made


def without_twins(store: ObjectStore, made: ObjectId) -> dict[str, bytes]:
    files = {entry.path: store.read(entry.id) for entry in store.files(made)}
    return {path: data for path, data in files.items() if b"\n  twin:\n" not in data}
