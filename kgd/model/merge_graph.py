"""The merge of sets of nodes: moves, twins and deletions, which concern several nodes; and the settling of conflicts.

A node that one side moved and the other edited stays one node. If both sides moved it, there is one node, at a place on
which all replicas agree, and a conflict about its URI. A node is deleted only if the side that deleted it had seen all
of the other side's changes.

The functions are pure. A graph holds the nodes and conflicts of one side: either all of them, or only those that
changed on any side and the targets of moves. Additional nodes do not change the result. Each conflict concerns one
field.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from kgd.errors import Invalid
from kgd.model.conflict import (
    NO_RECORDS,
    PLACE,
    TWIN,
    WHOLE,
    Conflict,
    Decided,
    Records,
    by_field,
    disagreement,
    held,
    merge_held,
)
from kgd.model.fields import from_plain, with_field
from kgd.model.merge import Merged, Three, is_of_node, merge, same
from kgd.model.node import Json, Node, default_type
from kgd.model.uri import Uri

Conflicts = Mapping[str, Conflict]
"""Nodes by id."""


@dataclass(frozen=True, slots=True)
class Graph:
    nodes: Mapping[Uri, Node] = field(default_factory=dict)
    conflicts: Conflicts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MergedGraph:
    """Nodes and open conflicts after a merge; `clashes` are the conflicts that neither side had."""

    graph: Graph
    clashes: tuple[Conflict, ...] = ()


def merge_graphs(base: Graph, a: Graph, b: Graph) -> MergedGraph:
    """Merge two sets of nodes against their base. Swapping the sides does not change the result."""
    return _Merge(base, _Side(base, a), _Side(base, b)).run()


def moved(node: Node, to: Uri) -> Node:
    """The node under another URI; no alias is added."""
    if node.uri == to:
        return node
    kind = "" if node.type == default_type(node.uri) else node.type
    return replace(node, uri=to, type=kind, aliases=tuple(alias for alias in node.aliases if alias != to))


def twin(one: Uri, two: Uri) -> Conflict:
    """The conflict about two nodes, both of which stay; `one` is first in order."""
    return Conflict(one, {TWIN: disagreement(None, (str(one), str(two)))}, {TWIN: 0})


class _Side:
    """The changes of one side since the base."""

    def __init__(self, base: Graph, graph: Graph) -> None:
        self.nodes, self._base = graph.nodes, base
        self._base_conflicts = _by_uri(base.conflicts)
        self.conflicts, self.known = _by_uri(graph.conflicts), graph.conflicts.keys()
        self.acted_on = {c.uri for id, c in graph.conflicts.items() if id not in base.conflicts}
        self.acted_on |= {c.uri for id, c in base.conflicts.items() if id not in graph.conflicts}
        """Nodes with a conflict that this side added or settled."""

    def changed(self, uri: Uri) -> bool:
        return not same(self.nodes.get(uri), self._base.nodes.get(uri))

    def did(self, uri: Uri) -> bool:
        """Whether this side changed the node, or added or settled a conflict about it."""
        return uri in self.acted_on or self.changed(uri)

    def at(self, uri: Uri) -> Merged:
        node = self.nodes.get(uri)
        return Merged(node, _at(self.conflicts, {uri}, uri) if node else NO_RECORDS)

    def free(self, uri: Uri) -> set[Uri]:
        """The URI if no node has it now: its conflicts then concern the node that had it before."""
        return set() if uri in self.nodes else {uri}

    def moves(self, other: _Side) -> dict[Uri, Uri]:
        """The moves that matter to the other side. A node was moved if it lists the old URI as a new alias.

        But another node may now have the old URI, and an alias may refer to an unrelated node. In that case, the node
        that now has the URI is the original, unless the node with the alias resembles the original more.
        """
        gone = {uri for uri in self._base.nodes if self.did(uri)}
        found: dict[Uri, Uri] = {}
        for uri, node in sorted(self.nodes.items()) if gone else ():
            before = self._base.nodes.get(uri)
            for old in gone.intersection(node.aliases):
                if not other.did(old) or old in found or (before and old in before.aliases):
                    continue
                still = self.nodes.get(old)
                if still is None or self._is_rather(old, node, still):
                    found[old] = uri
        return found

    def _is_rather(self, old: Uri, moved: Node, still: Node) -> bool:
        """Whether the original node at `old` more likely became the node that lists it as an alias than the node at
        that URI now."""
        was = _words(self._base.nodes[old], self._base_conflicts.get(old, {}))
        one, other = (_words(node, self.conflicts.get(node.uri, {})) for node in (moved, still))
        return len(was & one) >= len(was & other)


@dataclass(frozen=True, slots=True)
class _Lineage:
    """One node of the base that at least one side renamed. None means that this side deleted it."""

    old: Uri
    at_a: Uri | None
    at_b: Uri | None
    place: Uri

    @property
    def uris(self) -> set[Uri]:
        return {uri for uri in (self.old, self.at_a, self.at_b) if uri}


class _Merge:
    def __init__(self, base: Graph, a: _Side, b: _Side) -> None:
        self.base, self.a, self.b = base, a, b
        self.old_conflicts = _by_uri(base.conflicts)
        self.moved_away: set[Uri] = set()
        self.nodes: dict[Uri, Node] = {}
        self.conflicts: dict[str, Conflict] = {}

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
        new = sorted(self.conflicts.keys() - self.a.known - self.b.known)
        return MergedGraph(Graph(self.nodes, self.conflicts), tuple(self.conflicts[id] for id in new))

    # ---- nodes that stay where they are

    def _merge_one(self, uri: Uri) -> None:
        if not (uri in self.old_conflicts or uri in self.a.conflicts or uri in self.b.conflicts):
            self._take(uri, merge(self.base.nodes.get(uri), self.a.nodes.get(uri), self.b.nodes.get(uri)))
            return
        records = self._records({uri}, uri)
        self._take(uri, merge(self.base.nodes.get(uri), self.a.nodes.get(uri), self.b.nodes.get(uri), records))
        self._keep_others({uri}, uri)
        if not any(PLACE in each for each in records):
            return
        if self.a.did(uri) and self.b.did(uri):
            self._note_places(uri, self._places(_Lineage(uri, uri, uri, uri)))
        elif PLACE in (record := records[1] if self.a.did(uri) else records[2]) and uri in self.nodes:
            self._note(record[PLACE])

    # ---- nodes that were moved

    def _lineages(self) -> list[_Lineage]:
        by_a, by_b = self.a.moves(self.b), self.b.moves(self.a)
        self.moved_away = {*by_a, *by_b}
        found = []
        for old in sorted({*by_a, *by_b}):
            at_a, at_b = (
                moves.get(old) or (old if old in side.nodes else None)
                for moves, side in ((by_a, self.a), (by_b, self.b))
            )
            lineage = _Lineage(old, at_a, at_b, at_a or at_b or old)
            found.append(replace(lineage, place=self._place(lineage)))
        # Each side combined the two nodes under a different name; one lineage is enough to bring both to one place.
        crossed = {(one.old, one.place) for one in found}
        return [one for one in found if (one.place, one.old) not in crossed or one.place > one.old]

    def _place(self, lineage: _Lineage) -> Uri:
        """The node's place after the merge: the target of its move; if there are several targets, the last in order."""
        at_a, at_b = lineage.at_a, lineage.at_b
        if at_a is None or at_b is None or at_a == at_b:
            return lineage.place
        decided = self._places(lineage)
        left = decided.conflict.sides if decided.conflict else (decided.value,)
        return max((place for place in (at_a, at_b) if place in left), default=max(at_a, at_b))

    def _places(self, lineage: _Lineage) -> Decided:
        """The node's name, merged like any other field."""
        at_a, at_b = lineage.at_a or lineage.old, lineage.at_b or lineage.old
        was, ours, theirs = (
            held(PLACE, str(at), _at(conflicts, {at}, at))
            for at, conflicts in ((lineage.old, self.old_conflicts), (at_a, self.a.conflicts), (at_b, self.b.conflicts))
        )
        return merge_held(was, ours, theirs)

    def _note_places(self, place: Uri, decided: Decided) -> None:
        if decided.conflict and place in self.nodes:
            sides = decided.conflict.sides
            self._note(Conflict(place, {PLACE: decided.conflict}, {PLACE: sides.index(place) if place in sides else 0}))

    def _merge_moved(self, place: Uri, lineages: list[_Lineage]) -> None:
        """Merge each side's node at `place` with the other side's changes to it elsewhere, then merge both sides."""
        together = next((one for one in lineages if one.at_a == one.at_b), None)
        # A node that a side moved away is no longer here; a node that the side has here now is a different one.
        old, uris = None if place in self.moved_away else self.base.nodes.get(place), {place}
        if together and old is None:
            old, uris = moved(self.base.nodes[together.old], place), {place, together.old}
        was = Merged(old, _at(self.old_conflicts, uris, place) if old else NO_RECORDS)
        sides = []
        for mine, other in ((self.a, self.b), (self.b, self.a)):
            here = Merged(mine.nodes.get(place), _at(mine.conflicts, uris, place))
            for lineage in lineages:
                at_mine, at_other = (lineage.at_a, lineage.at_b) if mine is self.a else (lineage.at_b, lineage.at_a)
                if at_mine == place and at_other != place:
                    here = self._with_elsewhere(place, lineage.old, here, mine, other, at_other)
            sides.append(here)
        self._take(place, _merged(was, *sides))
        every = {place, *(uri for lineage in lineages for uri in lineage.uris)}
        self._keep_others(every, place)
        node = self.nodes.get(place)
        if node is not None:
            self.nodes[place] = replace(node, aliases=tuple({*node.aliases, *every} - {place}))
        for lineage in lineages:
            if lineage.at_a and lineage.at_b:
                self._note_places(place, self._places(lineage))

    def _with_elsewhere(
        self, place: Uri, old: Uri, here: Merged, mine: _Side, other: _Side, elsewhere: Uri | None
    ) -> Merged:
        """A node that one side has at `place`, merged with the other side's changes to it since the base, where it was
        at `old`."""
        was = Merged(moved(self.base.nodes[old], place), _at(self.old_conflicts, {old}, place))
        mine_now = Merged(here.node, {**_at(mine.conflicts, mine.free(old) | {place}, place), **here.records})
        there = moved(other.nodes[elsewhere], place) if elsewhere else None
        about = other.free(old) | {elsewhere or old}
        return _merged(was, mine_now, Merged(there, _at(other.conflicts, about, place)))

    def _leave_behind(self, by_place: Mapping[Uri, list[_Lineage]]) -> None:
        """Free the old URIs, unless a side has another node there."""
        for lineages in by_place.values():
            for lineage in lineages:
                old = lineage.old
                if old not in by_place:
                    made_a = self.a.at(old) if lineage.at_a != old else Merged(None)
                    made_b = self.b.at(old) if lineage.at_b != old else Merged(None)
                    self._take(old, _merged(Merged(None), made_a, made_b))
                for mine, others in ((lineage.at_a, self.b), (lineage.at_b, self.a)):
                    if mine and mine not in by_place and mine != lineage.old and mine in others.nodes:
                        self._take(mine, others.at(mine))

    # ---- conflicts

    def _records(self, uris: Collection[Uri], at: Uri) -> Three:
        """The open conflicts of a node with these past or present URIs, as conflicts of the node at `at`."""
        return _at(self.old_conflicts, uris, at), _at(self.a.conflicts, uris, at), _at(self.b.conflicts, uris, at)

    def _keep_others(self, uris: Collection[Uri], at: Uri) -> None:
        """Keep conflicts that do not concern the node's own fields, unless a side removed them."""
        old, a, b = self._records(uris, at)
        for name in sorted({*a, *b}):
            if not is_of_node(name) and name != PLACE and ((name in a and name in b) or name not in old):
                self._note(max((each[name] for each in (a, b) if name in each), key=lambda record: record.id))

    def _take(self, uri: Uri, merged: Merged) -> None:
        self.nodes.pop(uri, None)
        if merged.node is not None:
            self.nodes[uri] = merged.node
        for conflict in merged.records.values():
            self._note(conflict.at(uri))

    def _note(self, conflict: Conflict) -> None:
        self.conflicts[conflict.id] = conflict


def _words(node: Node, conflicts: Conflicts) -> set[str]:
    """Pieces of a version's text and open conflicts, which show which node it is a version of."""
    texts = [node.name, node.summary, node.content, *node.tags, *(f"{r.type} {r.target}" for r in node.relations)]
    texts += [str(side) for c in conflicts.values() for f in c.fields.values() for side in f.sides if side is not None]
    return {line for text in texts for line in text.split("\n") if line.strip()}


def _merged(was: Merged, a: Merged, b: Merged) -> Merged:
    return merge(was.node, a.node, b.node, (was.records, a.records, b.records))


def _by_uri(conflicts: Conflicts) -> dict[Uri, dict[str, Conflict]]:
    found: dict[Uri, dict[str, Conflict]] = {}
    for id, conflict in conflicts.items():
        found.setdefault(conflict.uri, {})[id] = conflict
    return found


def _at(conflicts: Mapping[Uri, Conflicts], uris: Collection[Uri], at: Uri) -> Records:
    """The open conflicts of these URIs by field, as conflicts of the node `at`."""
    return by_field(conflict.at(at) for uri in uris for conflict in conflicts.get(uri, {}).values())


def with_decision(node: Node | None, uri: Uri, field: str, value: Json) -> Node | None:
    """The node at `uri` with one disputed field decided; None if the decision is deletion.

    Does not handle `TWIN`, which concerns two nodes: see `combined`.

    Raises:
        Invalid: The value does not fit the field.
    """
    if field == WHOLE:
        if value is None:
            return None
        if not isinstance(value, dict) or "uri" not in value:
            raise Invalid(
                "this version is unreadable", at="fields", next="Choose the other version, or write the node's fields."
            )
        return from_plain({**value, "uri": uri})
    if field == PLACE:
        return renamed(node or Node(uri), Uri(str(value)) if value else uri)
    if field == TWIN:
        raise Invalid("this conflict is about two nodes", at="fields")
    return with_field(node or Node(uri), field, value)


def renamed(node: Node, to: Uri) -> Node:
    """The node under another URI, with the old URI as an alias, so that links survive."""
    if to == node.uri:
        return node
    there = moved(node, to)
    return replace(there, aliases=(*there.aliases, node.uri))


def combined(kept: Merged, other: Merged) -> Merged:
    """Two nodes combined into the first node, which gets the other node's content, and the other node's URI as an
    alias.

    Both nodes must exist, and both arguments must carry all open conflicts about the nodes' fields. The result carries
    them too.
    """
    assert kept.node is not None
    assert other.node is not None
    at = kept.node.uri
    theirs = {name: record.at(at) for name, record in other.records.items()}
    merged = merge(None, kept.node, moved(other.node, at), (NO_RECORDS, kept.records, theirs))
    assert merged.node is not None
    names = {*merged.node.aliases, other.node.uri} - {at}
    return Merged(replace(merged.node, aliases=tuple(names)), merged.records)
