"""The laws of merging sets of nodes with any names and aliases; tests/sim simulates histories."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kgd.model.conflict import PLACE, conflict_of, disagreement
from kgd.model.merge_graph import Graph, merge_graphs
from kgd.model.node import Node
from kgd.model.uri import Uri

URIS = [Uri(f"concept://ws/{name}") for name in "abc"]
names = st.sampled_from(["x", "y", "z"])


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    nodes, conflicts = {}, {}
    for uri in draw(st.lists(st.sampled_from(URIS), unique=True)):
        others = [other for other in URIS if other != uri]
        aliases = draw(st.lists(st.sampled_from(others), max_size=2, unique=True))
        nodes[uri] = Node(uri, name=draw(names), summary=draw(names), aliases=tuple(aliases))
        if draw(st.booleans()):
            sides = {nodes[uri].name, draw(names)}
            if len(sides) == 2:
                found = conflict_of(uri, {"name": disagreement(None, sides)})
                shown = {"name": sorted(sides).index(nodes[uri].name)}
                found = type(found)(uri, found.fields, shown)
                conflicts[found.id] = found
    return Graph(nodes, conflicts)


@given(graphs(), graphs())
def test_merging_with_an_unchanged_side_is_the_other_side(base: Graph, x: Graph) -> None:
    assert merge_graphs(base, x, base).graph == x
    assert merge_graphs(base, base, x).graph == x


@given(graphs(), graphs(), graphs())
def test_the_result_does_not_depend_on_the_order_of_the_sides(base: Graph, a: Graph, b: Graph) -> None:
    assert merge_graphs(base, a, b) == merge_graphs(base, b, a)


@given(graphs(), graphs(), graphs())
def test_a_merge_gives_nodes_under_their_own_names_and_invents_nothing(base: Graph, a: Graph, b: Graph) -> None:
    merged = merge_graphs(base, a, b).graph
    said = {name for side in (base, a, b) for node in side.nodes.values() for name in (node.name, node.summary)}
    said |= {s for side in (base, a, b) for c in side.conflicts.values() for f in c.fields.values() for s in f.sides}
    for uri, node in merged.nodes.items():
        assert node.uri == uri
        assert {node.name, node.summary} - {""} <= said


@given(graphs(), graphs(), graphs())
def test_nodes_equal_on_both_sides_stay(base: Graph, a: Graph, b: Graph) -> None:
    both = Graph(a.nodes, {})
    assert merge_graphs(base, both, both).graph.nodes == a.nodes
    assert b.nodes.keys() <= merge_graphs(Graph(), a, b).graph.nodes.keys()


def test_a_node_made_anew_where_one_was_moved_from_is_another_node() -> None:
    a, b, _ = URIS
    base = Graph({b: Node(b, name="x", summary="x")})
    moved = Node(a, name="x", summary="x", aliases=(b,))
    merged = merge_graphs(base, Graph({a: moved}), Graph({a: moved, b: Node(b, name="y")}))
    assert merged.graph == Graph({a: moved, b: Node(b, name="y")})
    assert merged.clashes == ()


def test_a_conflict_about_a_name_that_one_side_alone_touched_stays_as_that_side_has_it() -> None:
    a, b, c = URIS
    old = conflict_of(b, {PLACE: disagreement(a, (b, c))})
    base = Graph({b: Node(b, name="x")}, {old.id: old})
    back = conflict_of(a, {PLACE: disagreement(a, (b, c))})
    moved_back = Graph({a: Node(a, name="x", aliases=(b,))}, {back.id: back})
    other = Graph({**base.nodes, c: Node(c, name="z")}, base.conflicts)
    assert merge_graphs(base, moved_back, other).graph.conflicts == {back.id: back}
    assert merge_graphs(base, other, moved_back).graph.conflicts == {back.id: back}
