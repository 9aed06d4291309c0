"""The graph with moved nodes under their current URIs only: a relation to a former URI leads to the node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kgd.graph.arrays import Attributes, Keyed
from kgd.graph.layers import Ends, Layers, State
from kgd.model.uri import Uri


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
