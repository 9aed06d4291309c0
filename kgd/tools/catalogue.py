"""The operations by name, from a generated table. The module of an operation is imported on first access.

This makes the daemon's start a third faster.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TypedDict

from kgd.tools.operation import Operation

TABLE = Path(__file__).with_name("operations.json")


class Entry(TypedDict):
    """The part of an `Operation` that is known without importing it."""

    module: str
    constant: str
    offered: str
    scope: str
    page: str
    commits: dict[str, str]


@cache
def entries() -> dict[str, Entry]:
    """Every operation by name, in the order of the manual."""
    known: dict[str, Entry] = json.loads(TABLE.read_text())["operations"]
    return known


class Catalogue(Mapping[str, Operation]):
    """Operations by name. The first access to an operation imports it, which takes some milliseconds."""

    def __init__(self, known: Mapping[str, Entry]) -> None:
        self.entries = known

    def __getitem__(self, name: str) -> Operation:
        entry = self.entries[name]
        found = getattr(import_module(entry["module"]), entry["constant"])
        assert isinstance(found, Operation)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __or__(self, other: Catalogue) -> Catalogue:
        return Catalogue({**self.entries, **other.entries})
