"""The graph as immutable arrays under layers of later changes.

A layer holds whole rows: a changed node, or all of a node's relations in one direction. The newest layer with a row
counts. Only the newest layer changes, and never a row's inner dictionaries of older layers, so the others and the
arrays together are the graph of one moment for as long as they are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Literal, NamedTuple

from kgd.graph.arrays import Arrays, Keyed
from kgd.graph.edges import Card
from kgd.model.uri import Uri

Ends = dict[Uri, Keyed]
State = Card | None | Literal[False]
"""A node, the missing target of a relation, or nothing."""


class Layer:
    """Changed rows. `nodes` has every URI that appeared or disappeared."""

    __slots__ = ("nodes", "pred", "succ")

    def __init__(self) -> None:
        self.nodes: dict[Uri, State] = {}
        self.succ: dict[Uri, Ends] = {}
        self.pred: dict[Uri, Ends] = {}

    def __bool__(self) -> bool:
        return bool(self.nodes or self.succ or self.pred)

    def over(self, older: Layer) -> Layer:
        """Both as one layer."""
        both = Layer()
        both.nodes = older.nodes | self.nodes
        both.succ = older.succ | self.succ
        both.pred = older.pred | self.pred
        return both


class Layers(NamedTuple):
    """Changes, the newest first, over arrays."""

    changed: tuple[Layer, ...]
    arrays: Arrays

    def state(self, uri: Uri) -> State:
        for layer in self.changed:
            if uri in layer.nodes:
                return layer.nodes[uri]
        number = self.arrays.find(uri)
        return self.arrays.card(number) if number >= 0 else False

    def is_node(self, uri: Uri) -> bool:
        for layer in self.changed:
            if uri in layer.nodes:
                return bool(layer.nodes[uri])
        return self.arrays.exists(self.arrays.find(uri))

    def is_known(self, uri: object) -> bool:
        """Whether this is the URI of a node or of the target of a relation."""
        if not isinstance(uri, str):
            return False
        for layer in self.changed:
            if uri in layer.nodes:
                return layer.nodes[Uri(uri)] is not False
        return self.arrays.find(uri) >= 0

    def succ(self, uri: Uri) -> Ends:
        for layer in self.changed:
            if (row := layer.succ.get(uri)) is not None:
                return row
        number = self.arrays.find(uri)
        return self.arrays.succ(number) if number >= 0 else {}

    def pred(self, uri: Uri) -> Ends:
        for layer in self.changed:
            if (row := layer.pred.get(uri)) is not None:
                return row
        number = self.arrays.find(uri)
        return self.arrays.pred(number) if number >= 0 else {}

    def sources(self, uri: Uri) -> int:
        """The number of nodes with a relation to this URI."""
        for layer in self.changed:
            if (row := layer.pred.get(uri)) is not None:
                return len(row)
        number = self.arrays.find(uri)
        return self.arrays.sources(number) if number >= 0 else 0

    def stored(self, uri: Uri, direction: Literal["succ", "pred"]) -> int:
        """The number of the row in the arrays; -1 if it changed since, or there is none."""
        for layer in self.changed:
            if uri in (layer.succ if direction == "succ" else layer.pred):
                return -1
        return self.arrays.find(uri)

    def states(self, prefix: str = "") -> Iterator[tuple[Uri, bool]]:
        """Every node and missing target, and whether it is a node; concurrent writes may or may not be included."""
        arrays = self.arrays
        changed = self.changes()
        for number in arrays.numbers(prefix):
            uri = arrays.uri(number)
            if uri not in changed:
                yield uri, arrays.exists(number)
        for uri in changed:
            if uri.startswith(prefix):
                state = self.state(uri)
                if state is not False:
                    yield uri, state is not None

    def missing(self) -> Iterator[Uri]:
        """The missing targets of relations. O(missing targets and changes)."""
        changed = self.changes()
        for number in self.arrays.missing:
            uri = self.arrays.uri(number)
            if uri not in changed:
                yield uri
        yield from (uri for uri in changed if self.state(uri) is None)

    def sources_with_data(self, start: str, keys: frozenset[str]) -> set[Uri]:
        """The nodes with a relation to a URI that starts so, whose data has one of these keys."""
        found = set[Uri]()
        within = self.arrays.numbers(start)
        for number, end, data in self.arrays.laden_relations():
            if end in within and not keys.isdisjoint(data):
                found.add(self.arrays.uri(number))
        found.difference_update(*(layer.succ for layer in self.changed))
        for uri in set(chain.from_iterable(layer.succ for layer in self.changed)):
            for target, keyed in self.succ(uri).items():
                if target.startswith(start) and any(not keys.isdisjoint(a.get("data", ())) for a in keyed.values()):
                    found.add(uri)
        return found

    def size(self) -> int:
        """The number of nodes and missing targets. O(changes)."""
        changed = self.changes()
        known = sum(self.state(uri) is not False for uri in changed)
        return len(self.arrays) + known - sum(self.arrays.find(uri) >= 0 for uri in changed)

    def changes(self) -> set[Uri]:
        """The URIs that appeared or disappeared, or whose card changed."""
        return set().union(*(list(layer.nodes) for layer in self.changed))
