"""This file is where two versions of one node are merged against what they had in common.

Pure and total: a merge always gives a node (or its absence) and what the two sides disagree about. The rules are the
table of DESIGN section 6; the laws (tests/model/test_merge.py): ``merge(b, x, b) == x``; the result does not depend on
which side is called a; every edit of either side is in the result or in the conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from kgd.errors import KgdError
from kgd.model.conflict import WHOLE, Conflict, FieldConflict, canonical_json
from kgd.model.fields import join, plain, plain_relation, plain_source, plain_weight, relation_from_plain
from kgd.model.node import Json, Node, Relation, Source
from kgd.model.prose import merge_text, takes_away
from kgd.model.uri import Uri

RULES_VERSION = 1
"""Written into `kgd.yaml`; replicas that know another number only fast-forward."""

KNOWN_RULES = frozenset({RULES_VERSION})
"""The versions this program can merge by. A merge follows the lower one of its parents."""

ORDERED_SETS = ("paths", "observations")
"""Lists in `data` that are merged as sets which keep their order."""

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Merged:
    node: Node | None
    conflict: Conflict | None = None


@dataclass(frozen=True, slots=True)
class Acts:
    """What one side did about the conflicts of a node, beside changing the node.

    `settled` gives, per field whose record the side deleted, the round it was in: to settle a field is to write it,
    even where the value that was shown stays. `touched` is whether it added or settled any.
    """

    settled: Mapping[str, int] = field(default_factory=dict)
    touched: bool = False


NO_ACTS = Acts()


@dataclass(slots=True)
class _Clashes:
    """What the sides disagree about, found so far."""

    by_a: Acts
    by_b: Acts
    fields: dict[str, FieldConflict] = field(default_factory=dict)

    def settled_by_both(self, name: str) -> bool:
        return name in self.by_a.settled and name in self.by_b.settled

    def add(self, name: str, base: Json, a: Json, b: Json) -> Json:
        """Record it; the value that is shown meanwhile."""
        clash = self.fields[name] = _clash(name, base, a, b, self.by_a, self.by_b)
        return clash.sides[_shown(clash.sides)]


def merge(base: Node | None, a: Node | None, b: Node | None, *, by_a: Acts = NO_ACTS, by_b: Acts = NO_ACTS) -> Merged:
    """The node with the edits of both sides, and the fields where they differ.

    None is absence. Where one side deleted what the other edited, the edit survives and the deletion is recorded.
    All given versions must have one URI. `by_a` and `by_b` say which conflicts of the node the sides settled.
    """
    if same(a, b):
        return Merged(a)
    if not by_b.touched and same(b, base):
        return Merged(a)
    if not by_a.touched and same(a, base):
        return Merged(b)
    if a is None or b is None:
        kept = a or b
        assert kept is not None
        clash = _clash(WHOLE, plain(base) if base else None, None, plain(kept), by_a, by_b)
        return Merged(kept, conflict_of(kept.uri, {WHOLE: clash}))
    try:
        return _merge_fields(base or Node(a.uri), a, b, _Clashes(by_a, by_b))
    except KgdError:
        # What each side may hold alone can be too much together (256 tags, say): then both whole nodes are the sides.
        return either(base, a, b)


def either(base: Node | None, a: Node, b: Node) -> Merged:
    """One of two nodes that cannot be one, with both in a conflict about the whole."""
    clash = _clash(WHOLE, plain(base) if base else None, plain(a), plain(b), NO_ACTS, NO_ACTS)
    return Merged(max(a, b, key=lambda side: canonical_json(plain(side))), conflict_of(a.uri, {WHOLE: clash}))


def same(a: Node | None, b: Node | None) -> bool:
    """Whether two versions say the same. Stricter than ``==``, for which 1, 1.0 and true in `data` are one."""
    if a is b:
        return True
    if a is None or b is None or a != b:
        return False
    exact = all(_same(x, y) for x, y in zip((r.data for r in a.relations), (r.data for r in b.relations), strict=True))
    return exact and _same(a.data, b.data)


def _merge_fields(common: Node, a: Node, b: Node, clashes: _Clashes) -> Merged:
    node = Node(
        uri=a.uri,
        type=_scalar("type", common.type, a.type, b.type, clashes),
        name=_scalar("name", common.name, a.name, b.name, clashes),
        summary=_scalar("summary", common.summary, a.summary, b.summary, clashes),
        content=_content(common.content, a.content, b.content, clashes),
        tags=merge_sets(common.tags, a.tags, b.tags),
        aliases=merge_sets(common.aliases, a.aliases, b.aliases),
        data=_data(common.data, a.data, b.data, ("data",), clashes),
        source=_source(common, a, b, clashes),
        relations=_relations(common.relations, a.relations, b.relations, clashes),
    )
    return Merged(node, conflict_of(node.uri, clashes.fields) if clashes.fields else None)


def merge_values(
    base: Mapping[str, Json],
    a: Mapping[str, Json],
    b: Mapping[str, Json],
    path: tuple[str, ...] = (),
    *,
    by_a: Acts = NO_ACTS,
    by_b: Acts = NO_ACTS,
) -> tuple[dict[str, Json], dict[str, FieldConflict]]:
    """Merge plain values by key, at every level; what clashes is named by its path below `path`."""
    clashes = _Clashes(by_a, by_b)
    return _data(base, a, b, path, clashes), clashes.fields


def merge_sets(base: Iterable[T], a: Iterable[T], b: Iterable[T]) -> tuple[T, ...]:
    """Three-way set merge: what either side added is in, what either side removed is out. Order is not kept."""
    common, ours, theirs = set(base), set(a), set(b)
    return tuple((ours & theirs) | (ours - common) | (theirs - common))


def merge_ordered(base: Sequence[Json], a: Sequence[Json], b: Sequence[Json]) -> list[Json]:
    """The same for lists that keep their order: what was in common first, then what the sides added."""
    one, two, common = ({canonical_json(v): v for v in side} for side in (a, b, base))
    kept = set(merge_sets(common, one, two))
    first, second = sorted((one, two), key=lambda side: canonical_json(list(side)))
    order = {**common, **first, **second}
    return [value for key, value in order.items() if key in kept]


def conflict_of(uri: Uri, clashes: Mapping[str, FieldConflict]) -> Conflict:
    """The conflict about these fields, with what is shown meanwhile."""
    return Conflict(uri, clashes, {name: _shown(clash.sides) for name, clash in clashes.items()})


def clash_of(base: Json, a: Json, b: Json, round: int = 0) -> FieldConflict:
    return FieldConflict(base, tuple(sorted((a, b), key=canonical_json)), round)


def _clash(name: str, base: Json, a: Json, b: Json, by_a: Acts, by_b: Acts) -> FieldConflict:
    rounds = [acts.settled[name] + 1 for acts in (by_a, by_b) if name in acts.settled]
    return clash_of(base, a, b, max(rounds, default=0))


def _shown(sides: Sequence[Json]) -> int:
    """Which side is served while the conflict is open: the last that is there, in an order both replicas compute."""
    return max(n for n, side in enumerate(sides) if side is not None)


def _same(a: Json, b: Json) -> bool:
    """Whether two plain values are one: 1 and true are two."""
    if a is b:
        return True
    if isinstance(a, str) or isinstance(b, str) or a is None or b is None:
        return type(a) is type(b) and bool(a == b)
    return bool(a == b) and (not a or canonical_json(a) == canonical_json(b))


def _choose(name: str, base: Json, a: Json, b: Json, clashes: _Clashes) -> Json:
    """One value changed on both sides: the same way, or recorded."""
    if _same(a, b):
        return a
    if _same(b, base) and name not in clashes.by_b.settled:
        return a
    if _same(a, base) and name not in clashes.by_a.settled:
        return b
    return clashes.add(name, base, a, b)


def _scalar(name: str, base: str, a: str, b: str, clashes: _Clashes) -> str:
    if a == b:
        return a
    value = _choose(name, base or None, a or None, b or None, clashes)
    return str(value) if value is not None else ""


def _content(base: str, a: str, b: str, clashes: _Clashes) -> str:
    if a == b:
        return a
    # Who settled on the text that was shown wrote each of its lines: an edit that takes one away is another opinion.
    kept = [text for text, acts in ((a, clashes.by_a), (b, clashes.by_b)) if "content" in acts.settled and text == base]
    if clashes.settled_by_both("content") or any(takes_away(text, b if text == a else a) for text in kept):
        return _scalar("content", base, a, b, clashes)
    merged = merge_text(base, a, b)
    return merged if merged is not None else _scalar("content", base, a, b, clashes)


def _source(base: Node, a: Node, b: Node, clashes: _Clashes) -> Source | None:
    if a.source == b.source:
        return a.source
    value = _choose("source", plain_source(base.source), plain_source(a.source), plain_source(b.source), clashes)
    return Source(value["type"], value["id"]) if value else None


def _data(
    base: Mapping[str, Json], a: Mapping[str, Json], b: Mapping[str, Json], path: tuple[str, ...], clashes: _Clashes
) -> dict[str, Json]:
    def one(key: str, old: Json, ours: Json, theirs: Json) -> Json:
        name = join(*path, key)
        if clashes.settled_by_both(name):
            return _choose(name, old, ours, theirs, clashes)
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            return _data(old if isinstance(old, Mapping) else {}, ours, theirs, (*path, key), clashes)
        if path == ("data",) and key in ORDERED_SETS and isinstance(ours, list) and isinstance(theirs, list):
            return _choose_list(old if isinstance(old, list) else [], ours, theirs)
        return _choose(name, old, ours, theirs, clashes)

    return _by_key(base, a, b, one)


def _choose_list(base: list[Json], a: list[Json], b: list[Json]) -> list[Json]:
    if _same(a, b) or _same(b, base):
        return a
    return b if _same(a, base) else merge_ordered(base, a, b)


def _by_key(
    base: Mapping[str, Json],
    a: Mapping[str, Json],
    b: Mapping[str, Json],
    one: Callable[[str, Json, Json, Json], Json],
) -> dict[str, Json]:
    """Key by key; None is absence, so a key that one side removed and the other edited is a choice like any other."""
    merged = {key: one(key, base.get(key), a.get(key), b.get(key)) for key in sorted({*base, *a, *b})}
    return {key: value for key, value in merged.items() if value is not None}


def _relations(
    base: Iterable[Relation], a: Iterable[Relation], b: Iterable[Relation], clashes: _Clashes
) -> tuple[Relation, ...]:
    olds, ours, theirs = ({r.key: r for r in side} for side in (base, a, b))
    merged = (_relation(olds.get(k), ours.get(k), theirs.get(k), clashes) for k in sorted({*olds, *ours, *theirs}))
    return tuple(relation for relation in merged if relation)


def _relation(base: Relation | None, a: Relation | None, b: Relation | None, clashes: _Clashes) -> Relation | None:
    present = a or b or base
    assert present is not None
    name = join("relations", present.type, present.target)
    if a is None or b is None or clashes.settled_by_both(name):
        value = _choose(name, _edge_values(base), _edge_values(a), _edge_values(b), clashes)
        if value is None:
            return None
        return relation_from_plain({"type": present.type, "target": present.target, **value})
    path = ("relations", a.type, a.target)
    common = base or Relation(a.type, a.target)
    weights = (plain_weight(base.weight) if base else None, plain_weight(a.weight), plain_weight(b.weight))
    weight = _choose(join(*path, "weight"), *weights, clashes)
    return Relation(a.type, a.target, weight, _data(common.data, a.data, b.data, (*path, "data"), clashes))


def _edge_values(relation: Relation | None) -> dict[str, Json] | None:
    if relation is None:
        return None
    values = plain_relation(relation)
    return {key: values[key] for key in ("weight", "data") if key in values}
