"""The merge of one disputed field's values: each version holds a set of them.

A field holds one value, or several while it has an open conflict; one of them is shown. Two versions are merged as
sets against their base: values that one side rejected are gone, values that either side wrote are in. So the order and
number of merges do not matter, and one settlement is valid for all.

Editing the field while it is open replaces the shown value. If both sides settle one conflict differently, it is open
again in the next `round`; that number separates decisions about the two disputes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kgd.model.conflict import Conflict, FieldConflict, canonical_json
from kgd.model.node import Json
from kgd.model.uri import Uri

Records = Mapping[str, Conflict]
"""Open conflicts of one version of a node, by field; each concerns this field alone."""
NO_RECORDS: Records = {}
Tag = tuple[str, int]
"""A value as its JSON text, and the round of its dispute."""


@dataclass(frozen=True, slots=True)
class Held:
    """The values of a field in one version, by JSON text. `is_open` is True if a conflict is recorded."""

    values: Mapping[str, Json]
    shown: str
    round: int = 0
    base: Json = None
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Decided:
    """The field's value after the merge, and the conflict about it, if there are several values."""

    value: Json
    conflict: FieldConflict | None = None


def held(field: str, value: Json, records: Records) -> Held:
    """The values of a field in a version whose node has this value."""
    key, record = canonical_json(value), records.get(field)
    if record is None:
        return Held({key: value}, key)
    disputed = record.fields[field]
    values = {canonical_json(side): side for side in disputed.sides}
    shown = canonical_json(disputed.sides[record.shown[field]])
    if key != shown:
        values.pop(shown)
        values[key] = value
    return Held(values, key, disputed.round, disputed.base, True)


def _apart(old: Json, a: Json, b: Json) -> Json:
    return None


def merge_held(old: Held, a: Held, b: Held, together: Callable[[Json, Json, Json], Json] = _apart) -> Decided:
    """Merge both sides. `together` combines two values that replaced the same one, or returns None."""
    values = {**old.values, **a.values, **b.values}
    was, ours, theirs = _tags(old, old), _tags(a, old), _tags(b, old)
    both_settled = old.is_open and not a.is_open and not b.is_open and a.shown != b.shown
    left = (ours & theirs) | (ours - was) | (theirs - was)
    round = max((tag[1] for tag in left), default=0)
    if both_settled or not left:
        left, round = ours | theirs, max(old.round, a.round, b.round) + 1
    elif a.shown != b.shown:
        two = {tag for tag in left - was if tag[0] in (a.shown, b.shown)}
        made = together(values[old.shown], values[a.shown], values[b.shown]) if len(two) == 2 else None
        if made is not None:
            key = canonical_json(made)
            values[key], left = made, (left - two) | {(key, round)}
    keys = sorted({tag[0] for tag in left})
    if len(keys) == 1:
        return Decided(values[keys[0]])
    sides = tuple(values[key] for key in keys)
    return Decided(sides[shown_of(sides)], FieldConflict(_base(old, a, b), sides, round))


def disagreement(base: Json, values: Iterable[Json], round: int = 0) -> FieldConflict:
    """A conflict between these values, in the order of their JSON text."""
    return FieldConflict(base, tuple(sorted(values, key=canonical_json)), round)


def conflict_of(uri: Uri, fields: Mapping[str, FieldConflict]) -> Conflict:
    """The conflict about these fields, with the values shown meanwhile."""
    return Conflict(uri, fields, {name: shown_of(disputed.sides) for name, disputed in fields.items()})


def shown_of(sides: tuple[Json, ...]) -> int:
    """The index of the side served while a conflict is open: the last that exists, in an order all replicas compute."""
    return max(n for n, side in enumerate(sides) if side is not None)


def by_field(conflicts: Iterable[Conflict]) -> dict[str, Conflict]:
    """One record per field, however many files hold it."""
    found: dict[str, Conflict] = {}
    for conflict in sorted(conflicts, key=lambda each: each.id):
        for one in conflict.by_field():
            ((name, disputed),) = one.fields.items()
            before = found.get(name)
            if before is not None:
                other = before.fields[name]
                values = {canonical_json(side): side for side in (*other.sides, *disputed.sides)}
                base = max(other.base, disputed.base, key=canonical_json)
                one = conflict_of(
                    one.uri, {name: disagreement(base, values.values(), max(other.round, disputed.round))}
                )
            found[name] = one
    return found


def _tags(side: Held, old: Held) -> set[Tag]:
    if side.is_open:
        return {(key, side.round) for key in side.values}
    return {(key, old.round if old.is_open and key in old.values else 0) for key in side.values}


def _base(old: Held, a: Held, b: Held) -> Json:
    """The value before the dispute. Of several answers a new one; of two, the last in order."""
    known = old.base if old.is_open else old.values[old.shown]
    bases = [side.base for side in (a, b) if side.is_open] or [known]
    new = [base for base in bases if canonical_json(base) != canonical_json(known)] or bases
    return max(new, key=canonical_json)
