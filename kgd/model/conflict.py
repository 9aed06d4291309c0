"""This file is where a stored disagreement is defined: data, never an exception.

Nothing here mentions commits or times, so replicas that meet in another order write the same record (DESIGN section 6).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from kgd.model.node import Json
from kgd.model.uri import Uri

WHOLE = "node"
"""Field name of a disagreement about the existence of the whole node: one side of it is None."""


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """One field that two sides changed differently. `sides` are sorted by their JSON text; None is absence."""

    base: Json
    sides: tuple[Json, ...]


@dataclass(frozen=True, slots=True)
class Conflict:
    """Base and sides of one node's fields. `shown` names, per field, the index in `sides` that is served meanwhile."""

    uri: Uri
    fields: Mapping[str, FieldConflict]
    shown: Mapping[str, int]

    @property
    def digest(self) -> str:
        """16 hex digits over URI, fields, base and sorted sides: the record's name, alike on every replica."""
        body = [self.uri, {name: [f.base, *f.sides] for name, f in sorted(self.fields.items())}]
        return hashlib.sha256(canonical_json(body).encode()).hexdigest()[:16]

    @property
    def id(self) -> str:
        """What a person or an agent names it by: ``<uri>#<digest>``, which also says where its record is."""
        return f"{self.uri}#{self.digest}"


def canonical_json(value: Json) -> str:
    """One text for equal values, used for order and digests only."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
