"""This file is where the graph is walked: cheapest paths outward from one or more nodes, until a limit is met.

A node is in when its cheapest path costs at most `max_cost` (specs: 0 = always together, nominally 1 = one step).
Each node that was settled has one entry in the heap, its cheapest neighbour that is left, instead of one for every
edge. So a walk of n nodes costs what n nodes cost: a hub with 20,000 edges is no dearer than a leaf, unless
`edge_types` hides most of its edges, which are then skipped one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush, heapreplace
from math import isinf, isnan
from typing import Literal, NamedTuple

from kgd.errors import Invalid
from kgd.graph.edges import WEIGHT_DIGITS, BrokenLink, Card, Direction, Edge, EdgeSource
from kgd.model.uri import Uri

UNIT = 10**WEIGHT_DIGITS
"""Costs are whole numbers of this part of a step inside a walk."""
PASSED_PER_NODE = 20
PASSED_AT_LEAST = 1_000
"""Nodes walked through for one that may be answered, and for a walk; binds where `types` hides most nodes, or where
`max_depth` needs several ways to the same node."""
LOOKED_AT = 16
"""Relations beyond a limit that are looked at one by one before the others are counted as they are."""
EDGE_BUDGET = 50_000
"""Relations looked at to find those among the answered nodes."""
MAX_BROKEN = 100

Limit = Literal["max_nodes", "max_cost", "max_depth", "passed_nodes", "broken_links", "edges"]


class Step(NamedTuple):
    """One relation of a path: from `uri`, along it (out) or against it (in), to the next step's `uri` or the node."""

    uri: Uri
    type: str
    direction: Direction


class Visited(NamedTuple):
    """A node with its cheapest path: of equal ones the one with fewest hops, then by URI and type. A start has none."""

    uri: Uri
    card: Card
    cost: float
    hops: int
    path: tuple[Step, ...]
    origins: tuple[str, ...]


class Link(NamedTuple):
    """A relation between two answered nodes."""

    source: Uri
    target: Uri
    type: str
    weight: float


@dataclass(frozen=True, slots=True)
class Cut:
    """What a limit left out. `at` is where it was met first.

    `count` is how many relations were not followed (of nodes with very many: at most), for `max_nodes` how many nodes
    come next (at least), for `broken_links` and `edges` how many were left out.
    """

    limit: Limit
    at: Uri
    count: int


@dataclass(frozen=True, slots=True)
class Walk:
    """The answer of `traverse`. `nodes` are in order of cost, hops and URI, `missing` are starts that do not exist."""

    nodes: list[Visited]
    edges: list[Link]
    cut: list[Cut]
    broken: list[BrokenLink]
    missing: list[Uri]


def traverse(
    sources: Sequence[EdgeSource],
    start: Uri | Sequence[Uri],
    *,
    max_cost: float | None = 1.0,
    max_depth: int | None = None,
    edge_types: Collection[str] | None = None,
    types: Collection[str] | None = None,
    direction: Literal["out", "in", "both"] = "out",
    max_nodes: int | None = 50,
) -> Walk:
    """All nodes whose cheapest path from a start costs at most `max_cost` and has at most `max_depth` hops.

    A node that several sources have is one node: its card is that of the first, its origins are those of all, and its
    neighbours those of all. `edge_types` says which relations are followed and answered. `types` says which nodes are
    answered: others are walked through but not listed, do not count as `max_nodes`, and starts are always listed.

    The answer depends on the graph alone, not on the order in which it was written. Sources that have a `lock` are held
    for the time of the walk.

    Raises:
        Invalid: A limit is negative, or not a number.
    """
    starts = [start] if isinstance(start, str) else list(dict.fromkeys(start))
    options = _Options(
        _units(max_cost),
        _whole(max_depth, "max_depth", 0),
        _whole(max_nodes, "max_nodes", 1),
        frozenset(edge_types) if edge_types else None,
        frozenset(types) if types else None,
        ("out", "in") if direction == "both" else (direction,),
    )
    with _held(sources):
        return _Walker(sources, options).walk(starts)


@dataclass(frozen=True, slots=True)
class _Options:
    max_cost: int | None
    max_depth: int | None
    max_nodes: int | None
    edge_types: frozenset[str] | None
    types: frozenset[str] | None
    directions: tuple[Direction, ...]


@dataclass(slots=True)
class _Cursor:
    """How far the neighbours of one settled node, in one source and direction, have been taken."""

    edges: Sequence[Edge]
    uri: Uri
    cost: int
    hops: int
    path: tuple[Step, ...]
    direction: Direction
    at: int = 0


_Entry = tuple[int, int, Uri, Uri, str, int]
"""Cost, hops, node, where from, by which type, number of the cursor: in this order also what decides between ways."""


@dataclass(slots=True)
class _Walker:
    sources: Sequence[EdgeSource]
    options: _Options
    heap: list[_Entry] = field(default_factory=list)
    cursors: list[_Cursor] = field(default_factory=list)
    reached: dict[Uri, int] = field(default_factory=dict)
    """The fewest hops of the ways taken to a node so far; without `max_depth` the first way is the only one."""
    nodes: list[Visited] = field(default_factory=list)
    broken: dict[BrokenLink, None] = field(default_factory=dict)
    cut: dict[Limit, Cut] = field(default_factory=dict)
    beyond: list[tuple[Limit, Uri, Sequence[Edge], int]] = field(default_factory=list)
    """Neighbours from a position on that a limit kept out."""

    def walk(self, starts: Sequence[Uri]) -> Walk:
        missing = self._begin(starts)
        heap, reached, deep = self.heap, self.reached, self.options.max_depth is not None
        most = self.options.max_nodes
        passes = None if most is None else max(PASSED_PER_NODE * most, PASSED_AT_LEAST)
        while heap:
            cost, hops, uri, _, type, number = heap[0]
            cursor = self.cursors[number]
            self._advance(cursor, number)
            known = reached.get(uri)
            if known is not None and not (deep and hops < known):
                continue
            cards = [card for source in self.sources if (card := source.card(uri))]
            if not cards:
                self._lead_on(cost, hops, uri, type, cursor)
                continue
            if passes is not None:
                if passes == 0:
                    self._note("passed_nodes", uri, 1)
                    break
                passes -= 1
            path = (*cursor.path, Step(cursor.uri, type, cursor.direction)) if hops else ()
            if known is None and (hops == 0 or not self.options.types or cards[0].type in self.options.types):
                if len(self.nodes) == most:
                    self._note("max_nodes", uri, 1 + self._waiting(uri))
                    break
                origins = (cards[0].origin,) if len(cards) == 1 else tuple(dict.fromkeys(c.origin for c in cards))
                self.nodes.append(Visited(uri, cards[0], cost / UNIT, hops, path, origins))
            reached[uri] = hops
            self._expand(uri, cost, hops, path)
        self._count_beyond()
        return Walk(self.nodes, self._links(), list(self.cut.values()), list(self.broken), missing)

    def _begin(self, starts: Sequence[Uri]) -> list[Uri]:
        missing = []
        found = set()
        for start in starts:
            current = next((uri for s in self.sources if s.card(uri := s.resolve(start))), None)
            if current is None:
                missing.append(start)
            else:
                found.add(current)
        for number, uri in enumerate(sorted(found)):
            self.cursors.append(_Cursor((), uri, 0, 0, (), "out"))
            self.heap.append((0, 0, uri, Uri(""), "", number))  # sorted, so it is a heap
        return missing

    def _expand(self, uri: Uri, cost: int, hops: int, path: tuple[Step, ...]) -> None:
        last = hops == self.options.max_depth
        for source in self.sources:
            for direction in self.options.directions:
                edges = source.out(uri) if direction == "out" else source.into(uri)
                if not edges:
                    continue
                if last:
                    self.beyond.append(("max_depth", uri, edges, 0))
                    continue
                cursor = _Cursor(edges, uri, cost, hops + 1, path, direction)
                self.cursors.append(cursor)
                entry = self._next(cursor, len(self.cursors) - 1)
                if entry is not None:
                    heappush(self.heap, entry)

    def _advance(self, cursor: _Cursor, number: int) -> None:
        """Put the cursor's next neighbour in the place of the one on top of the heap."""
        entry = self._next(cursor, number)
        if entry is None:
            heappop(self.heap)
        else:
            heapreplace(self.heap, entry)

    def _next(self, cursor: _Cursor, number: int) -> _Entry | None:
        edges, hops = cursor.edges, cursor.hops
        reached, limit, wanted = self.reached, self.options.max_cost, self.options.edge_types
        deep = self.options.max_depth is not None
        for at in range(cursor.at, len(edges)):
            weight, target, type = edges[at]
            cost = cursor.cost + int(weight * UNIT + 0.5)
            if limit is not None and cost > limit:
                self.beyond.append(("max_cost", cursor.uri, edges, at))
                break
            if wanted is not None and type not in wanted:
                continue
            known = reached.get(target)
            if known is None or (deep and hops < known):
                cursor.at = at + 1
                return cost, hops, target, cursor.uri, type, number
        cursor.at = len(edges)
        return None

    def _lead_on(self, cost: int, hops: int, uri: Uri, type: str, cursor: _Cursor) -> None:
        """No source has the node: it was moved, which another source may know, or the relation is broken."""
        for source in self.sources:
            current = source.resolve(uri)
            if current != uri:
                known = self.reached.get(current)
                if known is None or hops < known:
                    self.cursors.append(_Cursor((), cursor.uri, cursor.cost, hops, cursor.path, cursor.direction))
                    heappush(self.heap, (cost, hops, current, cursor.uri, type, len(self.cursors) - 1))
                return
        if cursor.direction == "out":
            link = BrokenLink(cursor.uri, type, uri)
            if link not in self.broken:
                if len(self.broken) < MAX_BROKEN:
                    self.broken[link] = None
                else:
                    self._note("broken_links", cursor.uri, 1)

    def _waiting(self, but: Uri) -> int:
        """How many more nodes would be next, of those whose turn the heap knows."""
        heads = {entry[2] for entry in self.heap} - self.reached.keys() - {but}
        wanted = self.options.types
        cards = (next((card for s in self.sources if (card := s.card(uri))), None) for uri in heads)
        return sum(1 for card in cards if card is not None and (not wanted or card.type in wanted))

    def _note(self, limit: Limit, at: Uri, count: int) -> None:
        before = self.cut.get(limit)
        self.cut[limit] = Cut(limit, before.at, before.count + count) if before else Cut(limit, at, count)

    def _count_beyond(self) -> None:
        reached, wanted = self.reached, self.options.edge_types
        for limit, uri, edges, at in self.beyond:
            near = edges[at : at + LOOKED_AT]
            count = max(0, len(edges) - at - LOOKED_AT)
            for edge in near:
                if edge.target not in reached and (wanted is None or edge.type in wanted):
                    count += 1
            if count:
                self._note(limit, uri, count)

    def _links(self) -> list[Link]:
        """The relations among the answered nodes, in the order of their sources; of equal ones the first source's."""
        listed = {node.uri for node in self.nodes}
        wanted = self.options.edge_types
        found: dict[tuple[Uri, Uri, str], Link] = {}
        budget = EDGE_BUDGET
        for node in self.nodes:
            uri = node.uri
            for source in self.sources:
                edges = source.out(uri)
                if len(edges) > budget:
                    self._note("edges", uri, len(edges) - budget)
                    edges = edges[:budget]
                budget -= len(edges)
                for weight, target, type in edges:
                    if target in listed and (wanted is None or type in wanted):
                        found.setdefault((uri, target, type), Link(uri, target, type, weight))
        return list(found.values())


@contextmanager
def _held(sources: Sequence[EdgeSource]) -> Iterator[None]:
    with ExitStack() as stack:
        for source in sources:
            lock = getattr(source, "lock", None)
            if lock is not None:
                stack.enter_context(lock)
        yield


def _units(max_cost: float | None) -> int | None:
    if max_cost is None or (isinf(max_cost) and max_cost > 0):
        return None
    if isnan(max_cost) or max_cost < 0:
        raise Invalid("a cost limit is a number that is not negative", at="max_cost", next="null means no limit.")
    return int(max_cost * UNIT + 0.5)


def _whole(value: int | None, name: str, least: int) -> int | None:
    if value is not None and value < least:
        raise Invalid(f"{name} is at least {least}", at=name)
    return value
