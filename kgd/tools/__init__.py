"""The catalogue of operations, shared by all surfaces: parameters, answer, and the function that runs each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Any

from kgd.errors import Invalid, NotFound
from kgd.tools.catalogue import Catalogue, entries
from kgd.tools.operation import USUAL, Answer, Operation
from kgd.tools.session import Session

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
    """The operations for a choice such as ``tasks,server-memory``; the prefix ``only:`` leaves out the usual ones.

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
    known = EVERY if session.trusted and session.principal is None else TOOLS
    tool = known.get(name)
    if tool is None:
        raise NotFound(f"there is no tool '{name[:60]}'", next=f"Known: {', '.join(TOOLS)}.")
    return tool.call(session, arguments)


__all__ = ["EVERY", "LOCAL", "SERVED", "TOOLS", "TOOLSETS", "Answer", "Operation", "Session", "call", "chosen"]
