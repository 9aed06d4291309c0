"""The catalogue of operations by name, from a generated table, shared by all surfaces.

The module of an operation is imported on first access. This makes the daemon's start a third faster.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache, reduce
from importlib import import_module
from operator import or_
from pathlib import Path
from typing import Any, TypedDict

from kgd.errors import Invalid, NotFound
from kgd.tools.operation import USUAL, Answer, Operation
from kgd.tools.session import Session

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


@cache
def _imported(module: str, constant: str) -> Operation:
    found = getattr(import_module(module), constant)
    assert isinstance(found, Operation)
    return found


class Catalogue(Mapping[str, Operation]):
    """Operations by name. The first access to an operation imports it, which takes some milliseconds."""

    def __init__(self, known: Mapping[str, Entry]) -> None:
        self.entries = known

    def __getitem__(self, name: str) -> Operation:
        entry = self.entries[name]
        return _imported(entry["module"], entry["constant"])

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __or__(self, other: Catalogue) -> Catalogue:
        return Catalogue({**self.entries, **other.entries})


EVERY = Catalogue(entries())
"""Operations for this machine's command line and programs."""


def _offered(where: str) -> Catalogue:
    return Catalogue({name: entry for name, entry in entries().items() if entry["offered"] == where})


TOOLS = _offered(USUAL)
"""Operations that every MCP client gets."""

TOOLSETS: Mapping[str, Catalogue] = {
    kit: _offered(kit)
    for kit in dict.fromkeys(entry["offered"] for entry in entries().values())
    if kit not in (USUAL, "")
}
"""Operations that an MCP client may add, by toolset."""

LOCAL = _offered("")
"""Operations that are not offered over MCP."""

SERVED = Catalogue({name: entry for name, entry in entries().items() if entry["scope"]})
"""Operations for holders of tokens."""

ONLY = "only:"


def chosen(toolsets: str) -> Mapping[str, Operation]:
    """The operations for a choice such as ``tasks,server-memory``; the prefix ``only:`` leaves out the usual
    operations.

    Raises:
        Invalid: There is no toolset of that name.
    """
    names = [name.strip() for name in toolsets.removeprefix(ONLY).split(",") if name.strip()]
    unknown = [name for name in names if name not in TOOLSETS]
    if unknown:
        raise Invalid(f"there is no toolset '{unknown[0][:60]}'", at="tools", next=f"Known: {', '.join(TOOLSETS)}.")
    begun = Catalogue({}) if toolsets.startswith(ONLY) and names else TOOLS
    return reduce(or_, (TOOLSETS[kit] for kit in TOOLSETS if kit in names), begun)


def call(session: Session, name: str, arguments: Mapping[str, Any] | None = None) -> Answer:
    """The answer of one operation, as plain data.

    Raises:
        NotFound: This caller has no operation of that name.
        KgdError: Nothing was written.
    """
    known = EVERY if session.principal is None else TOOLS
    tool = known.get(name)
    if tool is None:
        raise NotFound(f"there is no tool '{name[:60]}'", next=f"Known: {', '.join(TOOLS)}.")
    return tool.call(session, arguments)


__all__ = ["EVERY", "LOCAL", "SERVED", "TOOLS", "TOOLSETS", "Answer", "Operation", "Session", "call", "chosen"]
