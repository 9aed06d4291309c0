"""Indexes derived from the graph on demand: neighbours in walking order, and names that collide.

A walk takes the cheapest neighbour first and must not look at all edges of a large node, so each node's edges are
sorted once and cached. A write drops the lists it touches. Long lists are patched: sorting 20,000 edges again after
each write would cost every following walk milliseconds.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

from kgd.graph.edges import Edge
from kgd.model.uri import Uri, collision_key

PATCH_FROM = 64
"""Shorter lists are faster to derive again than to patch."""


class Adjacency:
    """Sorted edge lists of one direction, at most `limit` edges in all; the oldest list leaves first.

    A returned list never changes: its reader sees the state at the call.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._lists: dict[Uri, Sequence[Edge]] = {}
        self.get = self._lists.get

    def keep(self, uri: Uri, edges: Sequence[Edge]) -> None:
        self.drop(uri)
        self._lists[uri] = edges
        self._held += len(edges) + 1
        while self._held > self._limit and len(self._lists) > 1:
            self.drop(next(iter(self._lists)))

    def drop(self, uri: Uri) -> None:
        edges = self._lists.pop(uri, None)
        if edges is not None:
            self._held -= len(edges) + 1

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
    """Nodes by collision key. Most URIs are their own key and need no entry, so only the others cost memory."""

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


def _is_plain(uri: str) -> bool:
    """Whether the URI is its own collision key, without computing it (0.1 us instead of 3)."""
    return uri.isascii() and uri.islower() and "%" not in uri
