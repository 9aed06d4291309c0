"""A pytest plugin for networkx's own tests: the algorithms read their graphs from kgd's arrays.

Each call of an algorithm gets a read-only copy of its graph: nodes and relations in arrays, read by `StoredGraph`. The
arrays hold URIs, so `Translated` maps nodes, keys and attributes of any type to numbers. In networkx's tests of its
views, the graphs of the test classes are replaced. Tests that write into such a graph are skipped.

    python -m pytest -p tests.graph.networkx_in_arrays --pyargs networkx.algorithms.tests.test_dag
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any

import networkx as nx
import pytest

from kgd.graph import stored_graph
from kgd.graph.edges import UNIT, Card
from kgd.graph.live_graph import LiveGraph
from kgd.graph.stored_graph import StoredGraph
from kgd.model.node import Relation
from kgd.model.uri import Uri

LARGEST = 5_000
"""Graphs with more edges stay as they are, because building arrays for each call takes long."""
LEFT_OUT = {
    "test_topological_sort6": "changes the graph during the call",
    "test_negative_edge_cycle": "networkx adds a node to the graph for the time of the call",
    "test_negative_edge_cycle_custom_weight_key": "the same",
    "test_negative_cycle_heuristic": "the same",
    "test_negative_cycle_consistency": "the same",
    "test_is_frozen": "expects a graph that can be changed",
    "TestToUndirected.test_pickle": "a pickled graph is a plain one",
    "test_graph_hashing.py": "takes minutes, because each of its many calls gets new arrays",
    "test_tree_isomorphism.py": "the same",
    "test_karate_club_graph": "the same",
    "test_omega": "the same",
    "test_arborescence_iterator_min": "the same",
    "test_arborescence_iterator_max": "the same",
}
"""Tests by file, class or name."""

_Graph = Any  # networkx's classes are generic for the type checker only


def _uri(number: int) -> Uri:
    return Uri(f"concept://w/{number:06}")


class Translated:
    """Layers whose URIs, types and data stand for the nodes, keys and attributes of a networkx graph."""

    def __init__(self, graph: _Graph) -> None:
        self._nodes = list(graph)
        self._numbers = {node: number for number, node in enumerate(self._nodes)}
        self._edges = [
            (source, target, key, attributes)
            for source, row in graph._adj.items()
            for target, keyed in row.items()
            for key, attributes in (keyed.items() if graph.is_multigraph() else ((0, keyed),))
        ]
        rows: list[list[Relation]] = [[] for _ in self._nodes]
        for place, number in enumerate(_in_order_of_insertion(graph, self._edges)):
            source, target, *_ = self._edges[number]
            # Weights keep the order; the type is unique, since keys may be of any type.
            end, data = _uri(self._numbers[target]), {"edge": number}
            rows[self._numbers[source]].append(Relation(f"{number}", end, place / UNIT, data))
        live = LiveGraph()
        for number, row in enumerate(rows):
            live.put(Card(_uri(number), "concept", f"{number}", "", None, ""), row)
        live.load(live.freeze().arrays())
        self._layers = live.freeze().layers

    def is_known(self, node: Hashable) -> bool:
        return node in self._numbers and self._layers.is_known(_uri(self._numbers[node]))

    def state(self, node: Hashable) -> Card | None:
        return self._layers.state(_uri(self._numbers[node])) or None

    def succ(self, node: Hashable) -> dict[Any, Any]:
        return self._translated(self._layers.succ(_uri(self._numbers[node])))

    def pred(self, node: Hashable) -> dict[Any, Any]:
        return self._translated(self._layers.pred(_uri(self._numbers[node])))

    def states(self) -> Iterator[tuple[Any, bool]]:
        return ((self._nodes[_number(uri)], is_node) for uri, is_node in self._layers.states())

    def size(self) -> int:
        return self._layers.size()

    def _translated(self, ends: Any) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for end, keyed in ends.items():
            for attributes in keyed.values():
                _, _, key, own = self._edges[attributes["data"]["edge"]]
                found.setdefault(self._nodes[_number(end)], {})[key] = own
        return found


def _number(uri: str) -> int:
    return int(uri.rpartition("/")[2])


def _in_order_of_insertion(graph: _Graph, edges: list[Any]) -> list[int]:
    """An order of the edges that agrees with the order of all rows of the graph, if there is one."""
    numbers = {edge[:3]: number for number, edge in enumerate(edges)}
    order: TopologicalSorter[int] = TopologicalSorter(dict.fromkeys(range(len(edges)), ()))
    rows: dict[Any, list[int]] = {}
    for number, edge in enumerate(edges):
        rows.setdefault(edge[0], []).append(number)
    for target, row in graph._pred.items() if graph.is_directed() else ():
        keyed = ((source, keys if graph.is_multigraph() else [0]) for source, keys in row.items())
        rows["in", id(target), target] = [numbers[source, target, key] for source, keys in keyed for key in keys]
    for row in rows.values():
        for earlier, later in pairwise(row):
            order.add(later, earlier)
    try:
        return list(order.static_order())
    except CycleError:
        return list(range(len(edges)))


def _reading(kind: Any) -> Any:
    """The read-only counterpart of a graph class, built like `StoredGraph`."""

    class Reading(kind):  # type: ignore[misc]
        frozen = True

        def __new__(cls, *args: Any, **attributes: Any) -> Any:
            return kind(*args, **attributes)

        def __reduce__(self) -> Any:
            return kind, (self.copy(),)

    return Reading


KINDS = {kind: _reading(kind) for kind in (nx.Graph, nx.DiGraph, nx.MultiGraph)}


def stored(graph: _Graph) -> _Graph:
    """A read-only graph that reads from arrays. Only a `MultiDiGraph` becomes a `StoredGraph` itself; the other classes
    read the rows of one."""
    if type(graph) not in {*KINDS, nx.MultiDiGraph} or graph.number_of_edges() > LARGEST:
        return graph
    layers: Any = Translated(graph)
    found: Any = StoredGraph.over(layers, **graph.graph)
    if type(graph) is not nx.MultiDiGraph:
        rows, kind = found, type(graph)
        found = object.__new__(KINDS[kind])
        kind.__init__(found)
        found.graph = rows.graph
        found._adj = rows._adj if graph.is_multigraph() else _single(layers, layers.succ)
        if graph.is_directed():
            found._pred = _single(layers, layers.pred)
    attributes = dict(graph._node)
    found._node = stored_graph._Rows(layers, lambda node: stored_graph._Attributes(attributes[node]))
    return found


def _single(layers: Any, ends: Callable[[Any], Any]) -> Any:
    """Rows without keys."""
    return stored_graph._Rows(
        layers, lambda node: {end: keyed[0] for end, keyed in stored_graph._row(ends(node)).items()}
    )


class Calls:
    """Calls of algorithms; only the outermost one gets a stored graph."""

    depth = count = 0

    @classmethod
    def call(cls, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if cls.depth or function._will_call_mutate_input(args, kwargs):
            return function.orig_func(*args, **kwargs)
        given = list(args)
        for name, position in function.graphs.items():
            if name in kwargs:
                kwargs = {**kwargs, name: stored(kwargs[name])}
            elif position < len(given):
                given[position] = stored(given[position])
        cls.count += bool(function.graphs)
        cls.depth += 1
        try:
            return function.orig_func(*given, **kwargs)
        finally:
            cls.depth -= 1


def _call(self: Any, /, *args: Any, backend: str | None = None, **kwargs: Any) -> Any:
    return Calls.call(self, args, kwargs)


def pytest_configure(config: pytest.Config) -> None:
    setattr(nx.utils.backends._dispatchable, "__call__", _call)  # noqa: B010


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    def is_left_out(item: pytest.Item) -> bool:
        name = item.name.partition("[")[0]
        kind = getattr(item, "cls", None)
        return not LEFT_OUT.keys().isdisjoint({item.path.name, name, f"{kind.__name__ if kind else ''}.{name}"})

    config.hook.pytest_deselected(items=[item for item in items if is_left_out(item)])
    items[:] = [item for item in items if not is_left_out(item)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Any:
    if item.path.parent.parent.name != "classes":
        return (yield)
    held: Any = getattr(item, "instance", None)
    for name in dir(held) if held is not None else ():
        if not name.startswith("__") and isinstance(graph := getattr(held, name), nx.Graph):
            setattr(held, name, stored(graph))
    try:
        return (yield)
    except (nx.NetworkXError, TypeError) as error:
        if "cannot be changed" in str(error) or "does not support item assignment" in str(error):
            pytest.skip("it writes")
        raise


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"calls of algorithms: {Calls.count}")
