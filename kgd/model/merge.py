"""The three-way merge of one node.

Pure and total: the result is always a node (or its absence) and the fields on which the sides disagree. DESIGN section
6 has the table of rules. The laws (tests/model/test_merge.py): ``merge(b, x, b) == x``; swapping the sides does not
change the result; every edit of either side is in the result or in the conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from kgd.errors import KgdError
from kgd.model.conflict import (
    NO_RECORDS,
    PLACE,
    WHOLE,
    Conflict,
    FieldConflict,
    Records,
    Together,
    by_field,
    canonical_json,
    conflict_of,
    disagreement,
    held,
    merge_held,
    shown_of,
)
from kgd.model.fields import (
    field_of,
    is_other,
    join,
    plain,
    plain_relation,
    plain_source,
    plain_weight,
    relation_from_plain,
    source_from_plain,
    split,
    value_at,
    with_field,
    with_value,
)
from kgd.model.node import FIELDS, NODE_FIELDS, Json, Node, Relation, Shape, Source
from kgd.model.text_merge import merge_text
from kgd.model.uri import Uri

RULES_VERSION = 1
"""The version of these rules, stored in `kgd.yaml`; a replica with another version only fast-forwards."""

ORDERED_SETS = ("paths", "observations", "cites")
"""Lists in `data` that are merged as sets and keep their order."""

EITHER = ("lastTaskId", "position")
"""Keys in the `data` of a node or relation for the last task or a position in a list. If both sides change such a
value, no person needs to decide: the greater value is kept, and the other stays in the history."""

TEXTS = frozenset(row.name for row in NODE_FIELDS if row.shape is Shape.TEXT)

T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Merged:
    """A node, or its absence, and its open conflicts by field."""

    node: Node | None
    records: Records = field(default_factory=dict)

    @property
    def conflict(self) -> Conflict | None:
        """All open conflicts as one."""
        if not self.records:
            return None
        ones = list(self.records.values())
        disputed = {name: one for each in ones for name, one in each.fields.items()}
        return Conflict(ones[0].uri, disputed, {name: n for one in ones for name, n in one.shown.items()})


@dataclass(slots=True)
class _Clashes:
    """The disagreements found so far. Fields in `is_open` are merged by `decide`, as sets of values."""

    is_open: Collection[str] = ()
    fields: dict[str, FieldConflict] = field(default_factory=dict)

    def add(self, name: str, base: Json, a: Json, b: Json) -> Json:
        """Record a clash; returns the value to show until it is settled."""
        clash = disagreement(base, (a, b))
        if name not in self.is_open:
            self.fields[name] = clash
        return clash.sides[shown_of(clash.sides)]

    def decide(self, name: str, values: Iterable[Json], records: Three, together: Together | None = None) -> Json:
        """Merge a field that has an open conflict in a version, given its values in base, a and b; returns the new
        value."""
        was, ours, theirs = (held(name, value, each) for value, each in zip(values, records, strict=True))
        decided = merge_held(was, ours, theirs, together)
        if decided.conflict:
            self.fields[name] = decided.conflict
        return decided.value


Three = tuple[Records, Records, Records]
"""The open conflicts of base, a and b."""
NOTHING_OPEN: Three = (NO_RECORDS, NO_RECORDS, NO_RECORDS)


def merge(base: Node | None, a: Node | None, b: Node | None, records: Three = NOTHING_OPEN) -> Merged:
    """The node with the edits of both sides, and the fields where they differ.

    None means absent. If one side deleted a node that the other side changed, the node stays and the deletion is
    recorded. All versions must have one URI. `merge_graph` and its callers handle several nodes and other files.
    """
    like_a, like_b = records[1] == records[0], records[2] == records[0]
    if same(a, b) and records[1] == records[2]:
        return Merged(a, _of_node(records[1]))
    if same(b, base) and like_b:
        return Merged(a, _of_node(records[1]))
    if same(a, base) and like_a:
        return Merged(b, _of_node(records[2]))
    present = a or b
    if present is None:
        return Merged(None, by_field([*_of_node(records[1]).values(), *_of_node(records[2]).values()]))
    try:
        merged = _merge_fields(base, a, b, records) if a and b else Merged(present, _of_node(records[1 if a else 2]))
    except KgdError:
        # The combined node may exceed a limit, such as 256 tags. Then the two whole nodes become the sides of a
        # conflict.
        assert a is not None
        assert b is not None
        return either(base, a, b)
    return _merge_existence((base, a, b), records, merged)


def either(base: Node | None, a: Node, b: Node) -> Merged:
    """One of two nodes that cannot be combined, with a conflict about the whole node; the conflict holds both nodes."""
    clash = disagreement(plain(base) if base else None, (plain(a), plain(b)))
    return Merged(
        max(a, b, key=lambda side: canonical_json(plain(side))), by_field([conflict_of(a.uri, {WHOLE: clash})])
    )


def _merge_existence(versions: tuple[Node | None, ...], records: Three, merged: Merged) -> Merged:
    """Decide whether the node exists: a node deleted on one side stays if the other side changed it."""
    _, a, b = versions
    if a and b and not any(WHOLE in each for each in records):
        return merged
    assert merged.node is not None
    was, ours, theirs = (held(WHOLE, _whole(node, each), each) for node, each in zip(versions, records, strict=True))
    decided = merge_held(was, ours, theirs)
    sides = list(decided.conflict.sides) if decided.conflict else [decided.value]
    if sides == [None]:
        return Merged(None)
    now = {canonical_json(values): None for values in (_whole(a, records[1]), _whole(b, records[2]))}
    others = [side for side in sides if side is None or canonical_json(side) not in now]
    kept = {name: record for name, record in merged.records.items() if name != WHOLE}
    if others:
        values = [plain(merged.node), *(_without_mark(side) for side in others)]
        unique = {canonical_json(value): value for value in values}
        if len(unique) > 1:
            base = decided.conflict.base if decided.conflict else None
            clash = disagreement(
                _without_mark(base), unique.values(), decided.conflict.round if decided.conflict else 0
            )
            shown = clash.sides.index(plain(merged.node))
            kept[WHOLE] = Conflict(merged.node.uri, {WHOLE: clash}, {WHOLE: shown})
    return Merged(merged.node, kept)


_MARK = "open"


def _whole(node: Node | None, records: Records) -> Json:
    """The node and its open conflicts: adding or settling a conflict counts as a change of the node."""
    if node is None:
        return None
    about = sorted(record.digest for name, record in records.items() if name != WHOLE)
    return plain(node) | ({_MARK: about} if about else {})


def _without_mark(value: Json) -> Json:
    return {key: inner for key, inner in value.items() if key != _MARK} if isinstance(value, dict) else value


def _of_node(records: Records) -> dict[str, Conflict]:
    return {name: record for name, record in records.items() if is_of_node(name)}


def is_of_node(name: str) -> bool:
    """Whether a disputed field is stored in a node's file, or is the node itself."""
    return name == WHOLE or (name != PLACE and name.partition("/")[0] in FIELDS) or is_other(name)


def same(a: Node | None, b: Node | None) -> bool:
    """Whether two versions are equal. Stricter than ``==``, for which 1, 1.0 and true in `data` are equal."""
    if a is b:
        return True
    if a is None or b is None or a != b:
        return False
    exact = all(
        _same(one.data, two.data) and _same(one.others, two.others)
        for one, two in zip(a.relations, b.relations, strict=True)
    )
    exact = exact and (a.source is None or _same(plain_source(a.source), plain_source(b.source)))
    return exact and _same(a.data, b.data) and _same(a.others, b.others)


def _merge_fields(base: Node | None, a: Node, b: Node, records: Three) -> Merged:
    common = base or Node(a.uri)
    names = {name for each in records for name in _of_node(each)} - {WHOLE}
    clashes = _Clashes(names)
    values = [(each.name, *(getattr(side, each.name) for side in (common, a, b))) for each in fields(Node)]
    node = Node(**{name: FIELD_RULES[name](name, *three, clashes) for name, *three in values})
    for name in sorted(names):
        fields_now = [field_of(version, name) for version in (common, a, b)]
        value = clashes.decide(name, fields_now, records, _texts_together if name in TEXTS else None)
        if canonical_json(field_of(node, name)) != canonical_json(value):
            node = with_field(node, name, value)
    return Merged(node, by_field([conflict_of(node.uri, clashes.fields)] if clashes.fields else []))


def _texts_together(old: Json, a: Json, b: Json) -> Json:
    return merge_text(str(old or ""), str(a or ""), str(b or "")) or None


def merge_values(
    base: Mapping[str, Json],
    a: Mapping[str, Json],
    b: Mapping[str, Json],
    path: tuple[str, ...] = (),
    records: Three = NOTHING_OPEN,
) -> tuple[dict[str, Json], dict[str, FieldConflict]]:
    """Merge plain values by key, at every level; the name of a clash is its path below `path`."""
    names = {name for each in records for name in each if split(name)[: len(path)] == list(path)}
    clashes = _Clashes(names)
    values = _data(base, a, b, path, clashes)
    for name in sorted(names):
        keys = split(name)[len(path) :]
        value = clashes.decide(name, [value_at(side, keys) for side in (base, a, b)], records)
        values = with_value(values, keys, value)
    return values, clashes.fields


def merge_sets(base: Iterable[T], a: Iterable[T], b: Iterable[T]) -> tuple[T, ...]:
    """Three-way merge of sets: additions and removals of either side both apply. Order is not kept."""
    common, ours, theirs = set(base), set(a), set(b)
    return tuple((ours & theirs) | (ours - common) | (theirs - common))


def merge_ordered(base: Sequence[Json], a: Sequence[Json], b: Sequence[Json]) -> list[Json]:
    """Like `merge_sets`, for ordered lists: common values first, then the sides' additions."""
    one, two, common = ({canonical_json(v): v for v in side} for side in (a, b, base))
    kept = set(merge_sets(common, one, two))
    first, second = sorted((one, two), key=lambda side: canonical_json(list(side)))
    order = {**common, **first, **second}
    return [value for key, value in order.items() if key in kept]


def _same(a: Json, b: Json) -> bool:
    """Whether two plain values are equal; unlike in Python, 1 and true differ."""
    if a is b:
        return True
    if isinstance(a, str) or isinstance(b, str) or a is None or b is None:
        return type(a) is type(b) and bool(a == b)
    return bool(a == b) and (a == {} or canonical_json(a) == canonical_json(b))


def _choose(name: str, base: Json, a: Json, b: Json, clashes: _Clashes) -> Json:
    """The merge of one value: a change on only one side applies; two different changes are recorded as a clash."""
    if _same(a, b) or _same(b, base):
        return a
    if _same(a, base):
        return b
    return clashes.add(name, base, a, b)


def _uri(name: str, base: Uri, a: Uri, b: Uri, clashes: _Clashes) -> Uri:
    return a


def _set(name: str, base: Iterable[T], a: Iterable[T], b: Iterable[T], clashes: _Clashes) -> tuple[T, ...]:
    return merge_sets(base, a, b)


def _scalar(name: str, base: str, a: str, b: str, clashes: _Clashes) -> str:
    if a == b:
        return a
    value = _choose(name, base or None, a or None, b or None, clashes)
    return str(value) if value is not None else ""


def _text(name: str, base: str, a: str, b: str, clashes: _Clashes) -> str:
    merged = merge_text(base, a, b)
    return merged if merged is not None else _scalar(name, base, a, b, clashes)


def _weight(name: str, base: float | None, a: float, b: float, clashes: _Clashes) -> float:
    old = None if base is None else plain_weight(base)
    return float(_choose(name, old, plain_weight(a), plain_weight(b), clashes))


def _source(name: str, base: Source | None, a: Source | None, b: Source | None, clashes: _Clashes) -> Source | None:
    return source_from_plain(_choose(name, plain_source(base), plain_source(a), plain_source(b), clashes))


def _mapping(
    name: str, base: Mapping[str, Json] | None, a: Mapping[str, Json], b: Mapping[str, Json], clashes: _Clashes
) -> dict[str, Json]:
    return _data(base or {}, a, b, tuple(split(name)), clashes)


def _data(
    base: Mapping[str, Json], a: Mapping[str, Json], b: Mapping[str, Json], path: tuple[str, ...], clashes: _Clashes
) -> dict[str, Json]:
    def one(key: str, old: Json, ours: Json, theirs: Json) -> Json:
        name = join(*path, key)
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            return _data(old if isinstance(old, Mapping) else {}, ours, theirs, (*path, key), clashes)
        if path == ("data",) and key in ORDERED_SETS and isinstance(ours, list) and isinstance(theirs, list):
            return _choose_list(old if isinstance(old, list) else [], ours, theirs)
        if path[-1:] == ("data",) and key in EITHER and type(ours) is type(theirs) and isinstance(ours, str | int):
            return ours if _same(theirs, old) else theirs if _same(ours, old) else max(ours, theirs)
        return _choose(name, old, ours, theirs, clashes)

    return _by_key(base, a, b, one)


def _others(
    name: str, base: Mapping[str, Json] | None, a: Mapping[str, Json], b: Mapping[str, Json], clashes: _Clashes
) -> dict[str, Json]:
    """Merge unknown keys, each as one value under its own name."""
    above = name.rpartition("/")[0]

    def one(key: str, old: Json, ours: Json, theirs: Json) -> Json:
        return _choose(f"{above}/{join(key)}" if above else join(key), old, ours, theirs, clashes)

    return _by_key(base or {}, a, b, one)


def merge_record_others(base: Mapping[str, Json], a: Mapping[str, Json], b: Mapping[str, Json]) -> dict[str, Json]:
    """Merge the unknown keys of a conflict record. These keys cannot be in conflict: if both sides changed a value, the
    last value in order is kept, and a value takes precedence over an absence."""

    def one(key: str, old: Json, ours: Json, theirs: Json) -> Json:
        if _same(ours, theirs) or _same(theirs, old):
            return ours
        return theirs if _same(ours, old) else max(ours, theirs, key=lambda v: (v is not None, canonical_json(v)))

    return _by_key(base, a, b, one)


def _choose_list(base: list[Json], a: list[Json], b: list[Json]) -> list[Json]:
    if _same(a, b) or _same(b, base):
        return a
    return b if _same(a, base) else merge_ordered(base, a, b)


def _by_key(
    base: Mapping[str, Json], a: Mapping[str, Json], b: Mapping[str, Json], one: Callable[[str, Json, Json, Json], Json]
) -> dict[str, Json]:
    """Merge mappings key by key. None means absent, so a key that one side removed and the other edited is an ordinary
    clash."""
    merged = {key: one(key, base.get(key), a.get(key), b.get(key)) for key in sorted({*base, *a, *b})}
    return {key: value for key, value in merged.items() if value is not None}


def _relations(
    name: str, base: Iterable[Relation], a: Iterable[Relation], b: Iterable[Relation], clashes: _Clashes
) -> tuple[Relation, ...]:
    olds, ours, theirs = ({r.key: r for r in side} for side in (base, a, b))
    keys = sorted({*olds, *ours, *theirs})
    merged = (_relation(join(name, *key), key, olds.get(key), ours.get(key), theirs.get(key), clashes) for key in keys)
    return tuple(relation for relation in merged if relation)


def _relation(
    name: str, key: tuple[str, str], base: Relation | None, a: Relation | None, b: Relation | None, clashes: _Clashes
) -> Relation | None:
    if a is None or b is None:
        value = _choose(name, _edge_values(base), _edge_values(a), _edge_values(b), clashes)
        return None if value is None else relation_from_plain({"type": key[0], "target": key[1], **value})
    values: dict[str, Any] = {}
    for each in fields(Relation):
        if each.name not in RELATION_KEY:
            versions = (getattr(side, each.name, None) for side in (base, a, b))
            values[each.name] = RELATION_RULES[each.name](f"{name}/{each.name}", *versions, clashes)
    return Relation(a.type, a.target, **values)


def _edge_values(relation: Relation | None) -> dict[str, Json] | None:
    if relation is None:
        return None
    return {key: value for key, value in plain_relation(relation).items() if key not in RELATION_KEY}


Rule = Callable[..., Any]
"""Takes the field's name, its three values and the clashes so far; returns the merged value."""
RULES: Mapping[Shape, Rule] = {
    Shape.URI: _uri,
    Shape.LABEL: _scalar,
    Shape.LINE: _scalar,
    Shape.TEXT: _text,
    Shape.NAMES: _set,
    Shape.URIS: _set,
    Shape.DATA: _mapping,
    Shape.SOURCE: _source,
    Shape.RELATIONS: _relations,
}
FIELD_RULES: Mapping[str, Rule] = {row.name: RULES[row.shape] for row in NODE_FIELDS} | {"others": _others}
"""The merge rule of each node field. A field whose rule differs from its shape's is added to this table."""
RELATION_KEY = ("type", "target")
RELATION_RULES: Mapping[str, Rule] = {"weight": _weight, "data": _mapping, "others": _others}
"""The merge rules of a relation's fields other than its key."""
