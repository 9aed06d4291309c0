"""The graph at one moment, as a read-only networkx multigraph; and communities of nodes, by networkx."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import networkx as nx

from kgd.graph.arrays import Attributes, Ends, Keyed, Layers, State
from kgd.model.uri import Uri

if TYPE_CHECKING:
    _MultiDiGraph = nx.MultiDiGraph[Uri]
else:
    _MultiDiGraph = nx.MultiDiGraph

Row = Mapping[str, Any]
NO_ALIASES: Mapping[Uri, Sequence[Uri]] = MappingProxyType({})


def _refuse(*args: Any, **kwargs: Any) -> NoReturn:
    raise nx.NetworkXError("this graph cannot be changed; change the workspace, or a copy from graph.copy()")


class StoredGraph(_MultiDiGraph):
    """A `networkx.MultiDiGraph` that reads its nodes and edges from arrays, without a copy.

    A node has the attribute ``card`` unless it is the missing target of a relation. The key of an edge is its type; it
    has ``weight`` and, if the relation has any, ``data``.

    Writing raises `networkx.NetworkXError`. `copy` and every algorithm that builds a graph of this class get a plain
    `MultiDiGraph`.
    """

    frozen = True

    def __new__(cls, *args: Any, **attributes: Any) -> Any:
        return nx.MultiDiGraph(*args, **attributes)

    @classmethod
    def over(
        cls, layers: Layers | CurrentNames, aliases: Mapping[Uri, Sequence[Uri]] = NO_ALIASES, **attributes: Any
    ) -> StoredGraph:
        """The graph in these layers, which must not change afterwards.

        Args:
            aliases: The former URIs of moved nodes.
            attributes: The attributes of the graph.
        """
        layers = CurrentNames(layers, aliases) if aliases and isinstance(layers, Layers) else layers
        graph: Any = object.__new__(cls)
        nx.MultiDiGraph.__init__(graph)
        graph.graph = _Attributes(attributes)
        graph._node = _Rows(layers, lambda uri: _node(layers, uri))
        graph._adj = _Rows(layers, lambda uri: _row(layers.succ(uri)))
        graph._pred = _Rows(layers, lambda uri: _row(layers.pred(uri)))
        found: StoredGraph = graph
        return found

    def __reduce__(self) -> Any:
        return nx.MultiDiGraph, (self.copy(),)

    add_node = add_nodes_from = remove_node = remove_nodes_from = _refuse
    add_edge = add_edges_from = add_weighted_edges_from = remove_edge = remove_edges_from = _refuse
    update = clear = clear_edges = _refuse


class _Attributes(dict[str, Any]):
    """Read-only attributes; copies can be changed."""

    __setitem__ = __delitem__ = __ior__ = _refuse
    update = setdefault = pop = popitem = clear = _refuse

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return deepcopy(dict(self), memo)

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


class _Rows(Mapping[Uri, Row]):
    """A read-only mapping from each node to its entry."""

    def __init__(self, layers: Layers | CurrentNames, row: Callable[[Uri], Row]) -> None:
        self._layers, self._row = layers, row
        self._size: int | None = None

    def __getitem__(self, uri: Uri) -> Row:
        if uri not in self:
            raise KeyError(uri)
        return self._row(uri)

    def __contains__(self, uri: object) -> bool:
        hash(uri)  # raises TypeError where a dictionary would, as networkx expects
        return self._layers.is_known(uri)

    def __iter__(self) -> Iterator[Uri]:
        return (uri for uri, _ in self._layers.states())

    def __reduce__(self) -> Any:
        return dict, (dict(self),)  # networkx's views of a graph contain its mappings

    def __len__(self) -> int:
        if self._size is None:
            self._size = self._layers.size()
        return self._size


def _node(layers: Layers | CurrentNames, uri: Uri) -> Row:
    card = layers.state(uri)
    return _Attributes(card=card) if card else _Attributes()


def _row(ends: Ends) -> Row:
    return {
        end: {
            type: _Attributes({name: dict(v) if isinstance(v, Mapping) else v for name, v in attributes.items()})
            for type, attributes in keyed.items()
        }
        for end, keyed in ends.items()
    }


class CurrentNames:
    """A view of layers in which every node has its current URI. If a node has the same relation to several names of
    another node, the cheapest is used.

    Args:
        aliases: The former URIs of each node. A URI that belongs to an existing node again is not an alias of another.
    """

    def __init__(self, layers: Layers, aliases: Mapping[Uri, Sequence[Uri]]) -> None:
        self._layers = layers
        self._current: dict[Uri, Uri] = {}
        self._names: dict[Uri, list[Uri]] = {}
        for uri in sorted(aliases):
            for alias in aliases[uri]:
                if alias not in self._current and not layers.is_node(alias):
                    self._current[alias] = uri
                    self._names.setdefault(uri, [uri]).append(alias)

    def is_known(self, uri: object) -> bool:
        return uri not in self._current and self._layers.is_known(uri)

    def state(self, uri: Uri) -> State:
        return self._layers.state(uri)

    def succ(self, uri: Uri) -> Ends:
        row, current = self._layers.succ(uri), self._current
        if current.keys().isdisjoint(row):
            return row
        return _cheapest((current.get(end, end), end in current, end, keyed) for end, keyed in row.items())

    def pred(self, uri: Uri) -> Ends:
        names = self._names.get(uri)
        if names is None:
            return self._layers.pred(uri)
        rows = ((name, self._layers.pred(name)) for name in names)
        return _cheapest((source, name != uri, name, keyed) for name, row in rows for source, keyed in row.items())

    def states(self) -> Iterator[tuple[Uri, bool]]:
        return ((uri, is_node) for uri, is_node in self._layers.states() if uri not in self._current)

    def size(self) -> int:
        return self._layers.size() - sum(map(self._layers.is_known, self._current))


def _cheapest(found: Iterable[tuple[Uri, bool, Uri, Keyed]]) -> Ends:
    """The cheapest relations, by other end and type.

    Args:
        found: The other end, whether the relation names a former URI, that name, and the relations. At equal weight,
            the current name comes first.
    """
    best: dict[tuple[Uri, str], tuple[Any, Attributes]] = {}
    for end, is_former, name, keyed in found:
        for type, attributes in keyed.items():
            order = (attributes["weight"], is_former, name)
            if (end, type) not in best or order < best[end, type][0]:
                best[end, type] = order, attributes
    ends: dict[Uri, dict[str, Attributes]] = {}
    for (end, type), (_, attributes) in best.items():
        ends.setdefault(end, {})[type] = attributes
    return ends  # type: ignore[return-value]


def communities(targets: Mapping[Uri, Mapping[Uri, float]]) -> list[list[Uri]]:
    """Divide nodes by the Louvain method; the same nodes and relations give the same communities.

    A relation counts more the lower its weight. 0.7 s for 10,000 nodes and 15,000 relations.
    """
    graph: nx.Graph[int] = nx.Graph()
    uris = sorted(targets)
    numbers = {uri: number for number, uri in enumerate(uris)}
    graph.add_nodes_from(range(len(uris)))
    graph.add_weighted_edges_from(
        (numbers[uri], numbers[target], 1 / (0.5 + weight))
        for uri in uris
        for target, weight in sorted(targets[uri].items())
        if target in numbers and target != uri
    )
    found = nx.community.louvain_communities(graph, seed=1)
    return [[uris[number] for number in sorted(part)] for part in found]
