"""The graph as a networkx graph: networkx's own tests, and its algorithms beside a plain copy."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from networkx.classes.tests.test_multidigraph import (  # type: ignore[import-not-found]
    TestMultiDiGraph as OfNetworkx,
)

from kgd.graph.edges import Card
from kgd.graph.live_graph import LiveGraph
from kgd.graph.stored_graph import StoredGraph
from kgd.model.node import Relation
from kgd.model.uri import Uri
from tests.graph.folding import fold


def uri(name: object) -> Uri:
    return Uri(f"concept://w/{name}")


def card(name: object) -> Card:
    return Card(uri(name), "concept", f"{name}", "", None, "local")


class Numbered:
    """Layers of a graph with numbers for nodes and keys, and without attributes, as networkx's tests expect them."""

    def __init__(self, graph: LiveGraph) -> None:
        self._layers = graph.freeze().layers

    def is_known(self, node: object) -> bool:
        return isinstance(node, int) and self._layers.is_known(uri(node))

    def state(self, node: int) -> None:
        """No card."""

    def succ(self, node: int) -> dict[int, Any]:
        return self._numbered(self._layers.succ(uri(node)))

    def pred(self, node: int) -> dict[int, Any]:
        return self._numbered(self._layers.pred(uri(node)))

    def states(self) -> Iterator[tuple[int, bool]]:
        return ((_number(uri), is_node) for uri, is_node in self._layers.states())

    def size(self) -> int:
        return self._layers.size()

    def _numbered(self, ends: Any) -> dict[int, Any]:
        return {_number(end): {int(key): {} for key in keyed} for end, keyed in ends.items()}


def _number(uri: str) -> int:
    return int(uri.rpartition("/")[2])


def triangle() -> StoredGraph:
    graph = LiveGraph()
    graph.put(card(0), [Relation("0", uri(1)), Relation("0", uri(2))])
    graph.put(card(1), [Relation("0", uri(0))])
    fold(graph)
    graph.put(card(1), [Relation("0", uri(0)), Relation("0", uri(2))])
    graph.put(card(2), [Relation("0", uri(0)), Relation("0", uri(1))])
    return StoredGraph.over(Numbered(graph))  # type: ignore[arg-type]


class TestReading(OfNetworkx):  # type: ignore[misc]
    """Networkx's tests of its multigraphs, on a triangle of which a part is in arrays."""

    def setup_method(self) -> None:
        self.Graph = nx.MultiDiGraph
        self.k3edges, self.k3nodes = [(0, 1), (0, 2), (1, 2)], [0, 1, 2]
        self.K3: Any = triangle()

    test_nodes = test_pickle = None  # they look at private dictionaries


def _refused(test: Callable[[Any], None]) -> Callable[[Any], None]:
    def run(self: Any) -> None:
        with pytest.raises(nx.NetworkXError, match="this graph cannot be changed"):
            test(self)

    return run


READ_THEN_WRITE = [
    "degree",
    "edges_multi",
    "in_edges",
    "in_edges_data",
    "in_edges_no_keys",
    "number_of_edges_selfloops",
    "out_edges_data",
    "out_edges_multi",
    "remove_edge",
    "remove_edges_from",
    "remove_multiedge",
    "remove_node",
    "size",
    "subgraph",
    "to_directed",
    "to_undirected",
]
for _name in READ_THEN_WRITE:
    setattr(TestReading, f"test_{_name}", _refused(getattr(OfNetworkx, f"test_{_name}")))


@pytest.mark.parametrize(
    "change",
    [
        lambda g: g.add_node(7),
        lambda g: g.add_nodes_from([7]),
        lambda g: g.add_edge(0, 1),
        lambda g: g.add_edges_from([(0, 1)]),
        lambda g: g.add_weighted_edges_from([(0, 1, 1)]),
        lambda g: g.remove_node(0),
        lambda g: g.remove_nodes_from([0]),
        lambda g: g.remove_edge(0, 1),
        lambda g: g.remove_edges_from([(0, 1)]),
        lambda g: g.update(nodes=[7]),
        lambda g: g.clear(),
        lambda g: g.clear_edges(),
        lambda g: g.nodes[0].update(a=1),
        lambda g: g.nodes[0].setdefault("a", 1),
        lambda g: g[0][1][0].__setitem__("weight", 0),
        lambda g: g.pred[0][1][0].pop("weight", 0),
        lambda g: g.graph.__setitem__("name", "x"),
        lambda g: nx.set_node_attributes(g, {0: 1}, "a"),
        lambda g: nx.set_edge_attributes(g, {(0, 1, 0): 1}, "a"),
        lambda g: nx.add_path(g, [0, 1]),
        lambda g: nx.relabel_nodes(g, {0: 9}, copy=False),
    ],
)
def test_no_change_of_the_graph_is_possible(change: Callable[[Any], object]) -> None:
    graph = triangle()
    before: Any = nx.MultiDiGraph(graph)
    with pytest.raises(nx.NetworkXError, match="this graph cannot be changed"):
        change(graph)
    assert nx.utils.graphs_equal(nx.MultiDiGraph(graph), before)


LINKS = st.dictionaries(
    st.tuples(st.integers(0, 7), st.integers(0, 7), st.sampled_from(["a", "b"])),
    st.sampled_from([0.0, 0.25, 0.5, 1.0]),
    max_size=24,
)

ALGORITHMS: list[Callable[[Any], object]] = [
    lambda g: {n: g.nodes[n].get("card") for n in g},
    lambda g: sorted(g.edges(keys=True, data="weight")),
    lambda g: sorted(g.in_edges(keys=True, data="weight")),
    lambda g: (dict(g.degree), dict(g.in_degree(weight="weight")), dict(g.out_degree), g.size("weight"), len(g)),
    lambda g: {frozenset(found) for found in nx.strongly_connected_components(g)},
    lambda g: {frozenset(found) for found in nx.weakly_connected_components(g)},
    lambda g: dict(nx.all_pairs_dijkstra_path_length(g)),
    lambda g: dict(nx.all_pairs_shortest_path_length(g)),
    lambda g: nx.is_directed_acyclic_graph(g),
    lambda g: sorted(map(sorted, nx.simple_cycles(nx.DiGraph(g)))),
    lambda g: {n: sorted(nx.descendants(g, n)) for n in g},
    lambda g: {n: sorted(nx.ancestors(g, n)) for n in g},
    lambda g: {n: round(rank, 9) for n, rank in nx.betweenness_centrality(nx.DiGraph(g)).items()},
    lambda g: {n: round(rank, 9) for n, rank in nx.closeness_centrality(g).items()},
    lambda g: nx.triangles(nx.Graph(g)),
    lambda g: sorted(nx.reverse(g).edges),
    lambda g: sorted(g.reverse(copy=False).edges(keys=True)),
    lambda g: sorted(map(sorted, g.to_undirected().edges())),
    lambda g: sorted(map(sorted, g.to_undirected(as_view=True).edges())),
    lambda g: sorted(g.subgraph(sorted(g)[:3]).edges(keys=True, data="weight")),
    lambda g: sorted(g.subgraph(sorted(g)[:3]).copy().edges(keys=True, data="weight")),
    lambda g: sorted(nx.compose(g, nx.MultiDiGraph([("x", "y")])).edges),
    lambda g: nx.condensation(g).number_of_edges(),
    lambda g: sorted(nx.relabel_nodes(g, str.upper).edges(keys=True)),
    lambda g: len(nx.node_link_data(g, edges="links")["links"]),
    lambda g: sorted(pickle.loads(pickle.dumps(g)).edges(keys=True, data="weight")),
    lambda g: sorted(pickle.loads(pickle.dumps(g.edges))),
    lambda g: sorted(copy.deepcopy(g).edges(keys=True, data="weight")),
    lambda g: nx.is_isomorphic(g, g.copy()),
    lambda g: (nx.number_of_selfloops(g), sorted(nx.isolates(g)), nx.density(g)),
]


@pytest.mark.requirement("B7")
@settings(max_examples=settings().max_examples, deadline=None)
@given(LINKS, LINKS, st.sets(st.integers(0, 7)))
def test_algorithms_answer_as_for_a_plain_copy(before: Any, after: Any, gone: set[int]) -> None:
    graph = LiveGraph()
    for links in (before, after):
        for source in {source for source, _, _ in links}:
            own = [(type, target, weight) for (s, target, type), weight in links.items() if s == source]
            graph.put(card(source), [Relation(type, uri(target), weight) for type, target, weight in own])
        if links is before:
            fold(graph)
    for number in gone:
        graph.remove(uri(number))
    stored = graph.graph
    assert isinstance(stored, StoredGraph)
    plain: nx.MultiDiGraph[Uri] = nx.MultiDiGraph()
    for node in stored:
        plain.add_node(node, **({"card": found} if (found := graph.card(node)) else {}))
    for node in plain:
        for edge in graph.out(node):
            plain.add_edge(node, edge.target, key=edge.type, weight=edge.weight)
    for answer in ALGORITHMS:
        assert answer(stored) == answer(plain)


def test_a_graph_is_of_one_moment_and_copies_are_free() -> None:
    graph = LiveGraph()
    graph.put(card("a"), [Relation("t", uri("b"), 0.5, {"why": ["x"]})])
    before = graph.graph
    graph.remove(uri("a"))
    assert sorted(before.edges(keys=True, data=True)) == [
        (uri("a"), uri("b"), "t", {"weight": 0.5, "data": {"why": ["x"]}})
    ]
    assert (len(graph.graph), graph.graph.number_of_edges()) == (0, 0)
    own = before.copy()
    assert type(own) is nx.MultiDiGraph
    own.add_edge(uri("b"), uri("a"), weight=1)
    assert not before.has_edge(uri("b"), uri("a"))
    assert type(before.to_undirected()) is nx.MultiGraph
