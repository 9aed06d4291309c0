"""The part of a traversal that encounters only unchanged nodes of the arrays.

It compares numbers instead of URIs, and reads rows in place. At the first node that is changed or elsewhere it stops,
and a traversal over edge sources continues with its heap, so the answer does not depend on where it stops.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterator, Sequence
from heapq import heappop, heappush, heapreplace
from typing import Any

from kgd.graph.arrays import IS_ENTERED, IS_LEFT, Row
from kgd.graph.edges import UNIT, Card, Direction, Edge, EdgeSource, Limit, Link, Met, Step, Visited, card_of
from kgd.graph.live_graph import LiveGraph
from kgd.model.uri import Uri, is_of_types

_Way = tuple[int, Uri, tuple[Step, ...], Direction, int, int]
"""The neighbours of a settled node: the node twice, its path, along or against, the end of its row, its own cost."""
_Entry = tuple[int, int, int, int, int, int, int, _Way]
"""Like the entries of a traversal over edge sources, with numbers for nodes and relation types."""


class ArrayWalk:
    """A traversal without a limit on hops.

    Args:
        max_cost: Largest cost, in millionths of a step.
        edge_types: The followed types; None for all.
        types: The listed types; None for all.
    """

    def __init__(
        self,
        graph: LiveGraph,
        others: Sequence[EdgeSource],
        directions: Sequence[Direction],
        max_cost: int | None,
        edge_types: frozenset[str] | None,
        types: frozenset[str] | None,
    ) -> None:
        self._graph, self._others, self._directions, self._types = graph, others, directions, types
        self._arrays, self._plain = graph.rows()
        self._limit = max_cost
        self._wanted: frozenset[int] | None = None
        if edge_types:
            self._wanted = frozenset(n for n, label in enumerate(self._arrays.labels) if label in edge_types)
        self._heap: list[_Entry] = []
        self._reached: dict[int, int] = {}
        self._beyond: list[tuple[_Way, int]] = []
        self._listed: list[int] = []
        self.nodes: list[Visited] = []
        self.met: dict[Uri, Met] = {}
        self.ways = 0
        self.cut: tuple[Limit, Uri, int] | None = None

    def run(self, starts: Sequence[Uri], most: int | None, passes: int, *, keep_met: bool) -> bool:
        """Traverse from existing nodes. Returns whether the traversal is complete; if not, it continues from `entries`.

        Args:
            passes: The number of nodes that may be passed; negative for any number.
        """
        heap, reached, nodes, plain, arrays = self._heap, self._reached, self.nodes, self._plain, self._arrays
        if not self._enter(starts):
            return False
        need = (IS_LEFT if "out" in self._directions else 0) | (IS_ENTERED if "in" in self._directions else 0)
        columns: list[tuple[Direction, Any]] = [
            (d, arrays.out_at if d == "out" else arrays.in_at) for d in self._directions
        ]
        follow, others, types, labels = self._follower(), self._others, self._types, arrays.labels
        kinds = {"out": arrays.out[2], "in": arrays.into[2]}
        get, make = arrays.card, tuple.__new__
        while heap:
            cost, hops, number, _, _, ways, at, way = heap[0]
            card: Card | None = None
            if number not in reached:
                if plain[number] & need != need:
                    return False
                card = get(number)
                if card is None or (others and self._is_elsewhere(card.uri)):
                    return False
            entry = follow(way, hops, ways, at)
            if entry is None:
                heappop(heap)
            else:
                heapreplace(heap, entry)
            if card is None:
                continue
            uri = card[0]
            if passes == 0:
                self.cut = "passed_nodes", uri, 1
                break
            passes -= 1
            path: tuple[Step, ...] = ()
            if hops:
                _, before, path, direction, _, _ = way
                path = (*path, make(Step, (before, labels[kinds[direction][at - 1]], direction)))
            if keep_met:
                self.met[uri] = Met(cost, hops, len(nodes))
            if types is None or hops == 0 or is_of_types(uri, card.type, types):
                if len(nodes) == most:
                    self.cut = "max_nodes", uri, 1 + self._waiting(number)
                    break
                nodes.append(make(Visited, (uri, card, cost / UNIT, hops, path, (card[5],))))
                self._listed.append(number)
            reached[number] = hops
            for direction, starts_at in columns:
                start, end = starts_at[number], starts_at[number + 1]
                if start < end:
                    entry = follow((number, uri, path, direction, end, cost), hops + 1, self.ways, start)
                    self.ways += 1
                    if entry is not None:
                        heappush(heap, entry)
        return True

    def _enter(self, starts: Sequence[Uri]) -> bool:
        """Push the starts; returns whether the arrays have all of them."""
        for uri in starts:
            number = self._arrays.find(uri)
            if number < 0:
                return False
            heappush(self._heap, (0, 0, number, number, -1, self.ways, 0, (number, uri, (), "out", 0, 0)))
            self.ways += 1
        return True

    def reached(self) -> dict[Uri, int]:
        """The hops to each node that the traversal reached."""
        return {self.uri(number): hops for number, hops in self._reached.items()}

    def entries(self) -> Iterator[tuple[int, int, Uri, Uri, str, int, int, tuple[Any, ...]]]:
        """The heap with URIs instead of numbers, in the same order."""
        labels = self._arrays.sorted_labels
        uri = self._arrays.uri
        for cost, hops, number, origin, rank, ways, at, way in self._heap:
            if hops:
                row = self._row(way)
                there = (way[1], way[2], way[3], row, way[5])
                yield cost, hops, uri(number), uri(origin), labels[rank], ways, at - row.start, there
            else:
                yield cost, hops, uri(number), uri(origin), "", ways, 0, (uri(number), (), "out", (), 0)

    def beyond(self, every: Collection[Uri], looked_at: int) -> tuple[Uri, int] | None:
        """The number of neighbours beyond the cost limit, and the first node that has one; None if there are none.

        Args:
            every: All nodes of the traversal, if it continued after this part. A neighbour that was reached by another
                path is not counted.
            looked_at: The number of neighbours per node that are checked; the others are only counted.
        """
        wanted = self._wanted
        reached: Container[int] = set(map(self._arrays.find, every)) if every else self._reached
        out, into = self._arrays.out, self._arrays.into
        first, count = Uri(""), 0
        for (_, uri, _, direction, end, _), at in self._beyond:
            ends, _, types = out if direction == "out" else into
            if at + looked_at < end:
                count += end - at - looked_at
                end = at + looked_at
            for position in range(at, end):
                if ends[position] not in reached and (wanted is None or types[position] in wanted):
                    count += 1
            if count and not first:
                first = uri
        return (first, count) if count else None

    def seen(self) -> Iterator[tuple[Uri, Sequence[Edge]]]:
        """The relations of the listed nodes."""
        for number, node in zip(self._listed, self.nodes, strict=True):
            yield node.uri, Row(self._arrays, number, "out")

    def out_degree(self) -> int:
        """The number of relations of the listed nodes."""
        starts = self._arrays.out_at
        return sum([starts[number + 1] - starts[number] for number in self._listed])

    def links(self) -> list[Link]:
        """The relations among the listed nodes."""
        starts, labels, wanted = self._arrays.out_at, self._arrays.labels, self._wanted
        ends, weights, types = self._arrays.out
        uris = dict(zip(self._listed, (node.uri for node in self.nodes), strict=True))
        found = []
        make = tuple.__new__
        for number, uri in uris.items():
            start = starts[number]
            for position, target in enumerate(ends[start : starts[number + 1]], start):
                if target in uris and (wanted is None or types[position] in wanted):
                    link = (uri, uris[target], labels[types[position]], weights[position] / UNIT)
                    found.append(make(Link, link))
        return found

    def uri(self, number: int) -> Uri:
        return self._arrays.uri(number)

    def _row(self, way: _Way) -> Row:
        return Row(self._arrays, way[0], way[3])

    def _is_elsewhere(self, uri: Uri) -> bool:
        """Whether another source has the node, or relations of the node."""
        into = "in" in self._directions
        return any(s.card(uri) is not None or s.out(uri) or (into and s.into(uri)) for s in self._others)

    def _waiting(self, but: int) -> int:
        """The number of distinct nodes in the heap that could come next."""
        count = 0
        for number in {entry[2] for entry in self._heap} - self._reached.keys() - {but}:
            if self._types is None and self._plain[number]:
                count += 1
            elif card := card_of((self._graph, *self._others), self._arrays.uri(number)):
                count += self._types is None or is_of_types(card.uri, card.type, self._types)
        return count

    def _follower(self) -> Callable[[_Way, int, int, int], _Entry | None]:
        """Return the function that finds the next useful neighbour on a way; that function runs twice per node."""
        reached, beyond, wanted = self._reached, self._beyond, self._wanted
        out, into, ranks = self._arrays.out, self._arrays.into, self._arrays.ranks
        most = 1 << 62 if self._limit is None else self._limit

        def follow(way: _Way, hops: int, number: int, at: int) -> _Entry | None:
            uri, _, _, direction, end, base = way
            ends, weights, types = out if direction == "out" else into
            while at < end:
                cost = base + weights[at]
                if cost > most:
                    beyond.append((way, at))
                    return None
                target = ends[at]
                at += 1
                if target not in reached and (wanted is None or types[at - 1] in wanted):
                    return cost, hops, target, uri, ranks[types[at - 1]], number, at, way
            return None

        return follow
