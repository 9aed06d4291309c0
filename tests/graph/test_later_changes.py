"""Changes since a snapshot, as another process applies them."""

from __future__ import annotations

import json
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgd.graph import live_graph
from kgd.graph.edges import Card
from kgd.graph.live_graph import LiveGraph
from kgd.model.node import Relation
from kgd.model.uri import Uri
from tests.graph.folding import fold


def uri(number: int) -> Uri:
    return Uri(f"concept://w/n{number}")


NUMBERS = st.integers(0, 8)
RELATION = st.tuples(
    st.sampled_from(["a", "b"]), NUMBERS, st.sampled_from([0.0, 0.25, 1.0]), st.sampled_from([{}, {"why": ["x"]}])
)
STEP = st.one_of(
    st.tuples(NUMBERS, st.lists(RELATION, max_size=4), st.sets(st.integers(4, 9), max_size=2)),
    NUMBERS,  # a removal
)


def apply(graph: LiveGraph, steps: list[Any]) -> None:
    for step in steps:
        if isinstance(step, int):
            graph.remove(uri(step))
            continue
        number, relations, aliases = step
        own = {(type, end): Relation(type, uri(end), weight, data) for type, end, weight, data in relations}
        graph.put(Card(uri(number), "concept", f"{number}", "", bytes(20), ""), own.values(), map(uri, aliases))


@pytest.mark.requirement("B7")
@settings(max_examples=settings().max_examples, deadline=None)
@given(st.lists(STEP, max_size=8), st.lists(STEP, max_size=8))
def test_the_snapshot_with_the_changes_is_the_graph(before: list[Any], after: list[Any]) -> None:
    graph, other = LiveGraph(), LiveGraph()
    apply(graph, before)
    fold(graph)
    other.load(graph.freeze().layers.arrays)
    apply(graph, after)
    live_graph.apply(other, json.loads(json.dumps(live_graph.changes(graph.freeze()))))
    plain: list[nx.MultiDiGraph[Uri]] = [nx.MultiDiGraph(each.graph) for each in (graph, other)]
    assert nx.utils.graphs_equal(*plain)
    assert [other.out(uri(n)) for n in range(10)] == [graph.out(uri(n)) for n in range(10)]
    assert [other.into(uri(n)) for n in range(10)] == [graph.into(uri(n)) for n in range(10)]
    assert other.broken_links() == graph.broken_links()
    assert (len(other), other.types()) == (len(graph), graph.types())


@pytest.mark.requirement("B7")
@settings(max_examples=settings().max_examples, deadline=None)
@given(st.lists(STEP, max_size=8), st.lists(STEP, max_size=8))
def test_moved_nodes_have_their_current_names_in_the_networkx_graph(before: list[Any], after: list[Any]) -> None:
    graph = LiveGraph()
    apply(graph, before)
    fold(graph)
    apply(graph, after)
    found: Any = graph.graph
    nodes = set(graph.uris())
    out = {(uri, *edge) for uri in nodes for edge in graph.out(uri)}
    assert {(s, data["weight"], t, key) for s, t, key, data in found.edges(keys=True, data=True)} == out
    assert {(t, data["weight"], s, key) for s, t, key, data in found.in_edges(keys=True, data=True)} == {
        (uri, *edge) for uri in {*nodes, *(edge[2] for edge in out)} for edge in graph.into(uri)
    }
    assert set(found) == nodes | {edge[2] for edge in out}
    assert len(found) == len(set(found))
    assert all((node in found) and found.succ[node] is not None for node in found)
    assert nx.utils.graphs_equal(nx.MultiDiGraph(found).reverse(), nx.MultiDiGraph(found.reverse(copy=False)))


def test_many_changes_are_not_sent() -> None:
    graph = LiveGraph()
    fold(graph)
    graph.put(Card(uri(0), "concept", "", "", None, ""), [Relation("a", uri(n)) for n in range(1, 400)])
    assert live_graph.are_few(graph.freeze().layers)
    for number in range(1, 97):
        graph.put(Card(uri(number), "concept", "", "", None, ""), [Relation("a", uri(n)) for n in range(100)])
    assert live_graph.are_few(graph.freeze().layers)
    graph.put(Card(uri(500), "concept", "", "", None, ""), [Relation("a", uri(n)) for n in range(100)])
    assert not live_graph.are_few(graph.freeze().layers)
