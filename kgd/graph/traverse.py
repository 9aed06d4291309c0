"""Traversal: the cheapest paths outward from one or more nodes, up to limits.

A node is reached if its cheapest path costs at most `max_cost` (specs: 0 = always together, nominally 1 = one step).
The heap has one entry per settled node, its cheapest remaining neighbour, instead of one per edge. So the time depends
on the number of nodes: a node with 20,000 edges takes no longer than a leaf, unless `edge_types` excludes most of its
edges, which are then skipped one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heappop, heappush, heapreplace
from math import isinf, isnan
from typing import Literal

from kgd.errors import Invalid
from kgd.graph.array_walk import ArrayWalk
from kgd.graph.edges import (
    UNIT,
    BrokenLink,
    Card,
    Cut,
    Direction,
    Edge,
    EdgeSource,
    Limit,
    Link,
    Met,
    Step,
    Visited,
    card_of,
)
from kgd.graph.live_graph import LiveGraph
from kgd.model.uri import Uri, is_of_types

PASSED_PER_NODE = 20
PASSED_AT_LEAST = 1_000
"""Maximum number of nodes passed per node in the answer, and the minimum of that limit for a traversal. It takes effect
if `types` excludes most nodes, or if `max_depth` requires several ways to a node."""
PASSED_ON_THE_WAY = 10_000
"""Maximum number of nodes passed in the search for a path to one node. In a random graph of 100,000 nodes and 400,000
edges this takes 0.8 s at first and 0.1 s later; changes of the graph wait for it."""
LOOKED_AT = 16
"""Number of relations beyond a limit that are checked one by one; further ones are only counted."""
EDGE_BUDGET = 50_000
"""Maximum number of relations to search for relations among the nodes of the answer."""
MAX_BROKEN = 100


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
    to: Uri | None = None,
    keep_met: bool = False,
) -> Walk:
    """All nodes whose cheapest path from a start costs at most `max_cost` and has at most `max_depth` hops.

    A node in several sources is one node: its card comes from the first source, its origins and neighbours from all
    sources. `edge_types` filters the relations that are followed and returned. `types` filters the nodes that are
    listed: others are passed through, and do not count towards `max_nodes`; starts are always listed. `file` and `dir`
    can be used as types, for files and directories.

    With `to`, the answer is the cheapest path to that node: the nodes of the path in order, or only the starts if no
    path within the limits leads to it. `types` and `max_nodes` then have no effect. `to` is `missing` if no source has
    it.

    There must be at least one source. Sources with a `lock` are locked for the whole traversal, in the order of their
    workspaces, so that concurrent traversals never deadlock. The answer depends on the graph alone, not on the order of
    writes.

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
        to,
    )
    with _held(sources):
        walk = Walk(sources, options, keep_met)
        walk.run(starts)
        return walk


@dataclass(frozen=True, slots=True)
class _Options:
    max_cost: int | None
    max_depth: int | None
    max_nodes: int | None
    edge_types: frozenset[str] | None
    types: frozenset[str] | None
    directions: tuple[Direction, ...]
    to: Uri | None

    @property
    def most_nodes(self) -> tuple[int | None, int]:
        """The largest numbers of nodes to list and to pass; negative means no limit."""
        if self.to is not None:
            return None, PASSED_ON_THE_WAY
        most = self.max_nodes
        return most, -1 if most is None else max(PASSED_PER_NODE * most, PASSED_AT_LEAST)


_Way = tuple[Uri, tuple[Step, ...], Direction, Sequence[Edge], int]
"""The neighbours of one settled node: the node, its path, along or against, the edges, its own cost."""

_Entry = tuple[int, int, Uri, Uri, str, int, int, _Way]
"""Cost, hops, node, previous node, relation type: ways are compared in this order. Then a unique number, the position
of the next edge, and the way."""


@dataclass
class Walk:
    """The answer of `traverse`. `nodes` are ordered by cost, hops and URI; `missing` are starts that do not exist.

    `edges` (those among the nodes of the answer) and `cut` are computed on first use.
    """

    sources: Sequence[EdgeSource]
    options: _Options
    keep_met: bool = False
    nodes: list[Visited] = field(default_factory=list)
    missing: list[Uri] = field(default_factory=list)
    broken: dict[BrokenLink, None] = field(default_factory=dict)
    """The relations with a missing target, at most `MAX_BROKEN`."""
    unreached: Uri | None = None
    """The node `to`, if it exists but no path within the limits leads to it."""
    unknown: dict[Uri, list[Met]] = field(default_factory=dict)
    """For each missing node, the paths that led to it: the cheapest first, then only paths with fewer hops."""
    met: dict[Uri, Met] = field(default_factory=dict)
    """The distance at which each settled node was reached, whether or not it is listed; empty unless requested."""
    _heap: list[_Entry] = field(default_factory=list)
    _neighbours: list[tuple[Direction, Callable[[Uri], Sequence[Edge]]]] = field(default_factory=list)
    _ways: int = 0
    _reached: dict[Uri, int] = field(default_factory=dict)
    """The fewest hops of any way to each node so far; without `max_depth` only the first way to a node is used."""
    _cut: dict[Limit, Cut] = field(default_factory=dict)
    _beyond: list[tuple[Limit, Uri, Sequence[Edge], int]] = field(default_factory=list)
    """Edge lists with the position from which a limit excluded their neighbours."""
    _stored: ArrayWalk | None = None
    """The part of the traversal in the arrays of the first source."""
    _is_complete: bool = False
    """Whether that part is the whole walk."""
    _seen: Iterable[tuple[Uri, Sequence[Edge]]] = ()
    """The relations of the nodes in the answer, as they were during the traversal."""

    def run(self, starts: Sequence[Uri]) -> None:
        self._begin(starts)
        nodes, sources = self.nodes, self.sources
        types, to = self.options.types, self._target()
        self.unreached = to
        deep, seeks = self.options.max_depth is not None, self.options.to is not None
        most, passes = self.options.most_nodes
        passed: dict[tuple[Uri, int], Visited] = {}
        if not seeks and self._walk_arrays(most, passes):
            return
        heap, reached = self._heap, self._reached
        passes -= len(reached)
        follow = self._follower()
        found = self._finder()
        keep_met = self.keep_met
        make = tuple.__new__  # takes a third of the time of calling a NamedTuple, and there are two per node
        while heap:
            cost, hops, uri, origin, type, number, at, way = heap[0]
            entry = follow(way, hops, number, at)
            if entry is None:
                heappop(heap)
            else:
                heapreplace(heap, entry)
            new = uri not in reached
            if not new and not (deep and hops < reached[uri]):
                continue
            card, origins = found(uri)
            if card is None:
                self._lead_on(cost, hops, uri, type, way)
                continue
            if passes == 0:
                self._note("passed_nodes", uri, 1)
                break
            passes -= 1
            path = (*way[1], make(Step, (origin, type, way[2]))) if hops else ()
            if keep_met and new:
                self.met[uri] = Met(cost, hops, len(nodes))
            if seeks:
                passed[uri, hops] = make(Visited, (uri, card, cost / UNIT, hops, path, origins))
                if uri == to:
                    self.unreached = None
                    self._beyond.clear()
                    nodes[:] = [*(passed[step.uri, hop] for hop, step in enumerate(path)), passed[uri, hops]]
                    break
            if new and (hops == 0 or (not seeks and (types is None or is_of_types(uri, card.type, types)))):
                if len(nodes) == most:
                    self._note("max_nodes", uri, 1 + self._waiting(uri))
                    break
                nodes.append(make(Visited, (uri, card, cost / UNIT, hops, path, origins)))
            reached[uri] = hops
            for direction, neighbours in self._neighbours:
                if edges := neighbours(uri):
                    entry = follow((uri, path, direction, edges, cost), hops + 1, self._ways, 0)
                    self._ways += 1
                    if entry is not None:
                        heappush(heap, entry)
        self._seen = [(node.uri, source.out(node.uri)) for node in nodes for source in sources]

    def _finder(self) -> Callable[[Uri], tuple[Card | None, tuple[str, ...]]]:
        """Return the function that finds a node's card, from the first source that has the node, and all its
        origins."""
        first, *others = (source.card for source in self.sources)

        def found(uri: Uri) -> tuple[Card | None, tuple[str, ...]]:
            card = first(uri)
            origins = (card.origin,) if card else ()
            for other in others:
                if more := other(uri):
                    card = card or more
                    origins = (*origins, more.origin) if more.origin not in origins else origins
            return card, origins

        return found

    def _walk_arrays(self, most: int | None, passes: int) -> bool:
        """Traverse as far as the arrays of the first source lead; returns whether that completes the traversal."""
        graph, options = self.sources[0], self.options
        if type(graph) is not LiveGraph or options.max_depth is not None:
            return False
        others = self.sources[1:]
        stored = ArrayWalk(graph, others, options.directions, options.max_cost, options.edge_types, options.types)
        complete = stored.run([entry[2] for entry in self._heap], most, passes, keep_met=self.keep_met)
        self._stored, self._is_complete = stored, complete
        self.nodes.extend(stored.nodes)
        self.met = stored.met
        if complete:
            self._seen = stored.seen()
            if stored.cut:
                self._note(*stored.cut)
        elif reached := stored.reached():
            self._reached, self._heap, self._ways = reached, list(stored.entries()), stored.ways
        return complete

    def _target(self) -> Uri | None:
        """The current URI of `to`; if no source has the node, it is added to `missing`."""
        to = self.options.to
        current = to and self._current(to)
        if to is not None and current is None:
            self.missing.append(to)
        return current

    def _current(self, named: Uri) -> Uri | None:
        return next((uri for s in self.sources if s.card(uri := s.resolve(named))), None)

    def _begin(self, starts: Sequence[Uri]) -> None:
        for source in self.sources:
            for direction in self.options.directions:
                self._neighbours.append((direction, source.out if direction == "out" else source.into))
        found = set()
        for start in starts:
            current = self._current(start)
            if current is None:
                self.missing.append(start)
            else:
                found.add(current)
        for uri in found:
            self._enter(0, 0, uri, "", (uri, (), "out", (), 0))

    def _enter(self, cost: int, hops: int, uri: Uri, type: str, way: _Way) -> None:
        """Push a single node, on a way without other neighbours."""
        heappush(self._heap, (cost, hops, uri, way[0], type, self._ways, 0, (*way[:3], (), way[4])))
        self._ways += 1

    def _follower(self) -> Callable[[_Way, int, int, int], _Entry | None]:
        """Return the function that finds the next useful neighbour on a way. It runs twice per node."""
        reached, beyond, wanted = self._reached, self._beyond, self.options.edge_types
        limit, depth = self.options.max_cost, self.options.max_depth
        units: dict[float, int] = {}

        def follow(way: _Way, hops: int, number: int, at: int) -> _Entry | None:
            uri, _, _, edges, base = way
            if depth is not None and hops > depth:
                beyond.append(("max_depth", uri, edges, 0))
                return None
            while at < len(edges):
                weight, target, type = edges[at]
                at += 1
                cost = units.get(weight)
                if cost is None:
                    cost = units[weight] = int(weight * UNIT + 0.5)
                cost += base
                if limit is not None and cost > limit:
                    beyond.append(("max_cost", uri, edges, at - 1))
                    return None
                if target in reached and (depth is None or hops >= reached[target]):
                    continue
                if wanted is None or type in wanted:
                    return cost, hops, target, uri, type, number, at, way
            return None

        return follow

    def _lead_on(self, cost: int, hops: int, uri: Uri, type: str, way: _Way) -> None:
        """Handle a node that no source has: either another source knows that the node was moved, or the relation is
        broken."""
        for source in self.sources:
            current = source.resolve(uri)
            if current != uri:
                self._enter(cost, hops, current, type, way)
                return
        ways = self.unknown.setdefault(uri, [])
        if not ways or hops < ways[-1].hops:
            ways.append(Met(cost, hops, len(self.nodes)))
        if way[2] == "out":
            link = BrokenLink(way[0], type, uri, (cost - way[4]) / UNIT)
            if link not in self.broken:
                if len(self.broken) < MAX_BROKEN:
                    self.broken[link] = None
                else:
                    self._note("broken_links", way[0], 1)

    def _waiting(self, but: Uri) -> int:
        """The number of distinct nodes in the heap that could come next."""
        heads = {entry[2] for entry in self._heap} - self._reached.keys() - {but}
        wanted = self.options.types
        cards = (card_of(self.sources, uri) for uri in heads)
        return sum(1 for c in cards if c and (not wanted or is_of_types(c.uri, c.type, wanted)))

    def _note(self, limit: Limit, at: Uri, count: int) -> None:
        before = self._cut.get(limit)
        self._cut[limit] = Cut(limit, before.at, before.count + count) if before else Cut(limit, at, count)

    @cached_property
    def cut(self) -> list[Cut]:
        if not self._has_all_links:
            self.edges  # noqa: B018  which are cut as well
        first: dict[Limit, Uri] = {}
        counts: Counter[Limit] = Counter()
        if found := self._stored and self._stored.beyond(self._reached, LOOKED_AT):
            first["max_cost"], counts["max_cost"] = found
        wanted = self.options.edge_types
        for limit, uri, edges, at in self._beyond:
            left = [one for one in edges[at : at + LOOKED_AT] if one.target not in self._reached]
            count = max(0, len(edges) - at - LOOKED_AT) + sum(wanted is None or one.type in wanted for one in left)
            if count:
                first.setdefault(limit, uri)
                counts[limit] += count
        for limit, uri in first.items():
            self._note(limit, uri, counts[limit])
        return list(self._cut.values())

    @property
    def _has_all_links(self) -> bool:
        """Whether the arrays have all relations among the nodes of the answer, and these are few enough."""
        return self._stored is not None and self._is_complete and self._stored.out_degree() <= EDGE_BUDGET

    @cached_property
    def edges(self) -> list[Link]:
        """The relations among the nodes of the answer, in the order of the sources. If several sources have the same
        relation, only the first source's is kept."""
        if self._stored and self._has_all_links:
            return self._stored.links()
        listed = {node.uri for node in self.nodes}
        wanted = self.options.edge_types
        found: dict[tuple[Uri, Uri, str], Link] = {}
        budget = EDGE_BUDGET
        for uri, edges in self._seen:
            if len(edges) > budget:
                self._note("edges", uri, len(edges) - budget)
                edges = edges[:budget]
            for weight, target, type in edges:
                if target in listed and (wanted is None or type in wanted):
                    key = uri, target, type
                    if key not in found:
                        found[key] = Link(uri, target, type, weight)
            budget = max(0, budget - len(edges))
        return list(found.values())


@contextmanager
def _held(sources: Sequence[EdgeSource]) -> Iterator[None]:
    with ExitStack() as stack:
        for source in sorted(sources, key=lambda source: getattr(source, "workspace", "")):
            lock = getattr(source, "lock", None)
            if lock is not None:
                stack.enter_context(lock)
        yield


def _units(max_cost: float | None) -> int | None:
    if max_cost is None or (isinf(max_cost) and max_cost > 0):
        return None
    if isnan(max_cost) or max_cost < 0:
        raise Invalid("a cost limit must be a number, 0 or greater", at="max_cost", next="null means no limit.")
    return int(max_cost * UNIT + 0.5)


def _whole(value: int | None, name: str, least: int) -> int | None:
    if value is not None and value < least:
        raise Invalid(f"{name} must be at least {least}", at=name)
    return value
