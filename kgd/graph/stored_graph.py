"""The graph at one moment, as a read-only networkx multigraph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

import networkx as nx

from kgd.graph.current_names import CurrentNames
from kgd.graph.layers import Ends, Layers
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
