"""Conflicts: stored disagreements, which are data and never exceptions.

They contain no commits or times, so replicas that meet in another order write the same record (DESIGN section 6).
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
"""Field name of a disagreement about the existence of the whole node: one side is None."""
PLACE = "uri"
"""Field name of a disagreement about a node's name: it was moved to two places. The sides are URIs."""
TWIN = "twin"
"""Field name of two nodes whose names are equal on some file systems. The sides are their URIs; both are kept."""


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """One field that two sides changed differently. `sides` are sorted by their JSON text; None is absence.

    `round` counts earlier settlements in two ways. It separates a deleted record from the record about its
    settlements.
    """

    base: Json
    sides: tuple[Json, ...]
    round: int = 0


@dataclass(frozen=True, slots=True)
class Conflict:
    """Base and sides of one node's fields. `shown` is, per field, the index in `sides` that is served meanwhile."""

    uri: Uri
    fields: Mapping[str, FieldConflict]
    shown: Mapping[str, int]

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
        """One conflict per field, as stored: each can be settled, and recur, on its own."""
        if len(self.fields) == 1:
            return (self,)
        return tuple(Conflict(self.uri, {n: f}, {n: self.shown[n]}) for n, f in sorted(self.fields.items()))

    def spoken_of(self) -> set[Uri]:
        """The URIs that a merge or a decision could give to a node, or take from one, because of this record."""
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
        """The same disagreement for a node that is now called `uri`."""
        return self if uri == self.uri else replace(self, uri=uri)


_ENCODE = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode


def _body(field: FieldConflict) -> list[Json]:
    return [field.base, *field.sides, *([{"round": field.round}] if field.round else [])]


def canonical_json(value: Json) -> str:
    """One text for equal values, for ordering and digests only."""
    return _ENCODE(value)
