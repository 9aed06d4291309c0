"""The graph as immutable arrays under layers of later changes, and indexes derived from it on demand.

A layer contains whole rows: a changed node, or all of a node's relations in one direction. The newest layer that has a
row determines its value. Only the newest layer is ever modified, and inner dictionaries of older layers never are. So
the older layers and the arrays together stay the graph of one moment for as long as they are kept.

A traversal takes the cheapest neighbour first and must not look at all edges of a large node, so each node's edges are
sorted once and cached. A write drops the lists it affects, but patches long lists: if 20,000 edges had to be sorted
again after each write, the next traversal would take milliseconds longer.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Literal, NamedTuple

from kgd.graph.arrays import Arrays, Keyed
from kgd.graph.edges import Card, Edge
from kgd.model.uri import Uri, collision_key

Ends = dict[Uri, Keyed]
State = Card | None | Literal[False]
"""A node, the missing target of a relation, or nothing."""


class Layer:
    """Changed rows. `nodes` contains every URI that appeared or disappeared, or whose node changed."""

    __slots__ = ("nodes", "pred", "succ")

    def __init__(self) -> None:
        self.nodes: dict[Uri, State] = {}
        self.succ: dict[Uri, Ends] = {}
        self.pred: dict[Uri, Ends] = {}

    def __bool__(self) -> bool:
        return bool(self.nodes or self.succ or self.pred)

    def over(self, older: Layer) -> Layer:
        """This layer over an older one, combined into one layer."""
        both = Layer()
        both.nodes = older.nodes | self.nodes
        both.succ = older.succ | self.succ
        both.pred = older.pred | self.pred
        return both


class Layers(NamedTuple):
    """Layers of changes, the newest first, over arrays."""

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
        """The number of the URI's row in the arrays; -1 if the row has changed since, or does not exist."""
        for layer in self.changed:
            if uri in (layer.succ if direction == "succ" else layer.pred):
                return -1
        return self.arrays.find(uri)

    def is_changed(self, uri: Uri) -> bool:
        """Whether a row of the URI has changed since the arrays."""
        return any(uri in layer.succ or uri in layer.pred for layer in self.changed)

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
        """The nodes with a relation to a URI that begins with `start`, if the relation's data has one of these keys."""
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

    def sample(self, most: int) -> list[Uri]:
        """About `most` nodes, evenly spread over the order of URIs; all of them if there are no more. O(most, and
        changes since the snapshot)."""
        arrays, known = self.arrays, self.changes()
        changed = sorted(known)
        share = min(1.0, most / max(1, len(arrays) + len(changed)))
        numbers = _spread(len(arrays), share)
        found = [uri for number in numbers if arrays.exists(number) and (uri := arrays.uri(number)) not in known]
        return found + [uri for number in _spread(len(changed), share) if self.is_node(uri := changed[number])]

    def size(self) -> int:
        """The number of nodes and missing targets. O(changes)."""
        changed = self.changes()
        known = sum(self.state(uri) is not False for uri in changed)
        return len(self.arrays) + known - sum(self.arrays.find(uri) >= 0 for uri in changed)

    def changes(self) -> set[Uri]:
        """The URIs that appeared or disappeared, or whose card changed."""
        return set().union(*(list(layer.nodes) for layer in self.changed))


PATCH_FROM = 64
"""Shorter lists are faster to derive again than to patch."""
COUNTED = 1_000
"""A longer list is counted as this many edges, so that it neither evicts many short lists nor is evicted because of
them."""


class Adjacency:
    """Sorted edge lists of one direction, with at most `limit` edges in total (see `COUNTED`). The oldest list is
    evicted first.

    A returned list never changes: its reader sees the state at the time of the call.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._lists: dict[Uri, Sequence[Edge]] = {}
        self.get = self._lists.get

    def keep(self, uri: Uri, edges: Sequence[Edge]) -> None:
        self.drop(uri)
        self._lists[uri] = edges
        self._held += min(len(edges), COUNTED) + 1
        while self._held > self._limit and len(self._lists) > 1:
            self.drop(next(iter(self._lists)))

    def drop(self, uri: Uri) -> None:
        edges = self._lists.pop(uri, None)
        if edges is not None:
            self._held -= min(len(edges), COUNTED) + 1

    def replace(self, uri: Uri, gone: Sequence[Edge], new: Sequence[Edge]) -> None:
        """Update a cached list; does nothing for a node without one."""
        edges = self._lists.get(uri)
        if edges is None:
            return
        if len(edges) < PATCH_FROM:
            self.drop(uri)
            return
        patched = list(edges)
        for edge in gone:
            at = bisect_left(patched, edge)
            if at < len(patched) and patched[at] == edge:
                del patched[at]
        for edge in new:
            insort(patched, edge)
        self.keep(uri, patched)

    def clear(self) -> None:
        self._lists.clear()
        self._held = 0


class TwinIndex:
    """Nodes by collision key. Most URIs are equal to their key and need no entry, so only the others take memory."""

    def __init__(self, uris: Iterable[Uri]) -> None:
        self._folded: dict[str, tuple[Uri, ...]] = {}
        for uri in uris:
            self.add(uri)

    def add(self, uri: Uri) -> None:
        if not _is_plain(uri):
            key = collision_key(uri)
            others = self._folded.get(key, ())
            if uri not in others:
                self._folded[key] = tuple(sorted((*others, uri)))

    def discard(self, uri: Uri) -> None:
        if not _is_plain(uri):
            key = collision_key(uri)
            left = tuple(u for u in self._folded.get(key, ()) if u != uri)
            if left:
                self._folded[key] = left
            else:
                self._folded.pop(key, None)

    def candidates(self, uri: Uri) -> list[Uri]:
        """Other URIs with the same key, in order; the first may not exist (it is the key, read as a URI)."""
        key = collision_key(uri)
        plain = [Uri(key)] if _is_plain(key) and collision_key(key) == key else []
        return [u for u in (*plain, *self._folded.get(key, ())) if u != uri]


def edges_from(end: Uri, keyed: Keyed | None) -> list[Edge]:
    """The parallel relations whose other end is `end`."""
    return [Edge(attributes["weight"], end, type) for type, attributes in keyed.items()] if keyed else []


def unique(edges: Iterable[Edge]) -> list[Edge]:
    """The cheapest edge per (target, type), so that a node reached under an old and a new name is linked once."""
    cheapest: dict[tuple[Uri, str], Edge] = {}
    for edge in edges:
        key = edge.target, edge.type
        if key not in cheapest or edge < cheapest[key]:
            cheapest[key] = edge
    return list(cheapest.values())


def _is_plain(uri: str) -> bool:
    """Whether the URI is its own collision key, found without computing the key (0.1 us instead of 3)."""
    return uri.isascii() and uri.islower() and "%" not in uri


def _spread(count: int, share: float) -> list[int]:
    """A share of the numbers below `count`, at equal distances."""
    taken = round(count * share)
    return [number * count // taken for number in range(taken)]
