"""A workspace's graph in memory: the arrays of a snapshot, later changes, and derived indexes.

The arrays are mapped from a file, so 100,000 nodes with 400,000 edges take 2 MB of memory in addition to the pages of
the file that were read. Only changes since the last snapshot are dictionaries. Another process that maps the same
snapshot receives the later changes as plain data.

A traversal takes the cheapest neighbour first and must not look at all edges of a large node, so each node's edges are
sorted once and cached. A write drops the lists it affects, but patches long lists: if 20,000 edges had to be sorted
again after each write, the next traversal would take milliseconds longer.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain
from threading import RLock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from typing_extensions import TypedDict

from kgd.graph.array_builder import ArrayStream, Frozen
from kgd.graph.arrays import IS_ENTERED, IS_LEFT, Arrays, Keyed, Layer, Layers, Row
from kgd.graph.edges import WEIGHT_DIGITS, BrokenLink, Card, Edge
from kgd.model.node import Json, Relation
from kgd.model.uri import Uri, collision_key, is_own_key

if TYPE_CHECKING:
    from kgd.graph.stored_graph import StoredGraph

CACHED = 20_000
"""Edges of each direction that are cached in walking order, about 200 bytes each."""
ROW_FROM = 64
"""Unchanged lists from this length are not built: most readers want only the first few edges."""
SHARED_LIMIT = 10_000
"""Different (type, weight) pairs that share a dictionary; beyond that each edge gets its own."""
MOST_LAYERS = 6
"""Layers of changes that a look-up may search, before they are merged."""

PATCH_FROM = 64
"""Shorter lists are faster to derive again than to patch."""
COUNTED = 1_000
"""A longer list is counted as this many edges, so that it neither evicts many short lists nor is evicted because of
them."""

_NOTHING: Mapping[str, Json] = MappingProxyType({})
_EMPTY = ArrayStream().arrays()


class LiveGraph:
    """The stored nodes and relations of one workspace; an `EdgeSource`.

    Any thread may read or write. A single call is atomic; hold `lock` to make several calls one step, but never during
    I/O, since all readers wait for it. The target of a relation need not exist: the relation is kept, and reported as
    broken until the target exists.

    Args:
        workspace: The workspace's id. A traversal of several graphs locks them in the order of these ids.
    """

    def __init__(self, workspace: str = "") -> None:
        self.lock, self.workspace = RLock(), workspace
        self._outs, self._ins = Adjacency(CACHED), Adjacency(CACHED)
        self._view: StoredGraph | None
        self._twins: TwinIndex | None
        self.load(_EMPTY)

    # Reading

    def __len__(self) -> int:
        return self._count

    def types(self) -> dict[str, int]:
        """The number of nodes of each type, the most frequent first. O(types): counted on write."""
        with self.lock:
            return {type: count for type, count in self._types.most_common() if count}

    def __contains__(self, uri: object) -> bool:
        return self._layers.is_node(uri)  # type: ignore[arg-type]

    def card(self, uri: Uri) -> Card | None:
        return self._layers.state(uri) or None

    def out(self, uri: Uri) -> Sequence[Edge]:
        edges = self._outs.get(uri)
        return edges if edges is not None else self._derive_out(uri)

    def into(self, uri: Uri) -> Sequence[Edge]:
        edges = self._ins.get(uri)
        return edges if edges is not None else self._derive_in(uri)

    def rows(self) -> tuple[Arrays, bytearray]:
        """The arrays, and for each of their nodes the directions in which its row is valid: unchanged, without aliases.

        Only for traversals, which hold `lock`.
        """
        return self._layers.arrays, self._plain

    def sources_of(self, uri: Uri) -> int:
        """The number of nodes with a relation to this node or to one of its earlier names. O(relations to it)."""
        return sum(map(self._layers.sources, (uri, *self._aliases.get(uri, ()))))

    def may_have(self, uris: Iterable[Uri], wanted: Callable[[str], bool]) -> list[Uri]:
        """The nodes among these that a relation of these types may leave or enter. Builds no edges, so it costs little,
        even for many nodes; a node that is left out has no such relation."""
        layers, aliases, claims = self._layers, self._aliases, self._claims
        changed, find, has = any(layers.changed), layers.arrays.find, layers.arrays.having(wanted)
        return [
            uri
            for uri in uris
            if uri in aliases
            or uri in claims
            or (changed and layers.is_changed(uri))
            or (has is not None and (number := find(uri)) >= 0 and has(number))
        ]

    def resolve(self, uri: Uri) -> Uri:
        """The node that has this URI, or had it before a move; if there are several, the first in order."""
        claims = self._claims.get(uri)
        return uri if claims is None or uri in self else claims[0]

    def aliases(self, uri: Uri) -> tuple[Uri, ...]:
        return self._aliases.get(uri, ())

    def relates(self, source: Uri, type: str, target: Uri) -> bool:
        """Whether the source has a relation of this type to exactly this URI, which may be a former name."""
        return type in self._layers.succ(source).get(target, {})

    def relation_data(self, source: Uri, target: Uri, type: str) -> Mapping[str, Json]:
        """A relation's data, without its weight; empty if there is no such relation."""
        attributes = self._layers.succ(source).get(target, {}).get(type, {})
        data: Mapping[str, Json] = attributes.get("data", _NOTHING)
        return data

    def sources_with_data(self, scheme: str, keys: frozenset[str]) -> set[Uri]:
        """The nodes with a relation to a URI of this scheme, existing or not, whose data has one of these keys.

        O(relations with data, and changes since the snapshot): for a first look, not for a request.
        """
        return self._frozen().sources_with_data(f"{scheme}:", keys)

    def uris(self, *, scheme: str | None = None) -> Iterator[Uri]:
        """The existing nodes, in no particular order; concurrent writes may or may not be included. O(nodes of the
        scheme)."""
        return self.beginning(f"{scheme}:" if scheme else "")

    def beginning(self, prefix: str) -> Iterator[Uri]:
        """The existing nodes whose URIs start with `prefix`. O(found nodes and changes since the snapshot)."""
        return (uri for uri, is_node in self._layers.states(prefix) if is_node)

    def named(self, prefix: str) -> list[Uri]:
        """The existing nodes and the missing targets whose URIs start with `prefix`. O(found URIs and changes since the
        snapshot)."""
        return [uri for uri, _ in self._layers.states(prefix)]

    def twin(self, uri: Uri) -> Uri | None:
        """Another node whose name is equal on some file systems. The first call is O(nodes)."""
        with self.lock:
            if self._twins is None:
                self._twins = TwinIndex(self.uris())
            return next((u for u in self._twins.candidates(uri) if u in self), None)

    def broken_links(
        self, limit: int | None = None, *, known: Callable[[Uri], bool] = lambda uri: False
    ) -> list[BrokenLink]:
        """Relations with missing targets, ordered by target, source and type.

        O(missing targets, and changes since the snapshot). `known` tells which targets exist elsewhere: in the code
        tree, or in another workspace.
        """
        found: list[BrokenLink] = []
        with self.lock:
            for target in sorted(uri for uri in self._layers.missing() if uri not in self._claims):
                if limit is not None and len(found) >= limit:
                    break
                if not known(target):
                    sources = sorted(self._layers.pred(target).items())
                    found += [
                        BrokenLink(source, type, target, keyed[type]["weight"])
                        for source, keyed in sources
                        for type in sorted(keyed)
                    ]
        return found[:limit]

    # Writing

    def put(self, card: Card, relations: Iterable[Relation] = (), aliases: Iterable[Uri] = ()) -> None:
        """Set the node, with all its relations and aliases.

        O(relations), and for each target's first change after a snapshot, O(relations to the target).
        """
        uri = Uri(sys.intern(card.uri))  # saves a copy per relation: 30 MB for 100,000 nodes
        with self.lock:
            old = self.card(uri)
            if old:
                self._types[old.type] -= 1
            self._types[card.type] += 1
            self._layers.changed[0].nodes[uri] = card._replace(
                uri=uri, type=sys.intern(card.type), origin=sys.intern(card.origin)
            )
            self._touch(uri)
            if old is None:
                self._count += 1
                self._redirect(uri)
                if self._twins is not None:
                    self._twins.add(uri)
            wanted, current = self._keyed(relations), self._layers.succ(uri)
            for target in [t for t in current if t not in wanted]:
                self._connect(uri, target, current[target], None)
            for target, keyed in wanted.items():
                self._connect(uri, target, current.get(target), keyed)
            self._claim(uri, tuple(sorted(set(aliases) - {uri})))

    def remove(self, uri: Uri) -> bool:
        """Remove the node with its relations; relations to it become broken links. False if it does not exist."""
        with self.lock:
            card = self.card(uri)
            if card is None:
                return False
            for target, keyed in list(self._layers.succ(uri).items()):
                self._connect(uri, target, keyed, None)
            self._claim(uri, ())
            self._types[card.type] -= 1
            self._layers.changed[0].nodes[uri] = None
            self._touch(uri)
            self._count -= 1
            self._outs.drop(uri)
            self._redirect(uri)
            if self._twins is not None:
                self._twins.discard(uri)
            self._tidy(uri)
            return True

    def _connect(self, source: Uri, target: Uri, old: Keyed | None, keyed: Keyed | None) -> None:
        """Replace the relations between two nodes. The caller touches the source."""
        if old == keyed:
            return
        self._outs.drop(source)
        end = self.resolve(target)
        if end in self._aliases:
            self._ins.drop(end)  # edges to its old and its new name may be a single edge here
        else:
            self._ins.replace(end, edges_from(source, old), edges_from(source, keyed))
        top = self._layers.changed[0]
        if keyed is not None and not self._layers.is_known(target):
            top.nodes[target] = None
        succ = top.succ.get(source)
        if succ is None:
            succ = top.succ[source] = dict(self._layers.succ(source))
        pred = top.pred.get(target)
        if pred is None:
            pred = top.pred[target] = dict(self._layers.pred(target))
        self._touch(target, IS_ENTERED)
        if keyed is None:
            del succ[target], pred[source]
            self._tidy(target)
        else:
            succ[target] = pred[source] = keyed

    def _claim(self, uri: Uri, aliases: tuple[Uri, ...]) -> None:
        old = self._aliases.get(uri, ())
        if old == aliases:
            return
        for alias in {*old, *aliases}:
            self._redirect(alias)
            claims = {*self._claims.get(alias, ())} - {uri}
            if alias in aliases:
                claims.add(uri)
            if claims:
                self._claims[alias] = tuple(sorted(claims))
            else:
                self._claims.pop(alias, None)
            self._redirect(alias)
            self._touch_alias(alias)
        self._touch(uri)
        if aliases:
            self._aliases[uri] = aliases
        else:
            self._aliases.pop(uri, None)
        self._ins.drop(uri)

    def _redirect(self, alias: Uri) -> None:
        """Drop the cached neighbours that were derived through `alias`."""
        if alias in self._claims:
            for source in self._layers.pred(alias):
                self._outs.drop(source)
            for claimant in self._claims[alias]:
                self._ins.drop(claimant)
        self._ins.drop(alias)

    def _tidy(self, uri: Uri) -> None:
        """Keep a missing node while a relation points to it."""
        if not self._layers.is_node(uri) and not self._layers.sources(uri):
            top = self._layers.changed[0]
            top.nodes[uri], top.succ[uri], top.pred[uri] = False, {}, {}
            self._outs.drop(uri)
            self._ins.drop(uri)

    def _touch(self, uri: Uri, how: int = IS_LEFT | IS_ENTERED) -> None:
        """Record that a traversal must not read this row of the arrays."""
        number = self._layers.arrays.find(uri)
        if number >= 0:
            self._plain[number] &= ~how

    def _touch_alias(self, alias: Uri) -> None:
        """Like `_touch`, for an alias: a traversal follows relations to it to the node that has it."""
        self._touch(alias)
        for source in self._layers.pred(alias):
            self._touch(source, IS_LEFT)

    def _keyed(self, relations: Iterable[Relation]) -> dict[Uri, Keyed]:
        parallel: dict[Uri, list[Relation]] = {}
        for relation in relations:
            parallel.setdefault(Uri(sys.intern(relation.target)), []).append(relation)
        return {target: self._share(group) for target, group in parallel.items()}

    def _share(self, group: list[Relation]) -> Keyed:
        pairs = tuple(sorted((sys.intern(r.type), round(r.weight, WEIGHT_DIGITS)) for r in group))
        if any(r.data for r in group):
            data = {r.type: r.data for r in group if r.data}
            return {type: {"weight": w, "data": data[type]} if type in data else {"weight": w} for type, w in pairs}
        keyed = self._shared.get(pairs)
        if keyed is None:
            keyed = {type: {"weight": weight} for type, weight in pairs}
            if len(self._shared) < SHARED_LIMIT:
                self._shared[pairs] = keyed
        return keyed

    # Deriving neighbours

    def _derive_out(self, uri: Uri) -> Sequence[Edge]:
        with self.lock:
            number = self._layers.stored(uri, "succ")
            may_lead_to_aliases = self._claims and not (number >= 0 and self._plain[number] & IS_LEFT)
            edges: Sequence[Edge]
            if number >= 0:
                edges = Row(self._layers.arrays, number, "out")
            else:
                rows = self._layers.succ(uri)
                edges = sorted(edge for target, keyed in rows.items() for edge in edges_from(target, keyed))
            if may_lead_to_aliases and any(edge.target in self._claims for edge in edges):
                edges = sorted(unique(edge._replace(target=self.resolve(edge.target)) for edge in edges))
            return self._kept(self._outs, uri, edges)

    def _derive_in(self, uri: Uri) -> Sequence[Edge]:
        with self.lock:
            current = self.resolve(uri)
            if current != uri:
                return self.into(current)
            names = [uri, *(a for a in self._aliases.get(uri, ()) if self.resolve(a) == uri)]
            number = self._layers.stored(uri, "pred") if len(names) == 1 else -1
            edges: Sequence[Edge]
            if number >= 0:
                edges = Row(self._layers.arrays, number, "in")
            else:
                rows = [row for name in names for row in self._layers.pred(name).items()]
                edges = sorted(edge for source, keyed in rows for edge in edges_from(source, keyed))
                edges = sorted(unique(edges)) if len(names) > 1 else edges
            return self._kept(self._ins, uri, edges)

    def _kept(self, cache: Adjacency, uri: Uri, edges: Sequence[Edge]) -> Sequence[Edge]:
        """Cache the edges, but read a large node in place."""
        if isinstance(edges, Row):
            if len(edges) > ROW_FROM:
                return edges
            edges = list(edges)
        if self._layers.is_known(uri):
            cache.keep(uri, edges)
        return edges

    # Snapshot

    @property
    def graph(self) -> StoredGraph:
        """The networkx graph of this moment. Later writes do not change it, and it is read-only."""
        # Imported here because networkx takes a sixth of the time for imports before a daemon listens.
        from kgd.graph.stored_graph import StoredGraph

        with self.lock:
            if self._view is None or self._layers.changed[0]:
                self._view = StoredGraph.over(self._frozen(), dict(self._aliases))
            return self._view

    def freeze(self) -> Frozen:
        """The graph of this moment. O(aliases)."""
        with self.lock:
            return Frozen(self._frozen(), dict(self._aliases), dict(self._types))

    def rest_on(self, frozen: Frozen, arrays: Arrays) -> bool:
        """Replace the frozen part of the graph with arrays of the same content; False if the graph was reloaded in the
        meantime.

        Readers of the earlier arrays are not affected. O(changes since `freeze`, aliases, and relations to them).
        """
        with self.lock:
            below = frozen.layers.changed
            newer = self._layers.changed[: len(self._layers.changed) - len(below)]
            rest = self._layers.changed[len(newer) :]
            if self._layers.arrays is not frozen.layers.arrays or list(map(id, rest)) != list(map(id, below)):
                return False
            self._rest(newer or (Layer(),), arrays)
            return True

    def load(self, arrays: Arrays) -> None:
        """Replace the whole graph with these arrays at once. O(aliases, and relations to them)."""
        claims: dict[Uri, tuple[Uri, ...]] = {}
        for uri, aliases in arrays.aliases.items():
            for alias in aliases:
                claims[alias] = tuple(sorted({*claims.get(alias, ()), uri}))
        with self.lock:
            self._types = Counter(arrays.type_counts)
            self._count = arrays.count
            self._aliases, self._claims = dict(arrays.aliases), claims
            self._twins = None
            self._rest((Layer(),), arrays)

    def _rest(self, changed: tuple[Layer, ...], arrays: Arrays) -> None:
        self._layers = Layers(changed, arrays)
        self._outs.clear()  # large lists of changes are read in place now
        self._ins.clear()
        self._view = None
        self._shared: dict[tuple[tuple[str, float], ...], Keyed] = {}
        self._plain = bytearray(arrays.plain)
        """For each node of the arrays, the directions in which its rows are still current and involve no aliases."""
        for layer in changed:
            for uri in chain(layer.nodes, layer.succ):
                self._touch(uri)
            for uri in layer.pred:
                self._touch(uri, IS_ENTERED)
        for uri in self._aliases:
            self._touch(uri)
        for alias in self._claims:
            self._touch_alias(alias)

    def _frozen(self) -> Layers:
        """The layers of this moment, which no write changes."""
        with self.lock:
            changed, arrays = self._layers
            if changed[0]:
                if len(changed) >= MOST_LAYERS:
                    changed = (reduce(Layer.over, changed),)
                self._layers = Layers((Layer(), *changed), arrays)
            return Layers(self._layers.changed[1:], arrays)


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
        if not is_own_key(uri):
            key = collision_key(uri)
            others = self._folded.get(key, ())
            if uri not in others:
                self._folded[key] = tuple(sorted((*others, uri)))

    def discard(self, uri: Uri) -> None:
        if not is_own_key(uri):
            key = collision_key(uri)
            left = tuple(u for u in self._folded.get(key, ()) if u != uri)
            if left:
                self._folded[key] = left
            else:
                self._folded.pop(key, None)

    def candidates(self, uri: Uri) -> list[Uri]:
        """Other URIs with the same key, in order; the first may not exist (it is the key, read as a URI)."""
        key = collision_key(uri)
        plain = [Uri(key)] if is_own_key(key) else []
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


MOST_NODES = 500
MOST_RELATIONS = 10_000
"""Above these numbers, a new snapshot is cheaper than the changes."""


class ChangedNode(TypedDict):
    """`relations` are lists of type, target, weight and data; `blob` is in hex."""

    uri: str
    type: str
    name: str
    summary: str
    blob: str | None
    origin: str
    aliases: list[str]
    relations: list[list[Any]]


class Changes(TypedDict):
    """`gone` are URIs without a node."""

    nodes: list[ChangedNode]
    gone: list[str]


def are_few(layers: Layers) -> bool:
    """Whether the changes may be sent."""
    changed = _changed(layers)
    return len(changed) <= MOST_NODES and sum(len(layers.succ(uri)) for uri in changed) <= MOST_RELATIONS


def changes(frozen: Frozen) -> Changes:
    """The changes above the arrays of a graph."""
    found: Changes = {"nodes": [], "gone": []}
    for uri in sorted(_changed(frozen.layers)):
        card = frozen.layers.state(uri)
        if not card:
            found["gone"].append(uri)
            continue
        found["nodes"].append(
            {
                "uri": uri,
                "type": card.type,
                "name": card.name,
                "summary": card.summary,
                "blob": card.blob.hex() if card.blob else None,
                "origin": card.origin,
                "aliases": list(frozen.aliases.get(uri, ())),
                "relations": [
                    [type, target, attributes["weight"], dict(attributes.get("data", ()))]
                    for target, keyed in frozen.layers.succ(uri).items()
                    for type, attributes in keyed.items()
                ],
            }
        )
    return found


def apply(graph: LiveGraph, changes: Mapping[str, Any]) -> None:
    """Apply `changes` to a graph that was loaded from the snapshot."""
    for uri in changes["gone"]:
        graph.remove(uri)
    for node in changes["nodes"]:
        blob = bytes.fromhex(node["blob"]) if node["blob"] else None
        card = Card(node["uri"], node["type"], node["name"], node["summary"], blob, node["origin"])
        graph.put(card, (Relation(*each) for each in node["relations"]), node["aliases"])


def _changed(layers: Layers) -> set[Uri]:
    """The nodes whose cards or relations changed, and the URIs that appeared or disappeared."""
    return layers.changes().union(*(layer.succ for layer in layers.changed))
