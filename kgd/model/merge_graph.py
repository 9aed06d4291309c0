"""This file is where sets of nodes are merged: what the merge of one node cannot see, because it is about several.

A node that one side moved and the other edited is one node. Two moves of it are one node at a place both replicas
compute, and a conflict about what it is called. A node is deleted only where its deleter saw all that the other side
says of it. Open conflicts are merged as a set, and to settle one is to write its field, even where the value stays.

Pure: a graph holds the nodes and conflicts of one side, all of them or those that changed on any side and what they are
moved to; more of them do not change the result. Conflicts are about one field each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from kgd.model.conflict import PLACE, TWIN, Conflict
from kgd.model.merge import NO_ACTS, Acts, Merged, clash_of, merge, same
from kgd.model.node import Node, default_type
from kgd.model.uri import Uri, collision_key

Conflicts = Mapping[str, Conflict]
"""By id."""


@dataclass(frozen=True, slots=True)
class Graph:
    nodes: Mapping[Uri, Node] = field(default_factory=dict)
    conflicts: Conflicts = field(default_factory=dict)


EMPTY = Graph()


@dataclass(frozen=True, slots=True)
class MergedGraph:
    """Nodes and open conflicts after a merge; `clashes` are the conflicts that this merge found."""

    graph: Graph
    clashes: tuple[Conflict, ...] = ()


def merge_graphs(base: Graph, a: Graph, b: Graph) -> MergedGraph:
    """Merge two sets of nodes against what they had in common. The result does not depend on which is called a."""
    return _Merge(base, _Side(base, a), _Side(base, b)).run()


def moved(node: Node, to: Uri) -> Node:
    """The node under another URI; no alias is added."""
    if node.uri == to:
        return node
    kind = "" if node.type == default_type(node.uri) else node.type
    return replace(node, uri=to, type=kind, aliases=tuple(alias for alias in node.aliases if alias != to))


def twins(uris: Iterable[Uri], met_before: Callable[[Uri, Uri], bool]) -> list[Conflict]:
    """A conflict for each two of these nodes whose names some file systems take for one, unless they met before."""
    keys: dict[str, list[Uri]] = {}
    for uri in uris:
        keys.setdefault(collision_key(uri), []).append(uri)
    pairs = [(one, two) for group in keys.values() for one in group for two in group if one < two]
    return [twin(*pair) for pair in sorted(pairs) if not met_before(*pair)]


def twin(one: Uri, two: Uri) -> Conflict:
    """Of two nodes that both stay; `one` is the first in order."""
    return Conflict(one, {TWIN: clash_of(None, str(one), str(two))}, {TWIN: 0})


class _Side:
    """What one side did since the base."""

    def __init__(self, base: Graph, graph: Graph) -> None:
        self.nodes, self._base = graph.nodes, base
        added, settled = _without(graph.conflicts, base.conflicts), _without(base.conflicts, graph.conflicts)
        self.conflicts = _by_uri(graph.conflicts)
        self.acted_on = {conflict.uri for conflict in (*added, *settled)}
        """Nodes with a conflict that this side added or settled."""
        self.named = {conflict.uri for conflict in settled if PLACE in conflict.fields}
        """Nodes of which it decided what they are called."""

    def changed(self, uri: Uri) -> bool:
        return not same(self.nodes.get(uri), self._base.nodes.get(uri))

    def touched(self, uri: Uri) -> bool:
        return uri in self.acted_on or self.changed(uri)

    def moves(self, other: _Side) -> dict[Uri, Uri]:
        """Where it moved the nodes that the other side cares about: a node that lists the old URI as a new alias.

        Another node may have been made in the old place since.
        """
        gone = {uri for uri in self._base.nodes if self.changed(uri)}
        found: dict[Uri, Uri] = {}
        for uri, node in sorted(self.nodes.items()) if gone else ():
            before = self._base.nodes.get(uri)
            for old in gone.intersection(node.aliases):
                if old not in found and not (before and old in before.aliases) and other.touched(old):
                    found[old] = uri
        return found


@dataclass(frozen=True, slots=True)
class _Lineage:
    """One node of the base that at least one side calls something else now. None: that side deleted it."""

    old: Uri
    at_a: Uri | None
    at_b: Uri | None
    is_disputed: bool = False

    @property
    def place(self) -> Uri:
        """Where the node is after the merge: of two places the last in order."""
        return max(place for place in (self.at_a, self.at_b) if place and (self.is_disputed or place != self.old))

    @property
    def uris(self) -> set[Uri]:
        return {uri for uri in (self.old, self.at_a, self.at_b) if uri}


class _Merge:
    def __init__(self, base: Graph, a: _Side, b: _Side) -> None:
        self.base, self.a, self.b = base, a, b
        self.old_conflicts = _by_uri(base.conflicts)
        self.nodes: dict[Uri, Node] = {}
        self.conflicts: dict[str, Conflict] = {}
        self.clashes: list[Conflict] = []

    def run(self) -> MergedGraph:
        by_place: dict[Uri, list[_Lineage]] = {}
        for lineage in self._lineages():
            by_place.setdefault(lineage.place, []).append(lineage)
        done: set[Uri] = set()
        for place, lineages in sorted(by_place.items()):
            self._merge_moved(place, lineages)
            done |= {uri for lineage in lineages for uri in lineage.uris} | {place}
        self._leave_behind(by_place)
        every = {*self.base.nodes, *self.a.nodes, *self.b.nodes, *self.old_conflicts}
        every |= self.a.acted_on | self.b.acted_on
        for uri in sorted(every - done):
            self._merge_one(uri)
        return MergedGraph(Graph(self.nodes, self.conflicts), tuple(self.clashes))

    # ---- nodes that stay where they are

    def _merge_one(self, uri: Uri) -> None:
        old, a, b = self.base.nodes.get(uri), self.a.nodes.get(uri), self.b.nodes.get(uri)
        if uri in self.a.acted_on or uri in self.b.acted_on:
            by_a, by_b = self._merge_conflicts({uri}, uri)
            self._take(uri, merge(old, a, b, by_a=by_a, by_b=by_b))
        else:
            self.conflicts.update(self.old_conflicts.get(uri, {}))
            self._take(uri, merge(old, a, b))

    # ---- nodes that were moved

    def _lineages(self) -> list[_Lineage]:
        by_a, by_b = self.a.moves(self.b), self.b.moves(self.a)
        found = []
        for old in sorted({*by_a, *by_b}):
            at_a, at_b = (
                moves.get(old) or (old if old in side.nodes else None)
                for moves, side in ((by_a, self.a), (by_b, self.b))
            )
            twice = old in by_a and old in by_b
            decided = old in self.a.named and old in self.b.named
            found.append(_Lineage(old, at_a, at_b, is_disputed=at_a != at_b and (twice or decided)))
        return found

    def _merge_moved(self, place: Uri, lineages: list[_Lineage]) -> None:
        uris = {place, *(uri for lineage in lineages for uri in lineage.uris)}
        by_a, by_b = self._merge_conflicts(uris, place)
        together = next((one for one in lineages if one.at_a == one.at_b), None)
        old, a, b = self.base.nodes.get(place), self.a.nodes.get(place), self.b.nodes.get(place)
        if old is None and together:
            old = moved(self.base.nodes[together.old], place)
        if any(lineage.old == place for lineage in lineages):  # who moved it away from here did not delete it
            a, b = a or old, b or old
        acts = (by_a, by_b) if together else (NO_ACTS, NO_ACTS)
        node = self._take(place, merge(old, a, b, by_a=acts[0], by_b=acts[1]))
        for lineage in lineages:
            if lineage.at_a == lineage.at_b:
                continue
            # One side's version is in `node` by now; what the other side made of it is at another place, or gone.
            if lineage.at_a == place:
                there, here_by, there_by = self.b.nodes.get(lineage.at_b or lineage.old), by_a, by_b
            else:
                there, here_by, there_by = self.a.nodes.get(lineage.at_a or lineage.old), by_b, by_a
            was = moved(self.base.nodes[lineage.old], place)
            other = moved(there, place) if there else None
            node = self._take(place, merge(was, node, other, by_a=here_by, by_b=there_by))
            if lineage.is_disputed:
                rounds = [acts.settled[PLACE] + 1 for acts in (by_a, by_b) if PLACE in acts.settled]
                clash = clash_of(str(lineage.old), lineage.at_a, lineage.at_b, max(rounds, default=0))
                self._note(Conflict(place, {PLACE: clash}, {PLACE: clash.sides.index(place)}))
        if node is not None:
            names = {*node.aliases, *uris} - {place}
            self.nodes[place] = replace(node, aliases=tuple(names))

    def _leave_behind(self, by_place: Mapping[Uri, list[_Lineage]]) -> None:
        """Where a node was before, or would have been, is free, unless the other side has one of its own there."""
        for lineages in by_place.values():
            for lineage in lineages:
                if lineage.old not in by_place:
                    made_a = self.a.nodes.get(lineage.old) if lineage.at_a != lineage.old else None
                    made_b = self.b.nodes.get(lineage.old) if lineage.at_b != lineage.old else None
                    self._take(lineage.old, merge(None, made_a, made_b))
                for mine, others in ((lineage.at_a, self.b), (lineage.at_b, self.a)):
                    if mine and mine not in by_place and mine != lineage.old and mine in others.nodes:
                        self.nodes[mine] = others.nodes[mine]

    # ---- conflicts

    def _merge_conflicts(self, uris: Collection[Uri], at: Uri) -> tuple[Acts, Acts]:
        """Merge the records of one node as a set; what each side did about them."""
        old = _at(self.old_conflicts, uris, at)
        a, b = _at(self.a.conflicts, uris, at), _at(self.b.conflicts, uris, at)
        self.conflicts.update({id: c for id, c in a.items() if id in b or id not in old})
        self.conflicts.update({id: c for id, c in b.items() if id not in a and id not in old})
        return _acts(old, a), _acts(old, b)

    def _take(self, uri: Uri, merged: Merged) -> Node | None:
        self.nodes.pop(uri, None)
        if merged.node is not None:
            self.nodes[uri] = merged.node
        for conflict in merged.conflict.by_field() if merged.conflict else ():
            self._note(conflict)
        return merged.node

    def _note(self, conflict: Conflict) -> None:
        self.conflicts[conflict.id] = conflict
        self.clashes.append(conflict)


def _without(these: Conflicts, those: Conflicts) -> list[Conflict]:
    return [conflict for id, conflict in these.items() if id not in those]


def _by_uri(conflicts: Conflicts) -> dict[Uri, dict[str, Conflict]]:
    found: dict[Uri, dict[str, Conflict]] = {}
    for id, conflict in conflicts.items():
        found.setdefault(conflict.uri, {})[id] = conflict
    return found


def _at(conflicts: Mapping[Uri, Conflicts], uris: Collection[Uri], at: Uri) -> dict[str, Conflict]:
    """The conflicts of a node that has, or had, these URIs, as those of the node that is at `at` now."""
    found = dict(conflicts.get(at, {}))
    for uri in uris:
        if uri != at:
            found.update((moved.id, moved) for moved in (c.at(at) for c in conflicts.get(uri, {}).values()))
    return found


def _acts(old: Conflicts, new: Conflicts) -> Acts:
    if old.keys() == new.keys():
        return NO_ACTS
    settled: dict[str, int] = {}
    for id, conflict in old.items():
        for name, disputed in conflict.fields.items() if id not in new else ():
            settled[name] = max(settled.get(name, 0), disputed.round)
    return Acts(settled, True)
