"""This file is where two versions of one node are merged against what they had in common.

Pure and total: a merge always gives a node (or its absence) and what the two sides disagree about. The rules are the
table of DESIGN section 6; the laws (tests/model/test_merge.py): ``merge(b, x, b) == x``; the result does not depend on
which side is called a; every edit of either side is in the result or in the conflict.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kgd.errors import KgdError
from kgd.model.conflict import WHOLE, Conflict, FieldConflict, canonical_json
from kgd.model.fields import join, plain, plain_relation, plain_source, plain_weight
from kgd.model.node import Json, Node, Relation, Source
from kgd.model.prose import merge_text
from kgd.model.uri import Uri

RULES_VERSION = 1
"""Written into `kgd.yaml`; replicas that know another number only fast-forward."""

KNOWN_RULES = frozenset({RULES_VERSION})
"""The versions this program can merge by. A merge follows the lower one of its parents."""

ORDERED_SETS = ("paths", "observations")
"""Lists in `data` that are merged as sets which keep their order."""

T = TypeVar("T", bound=Hashable)
Clashes = dict[str, FieldConflict]


@dataclass(frozen=True, slots=True)
class Merged:
    node: Node | None
    conflict: Conflict | None = None


def merge(base: Node | None, a: Node | None, b: Node | None) -> Merged:
    """The node with the edits of both sides, and the fields where they differ.

    None is absence. Where one side deleted what the other edited, the edit survives and the deletion is recorded.
    All given versions must have one URI.
    """
    if a == b or b == base:
        return Merged(a)
    if a == base:
        return Merged(b)
    if a is None or b is None:
        kept = a or b
        assert kept is not None
        clash = _clash(plain(base) if base else None, None, plain(kept))
        return Merged(kept, _conflict(kept.uri, {WHOLE: clash}))
    try:
        return _merge_fields(base or Node(a.uri), a, b)
    except KgdError:
        # What each side may hold alone can be too much together (256 tags, say): then both whole nodes are the sides.
        clash = _clash(plain(base) if base else None, plain(a), plain(b))
        return Merged(max(a, b, key=lambda side: canonical_json(plain(side))), _conflict(a.uri, {WHOLE: clash}))


def _merge_fields(common: Node, a: Node, b: Node) -> Merged:
    clashes: Clashes = {}
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
    return Merged(node, _conflict(node.uri, clashes) if clashes else None)


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


def _conflict(uri: Uri, clashes: Clashes) -> Conflict:
    return Conflict(uri, clashes, {name: _shown(clash.sides) for name, clash in clashes.items()})


def _clash(base: Json, a: Json, b: Json) -> FieldConflict:
    return FieldConflict(base, tuple(sorted((a, b), key=canonical_json)))


def _shown(sides: Sequence[Json]) -> int:
    """Which side is served while the conflict is open: the last that is there, in an order both replicas compute."""
    return max(n for n, side in enumerate(sides) if side is not None)


def _choose(field: str, base: Json, a: Json, b: Json, clashes: Clashes) -> Json:
    """One value changed on both sides: the same way, or recorded."""
    if canonical_json(a) == canonical_json(b) or canonical_json(b) == canonical_json(base):
        return a
    if canonical_json(a) == canonical_json(base):
        return b
    clash = _clash(base, a, b)
    clashes[field] = clash
    return clash.sides[_shown(clash.sides)]


def _scalar(field: str, base: str, a: str, b: str, clashes: Clashes) -> str:
    value = _choose(field, base or None, a or None, b or None, clashes)
    return str(value) if value is not None else ""


def _content(base: str, a: str, b: str, clashes: Clashes) -> str:
    merged = merge_text(base, a, b)
    return merged if merged is not None else _scalar("content", base, a, b, clashes)


def _source(base: Node, a: Node, b: Node, clashes: Clashes) -> Source | None:
    value = _choose("source", plain_source(base.source), plain_source(a.source), plain_source(b.source), clashes)
    return Source(value["type"], value["id"]) if value else None


def _data(
    base: Mapping[str, Json], a: Mapping[str, Json], b: Mapping[str, Json], path: tuple[str, ...], clashes: Clashes
) -> dict[str, Json]:
    def one(key: str, old: Json, ours: Json, theirs: Json) -> Json:
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            return _data(old if isinstance(old, Mapping) else {}, ours, theirs, (*path, key), clashes)
        if path == ("data",) and key in ORDERED_SETS and isinstance(ours, list) and isinstance(theirs, list):
            return _choose_list(old if isinstance(old, list) else [], ours, theirs)
        return _choose(join(*path, key), old, ours, theirs, clashes)

    return _by_key(base, a, b, one)


def _choose_list(base: list[Json], a: list[Json], b: list[Json]) -> list[Json]:
    if a == b or b == base:
        return a
    return b if a == base else merge_ordered(base, a, b)


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
    base: Iterable[Relation], a: Iterable[Relation], b: Iterable[Relation], clashes: Clashes
) -> tuple[Relation, ...]:
    olds, ours, theirs = ({r.key: r for r in side} for side in (base, a, b))
    merged = (_relation(olds.get(k), ours.get(k), theirs.get(k), clashes) for k in sorted({*olds, *ours, *theirs}))
    return tuple(relation for relation in merged if relation)


def _relation(base: Relation | None, a: Relation | None, b: Relation | None, clashes: Clashes) -> Relation | None:
    if a == b or b == base:
        return a
    if a == base:
        return b
    if a is None or b is None:
        kept = a or b
        assert kept is not None
        clashes[join("relations", kept.type, kept.target)] = _clash(
            _edge_values(base) if base else None, None, _edge_values(kept)
        )
        return kept
    path = ("relations", a.type, a.target)
    common = base or Relation(a.type, a.target)
    weights = (plain_weight(base.weight) if base else None, plain_weight(a.weight), plain_weight(b.weight))
    weight = _choose(join(*path, "weight"), *weights, clashes)
    return Relation(a.type, a.target, weight, _data(common.data, a.data, b.data, (*path, "data"), clashes))


def _edge_values(relation: Relation) -> dict[str, Json]:
    values = plain_relation(relation)
    return {key: values[key] for key in ("weight", "data") if key in values}
