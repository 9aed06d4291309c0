"""Walks through the arrays of a snapshot answer as walks through the changes."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgd.graph.live_graph import LiveGraph
from kgd.graph.traverse import traverse
from kgd.model.node import Relation
from tests.graph.folding import fold
from tests.graph.test_traverse import LIMITS, Limits, World, card, graph_of, live, names, uri, worlds

Event = tuple[str, int, dict[tuple[int, str], int], set[int]]
"""What happens to a node: its type, or "" if it is removed; its number, links and aliases."""
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["concept", "concept", "concept", "task", ""]),
        st.integers(0, 6),
        st.dictionaries(
            st.tuples(st.integers(0, 8), st.sampled_from(["a", "b"])),
            st.sampled_from([0, 250_000, 500_000]),
            max_size=5,
        ),
        st.sets(st.integers(4, 8), max_size=2),
    ),
    min_size=3,
    max_size=14,
)


def take(graph: LiveGraph, steps: Sequence[Event]) -> None:
    for type, number, links, aliases in steps:
        if type:
            own = [Relation(t, uri(target), weight / 1e6) for (target, t), weight in links.items()]
            graph.put(card(number, type=type), own, map(uri, aliases))
        else:
            graph.remove(uri(number))


@pytest.mark.slow
@settings(max_examples=6 * settings().max_examples, deadline=None)
@given(EVENTS, EVENTS, worlds(), LIMITS, st.sets(st.integers(0, 6), min_size=1, max_size=3), st.data())
def test_a_walk_through_arrays_equals_the_walk_through_changes(
    before: list[Event], after: list[Event], elsewhere: World, limits: Limits, starts: set[int], data: st.DataObject
) -> None:
    plain, folded = LiveGraph(), LiveGraph()
    for graph in (plain, folded):
        take(graph, before)
    fold(folded)
    limits = {**limits, "max_nodes": data.draw(st.sampled_from([None, 1, 2, 4])), "keep_met": data.draw(st.booleans())}
    others = [live(elsewhere, random.Random(1), origin="overlay")] if data.draw(st.booleans()) else []
    for changes in ((), after[:1], after[1:]):
        for graph in (plain, folded):
            take(graph, changes)
        one, two = (traverse([graph, *others], list(map(uri, starts)), **limits) for graph in (plain, folded))
        assert one.nodes == two.nodes
        assert (one.edges, one.cut, one.broken, one.missing) == (two.edges, two.cut, two.broken, two.missing)
        assert (one.met, one.unknown) == (two.met, two.unknown)


def test_a_relation_to_an_earlier_name_counts_as_one_to_the_node() -> None:
    graph = graph_of({"a": [("old", "t", 0.5), ("c", "t", 0.5)], "c": []})
    graph.put(card("b"), [], [uri("old")])
    expected = names(traverse([graph], uri("a"), max_nodes=2))
    fold(graph)
    assert names(traverse([graph], uri("a"), max_nodes=2)) == expected == ["a", "b"]
