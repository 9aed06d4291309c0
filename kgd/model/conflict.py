"""This file is where a stored disagreement is defined: data, never an exception.

Nothing here mentions commits or times, so replicas that meet in another order write the same record (DESIGN section 6).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from kgd.errors import KgdError
from kgd.model.node import Json
from kgd.model.uri import Uri, parse

WHOLE = "node"
"""Field name of a disagreement about the existence of the whole node: one side of it is None."""
PLACE = "uri"
"""Field name of a disagreement about what a node is called: it was moved to two places. The sides are URIs."""
TWIN = "twin"
"""Field name of two nodes whose names some file systems take for one. The sides are their URIs; both are kept."""


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """One field that two sides changed differently. `sides` are sorted by their JSON text; None is absence.

    `round` counts how often it was settled in two ways before: without it, a record that was deleted when it was
    settled could not be told from the one about what it was settled to.
    """

    base: Json
    sides: tuple[Json, ...]
    round: int = 0


@dataclass(frozen=True, slots=True)
class Conflict:
    """Base and sides of one node's fields. `shown` names, per field, the index in `sides` that is served meanwhile."""

    uri: Uri
    fields: Mapping[str, FieldConflict]
    shown: Mapping[str, int]

    @property
    def digest(self) -> str:
        """16 hex digits over URI, fields, base and sorted sides: the record's name, alike on every replica."""
        body = [self.uri, {name: _body(field) for name, field in sorted(self.fields.items())}]
        return hashlib.sha256(canonical_json(body).encode()).hexdigest()[:16]

    @property
    def id(self) -> str:
        """What a person or an agent names it by: ``<uri>#<digest>``, which also says where its record is."""
        return f"{self.uri}#{self.digest}"

    def by_field(self) -> tuple[Conflict, ...]:
        """One conflict for each field, as they are stored: each can be settled, and met again, on its own."""
        if len(self.fields) == 1:
            return (self,)
        return tuple(Conflict(self.uri, {n: f}, {n: self.shown[n]}) for n, f in sorted(self.fields.items()))

    def spoken_of(self) -> set[Uri]:
        """The URIs that a merge or a decision could give a node, or take from one, because this record says so."""
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
        """The same disagreement of a node that is called `uri` now."""
        return self if uri == self.uri else replace(self, uri=uri)


_ENCODE = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode


def _body(field: FieldConflict) -> list[Json]:
    return [field.base, *field.sides, *([{"round": field.round}] if field.round else [])]


def canonical_json(value: Json) -> str:
    """One text for equal values, used for order and digests only."""
    return _ENCODE(value)
