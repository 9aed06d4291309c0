"""Conflicts: stored disagreements, and the merge of a disputed field's values.

A conflict is data, never an exception. It contains no commit or time, so replicas that merge in different orders write
the same record (docs/merge.md, section 6).

A field has one value, or several while it has an open conflict; one of these is shown. Two versions are merged as sets
of values against their base: values that either side rejected are removed, and values that either side wrote are added.
So the order and number of merges do not matter, and a settlement is valid for all replicas. Editing a field with an
open conflict replaces the shown value. If both sides settle a conflict differently, it is opened again in the next
`round`; the number of the round distinguishes decisions about the two disputes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from kgd.errors import KgdError
from kgd.model.node import Json
from kgd.model.uri import Uri, parse

WHOLE = "node"
"""Field name of a disagreement about the existence of the whole node: one side is None (deleted)."""
PLACE = "uri"
"""Field name of a disagreement about a node's URI: the node was moved to two places. The sides are the two URIs."""
TWIN = "twin"
"""Field name of two nodes whose names are equal on some file systems. The sides are their URIs; both are kept."""


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """One field that two sides changed differently. `sides` are sorted by their JSON text; None means absent.

    `round` is the number of times that the sides settled the field differently. It distinguishes a settled record from
    the new record about its two settlements.
    """

    base: Json
    sides: tuple[Json, ...]
    round: int = 0


@dataclass(frozen=True, slots=True)
class Conflict:
    """Base and sides of one node's fields. `shown` gives, per field, the index in `sides` of the value that is served
    until the conflict is settled.

    `others` are keys of the record that are unknown to this version. They are kept, but are not part of the digest.
    """

    uri: Uri
    fields: Mapping[str, FieldConflict]
    shown: Mapping[str, int]
    others: Mapping[str, Json] = field(default_factory=dict, compare=False)

    @property
    def digest(self) -> str:
        """16 hex digits over URI, fields, base and sorted sides: the record's name, equal on every replica."""
        body = [self.uri, {name: _body(field) for name, field in sorted(self.fields.items())}]
        return hashlib.sha256(canonical_json(body).encode()).hexdigest()[:16]

    @property
    def id(self) -> str:
        """Its name for people and agents: ``<uri>#<digest>``, which also gives the place of its record."""
        return f"{self.uri}#{self.digest}"

    def by_field(self) -> tuple[Conflict, ...]:
        """One conflict per field, as conflicts are stored: each of them can be settled, and can recur, separately."""
        if len(self.fields) == 1:
            return (self,)
        return tuple(replace(self, fields={n: f}, shown={n: self.shown[n]}) for n, f in sorted(self.fields.items()))

    def mentioned_uris(self) -> set[Uri]:
        """The URIs that a merge or a decision could give to a node, or take away from a node, because of this
        record."""
        said: list[Json] = []
        for name, disputed in self.fields.items():
            for value in (disputed.base, *disputed.sides):
                if name in (PLACE, TWIN):
                    said.append(value)
                elif name == WHOLE and isinstance(value, dict):
                    aliases = value.get("aliases")
                    said += [value.get("uri"), *(aliases if isinstance(aliases, list) else ())]
        found = set[Uri]()
        for text in said:
            with suppress(KgdError):
                found |= {parse(text)} if isinstance(text, str) else set()
        return found

    def at(self, uri: Uri) -> Conflict:
        """The same conflict for a node whose URI is now `uri`."""
        return self if uri == self.uri else replace(self, uri=uri)


_ENCODE = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode


def _body(field: FieldConflict) -> list[Json]:
    return [field.base, *field.sides, *([{"round": field.round}] if field.round else [])]


def canonical_json(value: Json) -> str:
    """JSON text that is the same for equal values; only for ordering and digests."""
    return _ENCODE(value)


Records = Mapping[str, Conflict]
"""Open conflicts of one version of a node, by field; each concerns only that field."""
NO_RECORDS: Records = {}
Together = Callable[[Json, Json, Json], Json]
"""Combines two values that replaced the same value, or returns None."""
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
    """The values of a field in a version: the node's `value`, and the values in its open conflict."""
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


def merge_held(old: Held, a: Held, b: Held, together: Together | None = None) -> Decided:
    """Merge both sides. `together` combines two values that replaced the same value, or returns None."""
    values = {**old.values, **a.values, **b.values}
    was, ours, theirs = _tags(old, old), _tags(a, old), _tags(b, old)
    both_settled = old.is_open and not a.is_open and not b.is_open and a.shown != b.shown
    left = (ours & theirs) | (ours - was) | (theirs - was)
    round = max((tag[1] for tag in left), default=0)
    if both_settled or not left:
        left, round = ours | theirs, max(old.round, a.round, b.round) + 1
    elif a.shown != b.shown:
        two = {tag for tag in left - was if tag[0] in (a.shown, b.shown)}
        made = together(values[old.shown], values[a.shown], values[b.shown]) if together and len(two) == 2 else None
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
    """The conflict about these fields, with the values shown while it is open."""
    return Conflict(uri, fields, {name: shown_of(disputed.sides) for name, disputed in fields.items()})


def shown_of(sides: tuple[Json, ...]) -> int:
    """The index of the side that is served while a conflict is open: the last side with a value, in an order that
    all replicas share."""
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
    """The value before the dispute. If several values are possible, a new value is used; if two are new, the last in
    order."""
    known = old.base if old.is_open else old.values[old.shown]
    bases = [side.base for side in (a, b) if side.is_open] or [known]
    new = [base for base in bases if canonical_json(base) != canonical_json(known)] or bases
    return max(new, key=canonical_json)
