"""A workspace's graph in memory: a networkx multigraph with derived indexes.

Compact: a node is its `Card`, an edge its type and weight, and equal edges share one dictionary. 100k nodes with 400k
edges take 200 MB of process; `add_edge`, with a dictionary each, would take twice that.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from threading import RLock
from types import MappingProxyType
from typing import Any

import networkx as nx

from kgd.graph.edges import WEIGHT_DIGITS, BrokenLink, Card, Edge
from kgd.graph.indexes import Adjacency, TwinIndex
from kgd.graph.snapshot_rows import Packer, Rows, Unpacked
from kgd.model.node import Json, Relation
from kgd.model.uri import Uri

CACHED_OUT = 500_000
CACHED_IN = 250_000
"""Edges cached in walking order, about 90 bytes each."""
SHARED_LIMIT = 10_000
"""Different (type, weight) pairs that share a dictionary; beyond that each edge gets its own."""
EXPORT_CHUNK = 500

Attributes = dict[str, Any]
Keyed = dict[str, Attributes]
"""The parallel edges from one node to another: relation type to attributes."""

_NOTHING: Mapping[str, Json] = MappingProxyType({})
_NO_ENDS: Mapping[Uri, Keyed] = MappingProxyType({})


class LiveGraph:
    """The stored nodes and relations of one workspace; an `EdgeSource`.

    Any thread may read or write. A single call is atomic; hold `lock` to make several calls one step, for memory work
    only: every reader waits for it. The target of a relation need not exist: it is kept, and reported as broken until
    it does.

    `graph` is the networkx graph, to be read, never written: its edge dictionaries are shared. A node of it without a
    ``card`` is the missing target of a relation.

    Args:
        workspace: Its id; walks through several graphs lock them in the order of these ids.
    """

    def __init__(self, workspace: str = "") -> None:
        self.lock, self.workspace = RLock(), workspace
        self._outs = Adjacency(CACHED_OUT)
        self._ins = Adjacency(CACHED_IN)
        self._exporting: set[Uri] | None = None
        self._reset()

    def _reset(self) -> None:
        self.graph: nx.MultiDiGraph[Uri] = nx.MultiDiGraph()
        # The dictionaries below the graph: `add_edge` makes one per edge and direction, and takes five times as long.
        inner: Any = self.graph
        self._nodes: dict[Uri, dict[str, Card]] = inner._node
        self._succ: dict[Uri, dict[Uri, Keyed]] = inner._succ
        self._pred: dict[Uri, dict[Uri, Keyed]] = inner._pred
        self._count = 0
        self._types: Counter[str] = Counter()
        self._missing: set[Uri] = set()
        self._aliases: dict[Uri, tuple[Uri, ...]] = {}
        self._claims: dict[Uri, tuple[Uri, ...]] = {}
        self._shared: dict[tuple[tuple[str, float], ...], Keyed] = {}
        self._twins: TwinIndex | None = None
        self._outs.clear()
        self._ins.clear()

    # Reading

    def __len__(self) -> int:
        return self._count

    def types(self) -> dict[str, int]:
        """The number of nodes of each type, the most frequent first. O(types): counted on write."""
        with self.lock:
            return {type: count for type, count in self._types.most_common() if count}

    def __contains__(self, uri: object) -> bool:
        return bool(self._nodes.get(uri))  # type: ignore[call-overload]

    def card(self, uri: Uri) -> Card | None:
        node = self._nodes.get(uri)
        return node["card"] if node else None

    def out(self, uri: Uri) -> Sequence[Edge]:
        edges = self._outs.get(uri)
        return edges if edges is not None else self._derive_out(uri)

    def into(self, uri: Uri) -> Sequence[Edge]:
        edges = self._ins.get(uri)
        return edges if edges is not None else self._derive_in(uri)

    def sources_of(self, uri: Uri) -> int:
        """The number of nodes with a relation to this one, or to its earlier names. O(1)."""
        pred = self._pred
        return sum(len(pred.get(name, ())) for name in (uri, *self._aliases.get(uri, ())))

    def resolve(self, uri: Uri) -> Uri:
        """The node that has this URI, or had it before a move; of several the first in order."""
        claims = self._claims.get(uri)
        return uri if claims is None or uri in self else claims[0]

    def aliases(self, uri: Uri) -> tuple[Uri, ...]:
        return self._aliases.get(uri, ())

    def relation_data(self, source: Uri, target: Uri, type: str) -> Mapping[str, Json]:
        """A relation's data beside its weight; empty if there is no such relation."""
        attributes = self._succ.get(source, {}).get(target, {}).get(type, {})
        data: Mapping[str, Json] = attributes.get("data", _NOTHING)
        return data

    def sources_with_data(self, scheme: str, keys: frozenset[str]) -> set[Uri]:
        """The nodes with a relation to a URI of this scheme, existing or not, whose data has one of these keys.

        O(nodes): for a first look, not for a request.
        """
        start = f"{scheme}:"
        with self.lock:
            ends = [uri for uri in self._pred if uri.startswith(start)]
        found: set[Uri] = set()
        for uri in ends:
            with self.lock:
                found.update(
                    source
                    for source, keyed in self._pred.get(uri, _NO_ENDS).items()
                    if any(not keys.isdisjoint(attributes.get("data", ())) for attributes in keyed.values())
                )
        return found

    def uris(self, *, scheme: str | None = None, prefix: str = "") -> Iterator[Uri]:
        """The existing nodes, in no order; concurrent writes may or may not be included. O(nodes)."""
        start = f"{scheme}:" if scheme else ""
        with self.lock:
            listed = list(self._nodes.items())
        for uri, node in listed:
            if node and uri.startswith(prefix) and uri.startswith(start):
                yield uri

    def twin(self, uri: Uri) -> Uri | None:
        """Another node whose name is equal on some file systems. The first call is O(nodes)."""
        with self.lock:
            if self._twins is None:
                self._twins = TwinIndex(u for u, node in self._nodes.items() if node)
            return next((u for u in self._twins.candidates(uri) if u in self), None)

    def broken_links(
        self, limit: int | None = None, *, known: Callable[[Uri], bool] = lambda uri: False
    ) -> list[BrokenLink]:
        """Relations with missing targets, ordered by target, source and type. O(missing targets).

        `known` tells which targets exist elsewhere: in the code tree, or in another workspace.
        """
        found: list[BrokenLink] = []
        with self.lock:
            missing = sorted(self._missing)
            for target in missing:
                if limit is not None and len(found) >= limit:
                    break
                if not known(target):
                    sources = sorted(self._pred[target].items())
                    found += [
                        BrokenLink(source, type, target, keyed[type]["weight"])
                        for source, keyed in sources
                        for type in sorted(keyed)
                    ]
        return found[:limit]

    # Writing

    def put(self, card: Card, relations: Iterable[Relation] = (), aliases: Iterable[Uri] = ()) -> None:
        """Set the node, with all its relations and aliases. O(relations), independent of their targets."""
        uri = Uri(sys.intern(card.uri))  # each relation would have its own copy of the string: 30 MB in 100k nodes
        with self.lock:
            self._note(uri)
            self._ensure(uri)
            appeared = uri not in self
            if not appeared:
                self._types[self._nodes[uri]["card"].type] -= 1
            self._types[card.type] += 1
            self._nodes[uri]["card"] = card._replace(
                uri=uri, type=sys.intern(card.type), origin=sys.intern(card.origin)
            )
            if appeared:
                self._count += 1
                self._missing.discard(uri)
                self._redirect(uri)
                if self._twins is not None:
                    self._twins.add(uri)
            wanted = self._keyed(relations)
            for target in [t for t in self._succ[uri] if t not in wanted]:
                self._connect(uri, target, None)
            for target, keyed in wanted.items():
                self._connect(uri, target, keyed)
            self._claim(uri, tuple(sorted(set(aliases) - {uri})))

    def remove(self, uri: Uri) -> bool:
        """Remove the node with its relations; relations to it become broken links. False if it does not exist."""
        with self.lock:
            if uri not in self:
                return False
            self._note(uri)
            for target in list(self._succ[uri]):
                self._connect(uri, target, None)
            self._claim(uri, ())
            self._types[self._nodes[uri]["card"].type] -= 1
            self._nodes[uri].clear()
            self._count -= 1
            self._outs.drop(uri)
            self._redirect(uri)
            if self._twins is not None:
                self._twins.discard(uri)
            self._tidy(uri)
            return True

    def _connect(self, source: Uri, target: Uri, keyed: Keyed | None) -> None:
        old = self._succ[source].get(target)
        if old == keyed:
            return
        self._outs.drop(source)
        end = self.resolve(target)
        if end in self._aliases:
            self._ins.drop(end)  # edges under its old and its new name may be one here
        else:
            self._ins.replace(end, _edges_from(source, old), _edges_from(source, keyed))
        if keyed is None:
            del self._succ[source][target], self._pred[target][source]
        else:
            self._ensure(target)
            self._succ[source][target] = self._pred[target][source] = keyed
        self._tidy(target)

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
            if alias in self._nodes:
                self._tidy(alias)
        if aliases:
            self._aliases[uri] = aliases
        else:
            self._aliases.pop(uri, None)
        self._ins.drop(uri)

    def _redirect(self, alias: Uri) -> None:
        """Drop the neighbours that were derived through `alias`."""
        if alias in self._claims:
            for source in self._pred.get(alias, ()):
                self._outs.drop(source)
            for claimant in self._claims[alias]:
                self._ins.drop(claimant)
        self._ins.drop(alias)

    def _ensure(self, uri: Uri) -> None:
        if uri not in self._nodes:
            self._nodes[uri], self._succ[uri], self._pred[uri] = {}, {}, {}

    def _tidy(self, uri: Uri) -> None:
        """Keep a missing node while a relation points to it; it counts as missing unless it is an alias."""
        if self._nodes[uri]:
            return
        if not self._pred[uri]:
            del self._nodes[uri], self._succ[uri], self._pred[uri]
            self._outs.drop(uri)
            self._ins.drop(uri)
        if uri in self._pred and uri not in self._claims:
            self._missing.add(uri)
        else:
            self._missing.discard(uri)

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
            make = tuple.__new__  # calling the class takes twice as long, and a new walk makes hundreds
            edges = [
                make(Edge, (attributes["weight"], target, type))
                for target, keyed in self._succ.get(uri, _NO_ENDS).items()
                for type, attributes in keyed.items()
            ]
            if self._claims and any(edge.target in self._claims for edge in edges):
                edges = _unique(edge._replace(target=self.resolve(edge.target)) for edge in edges)
            edges.sort()
            if uri in self._nodes:
                self._outs.keep(uri, edges)
            return edges

    def _derive_in(self, uri: Uri) -> Sequence[Edge]:
        with self.lock:
            current = self.resolve(uri)
            if current != uri:
                return self.into(current)
            names = [uri, *(a for a in self._aliases.get(uri, ()) if self.resolve(a) == uri)]
            edges = [
                edge
                for name in names
                for source, keyed in self._pred.get(name, {}).items()
                for edge in _edges_from(source, keyed)
            ]
            if len(names) > 1:
                edges = _unique(edges)
            edges.sort()
            if uri in self._nodes:
                self._ins.keep(uri, edges)
            return edges

    # Snapshot

    def export(self, stamp: Callable[[], str] = lambda: "") -> tuple[str, Rows]:
        """Everything as plain lists, consistent at the call of `stamp`, whose answer comes first.

        The lock is released between chunks. Nodes written meanwhile are exported again at the end, in the step that
        calls `stamp`. One export at a time.
        """
        packer = Packer()
        with self.lock:
            self._exporting = set()
            listed = [uri for uri, node in self._nodes.items() if node]
        try:
            for start in range(0, len(listed), EXPORT_CHUNK):
                with self.lock:
                    self._pack(packer, listed[start : start + EXPORT_CHUNK])
            with self.lock:
                self._pack(packer, self._exporting)
                when = stamp()
        finally:
            self._exporting = None
        return when, packer.rows()

    def _pack(self, packer: Packer, uris: Iterable[Uri]) -> None:
        for uri in uris:
            card = self.card(uri)
            if card is None:
                packer.drop(uri)
            else:
                packer.take(card, self._succ[uri], self._aliases.get(uri, ()))

    def _note(self, uri: Uri) -> None:
        if self._exporting is not None:
            self._exporting.add(uri)

    def load(self, rows: Rows) -> None:
        """Replace everything by the result of `export`. Disable the garbage collector meanwhile.

        Raises:
            Damaged: These are not such rows. The graph is empty then.
        """
        with self.lock:
            self._reset()
            read = Unpacked(rows)
            for mine, loaded in ((self._nodes, read.nodes), (self._succ, read.succ), (self._pred, read.pred)):
                mine.update(loaded)  # type: ignore[arg-type]
            self._shared, self._aliases = read.shared, read.aliases
            self._types = Counter(node["card"].type for node in self._nodes.values() if node)
            self._count = self._types.total()
            for uri, aliases in self._aliases.items():
                for alias in aliases:
                    self._claims[alias] = tuple(sorted({*self._claims.get(alias, ()), uri}))
            self._missing = {uri for uri, node in self._nodes.items() if not node and uri not in self._claims}


def _edges_from(end: Uri, keyed: Keyed | None) -> list[Edge]:
    return [Edge(attributes["weight"], end, type) for type, attributes in keyed.items()] if keyed else []


def _unique(edges: Iterable[Edge]) -> list[Edge]:
    """One edge per (target, type), the cheapest: a node reached under an old and a new name is linked once."""
    cheapest: dict[tuple[Uri, str], Edge] = {}
    for edge in edges:
        key = edge.target, edge.type
        if key not in cheapest or edge < cheapest[key]:
            cheapest[key] = edge
    return list(cheapest.values())
