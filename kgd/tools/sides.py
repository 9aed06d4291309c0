"""This file is where it is looked up who wrote each side of a conflict, as far as a short look into history tells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NotRequired

from typing_extensions import TypedDict

from kgd.errors import KgdError
from kgd.model.conflict import WHOLE, canonical_json
from kgd.model.fields import field_of, plain
from kgd.model.node import Json, Node
from kgd.resolution.prompts import sides_of
from kgd.tools.nodes import moment
from kgd.workspace.outcome import OpenConflict

if TYPE_CHECKING:
    from kgd.workspace.outcome import Entry
    from kgd.workspace.workspace import Workspace

COMMITS_READ = 30
"""Of a node's history: a side that is older stays without a name."""


class SideAnswer(TypedDict):
    """One version, with the commit that wrote it where that was found."""

    side: str
    value: Any
    author: NotRequired[str]
    commit: NotRequired[str]
    at: NotRequired[str]


class SidesOfField(TypedDict):
    """`shown` is the side that is served meanwhile."""

    base: Any
    sides: list[SideAnswer]
    shown: str


def with_authors(workspace: Workspace, found: OpenConflict, *, look: bool = True) -> dict[str, SidesOfField]:
    """Each field of the conflict with its sides. One git process, and a few reads for each of the newest commits.

    Args:
        look: Whether history is asked at all.
    """
    past = _Past(workspace, found) if look else None
    answer: dict[str, SidesOfField] = {}
    for name, field in found.conflict.fields.items():
        letters = sides_of(found.conflict, name)
        sides: list[SideAnswer] = []
        for letter, value in letters.items():
            side: SideAnswer = {"side": letter, "value": value}
            if past is not None and (entry := past.writer_of(name, value)):
                side.update({"author": entry.author, "commit": entry.commit, "at": moment(entry.at)})
            sides.append(side)
        shown = found.conflict.shown.get(name, 0)
        answer[name] = {"base": field.base, "sides": sides, "shown": list(letters)[shown]}
    return answer


class _Past:
    """The node at each of its newest commits and at their parents, read once."""

    def __init__(self, workspace: Workspace, found: OpenConflict) -> None:
        self._workspace, self._uri = workspace, found.uri
        self._nodes: dict[str, Node | None] = {}
        try:
            self._entries = workspace.history(uri=found.uri, limit=COMMITS_READ)
        except KgdError:
            self._entries = ()

    def writer_of(self, field: str, value: Json) -> Entry | None:
        """The newest commit with one parent that gave the field this value."""
        wanted = canonical_json(value)
        for entry in self._entries:
            if len(entry.parents) != 1 or self._value(entry.commit, field) != wanted:
                continue
            if self._value(entry.parents[0], field) != wanted:
                return entry
        return None

    def _value(self, commit: str, field: str) -> str:
        if commit not in self._nodes:
            try:
                self._nodes[commit] = self._workspace.node(self._uri, commit)
            except KgdError:
                self._nodes[commit] = None
        node = self._nodes[commit]
        try:
            value = (plain(node) if node else None) if field == WHOLE else field_of(node, field)
        except KgdError:
            return ""
        return canonical_json(value)
