"""Answers about atoms, molecules and changelog entries, with the field names of the specification.

The envelope of specs/knowledge-areas.md is `{success, data}` or `{success, error}`. `from_hub` forwards a call to the
hub of the workspace.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, NotRequired, TypeVar

import orjson
from typing_extensions import TypedDict

from kgd.areas.atlas import MOLECULE, molecule_in
from kgd.errors import KgdError, Limit, Stale, Unavailable, whole
from kgd.model.change import LogEntry
from kgd.model.node import Node, Relation
from kgd.model.uri import Uri, scheme_of
from kgd.tools import origins
from kgd.tools.areas.changelog import entries
from kgd.tools.hub_reads import checked
from kgd.tools.nodes import moment, title_of
from kgd.tools.operation import Refusal, as_json
from kgd.tools.parameters import Params
from kgd.tools.session import Session
from kgd.tools.visibility import Sees
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.admission import related_relations

LARGEST = 8 * 1024 * 1024
"""Largest size of an answer in bytes. The specification has no partial answers, so a larger one is refused."""


T = TypeVar("T")


class Envelope(TypedDict, Generic[T]):
    success: bool
    data: T


def answered(data: Mapping[str, Any]) -> Envelope[Any]:
    """The data in its envelope.

    Raises:
        Limit: The answer is too large to send.
    """
    size = len(orjson.dumps(data))
    if size > LARGEST:
        raise _too_large(size)
    return {"success": True, "data": dict(data)}


class Room:
    """The size budget of an answer under construction: an answer that is too large fails early."""

    def __init__(self) -> None:
        self._taken = 0

    def take(self, area: Mapping[str, Any]) -> None:
        """Count one area against the budget.

        Raises:
            Limit: The areas are larger than the budget.
        """
        self._taken += len(orjson.dumps(area))
        if self._taken > LARGEST:
            raise _too_large(self._taken)


def _too_large(size: int) -> Limit:
    return Limit(
        f"the answer has {whole(10 * size, 1 << 20) / 10} MB; the limit is {LARGEST >> 20} MB",
        next="Ask for less: a smaller limit, fewer paths, includeChangelog false.",
    )


def enveloped(error: KgdError) -> Refusal:
    """A refusal in its envelope, with the place and the next step if they are known."""
    told = error.as_dict()
    if isinstance(error, Stale):
        told["currentVersion"] = told.pop("current_version")
    answer = {"success": False, "error": told}
    return Refusal(as_json(answer), answer)


def from_hub(session: Session, workspace: str, tool: str, params: Params) -> Envelope[Any]:
    """The hub's answer; text by other people is fenced.

    Raises:
        KgdError: The hub refused the call, or cannot be reached.
    """
    given = params.model_dump(exclude_unset=True, exclude={"workspace", "projectId"})
    said = session.daemon.elsewhere.call(workspace, tool, given)
    answer: dict[str, Any] = checked(Envelope[dict[str, Any]], said)
    if answer.get("success") is not True:
        raise Unavailable("the hub's answer does not match its tool", next="The hub may run an older kgd.")
    return answered(origins.fence(answer["data"]))


LAST = 1 << 30
"""Position of a relation that was stored without one."""


class EntryAnswer(TypedDict):
    id: str
    parentType: str
    parentId: str
    taskId: str
    summary: str
    createdAt: str


class ShortEntry(TypedDict):
    taskId: str
    summary: str
    createdAt: str


class AreaAnswer(TypedDict):
    """An atom or a molecule. An atom has `moleculeId`, `paths` and `relatedAtoms`, a molecule `relatedMolecules`."""

    id: str
    projectId: str
    name: str
    knowledge: str
    moleculeId: NotRequired[str | None]
    paths: NotRequired[list[Any]]
    relatedAtoms: NotRequired[list[dict[str, str]]]
    relatedMolecules: NotRequired[list[dict[str, str]]]
    createdByTaskId: str
    lastTaskId: str
    version: int
    createdAt: str
    updatedAt: str
    changelog: NotRequired[list[EntryAnswer]]
    openConflicts: NotRequired[list[str]]


def answer_of(workspace: Workspace, uri: Uri, sees: Sees | None, *, changelog_limit: int | None) -> AreaAnswer | None:
    """The current state of an atom or molecule; None if it is gone. An update may pass its version as the expected one.

    Args:
        changelog_limit: Number of newest changelog entries to include; None for no list.
    """
    version = workspace.node_version(uri)  # read first: the answer may be newer than its version, never older
    node = workspace.readable(uri)
    if node is None:
        return None
    count = version.count if version else 0
    if version:
        workspace.sent.note(uri, count)
    answer: dict[str, Any] = {
        "id": uri,
        "projectId": workspace.id,
        "name": node.title,
        "knowledge": node.content,
        **_own(workspace, node, sees),
        "createdByTaskId": text_in(node, "createdByTaskId"),
        "lastTaskId": text_in(node, "lastTaskId"),
        "version": count,
        "createdAt": moment(version.created_at if version else 0),
        "updatedAt": moment(version.updated_at if version else 0),
    }
    if changelog_limit is not None:
        page, _ = entries(workspace, uri, limit=changelog_limit)
        answer["changelog"] = [entry_answer(entry) for entry in page]
    if disputed := workspace.conflicts.of([uri], about=sees):
        answer["openConflicts"] = [one.id for one in disputed]
    return answer  # type: ignore[return-value]


def _own(workspace: Workspace, node: Node, sees: Sees | None) -> dict[str, Any]:
    if scheme_of(node.uri) == MOLECULE:
        return {"relatedMolecules": related_in(workspace, node, sees)}
    paths = node.data.get("paths")
    return {
        "moleculeId": shown_molecule(workspace, node, sees),
        "paths": paths if isinstance(paths, list) else [],
        "relatedAtoms": related_in(workspace, node, sees),
    }


def shown_molecule(workspace: Workspace, node: Node, sees: Sees | None) -> Uri | None:
    """The current URI of the molecule of an atom; None if it is gone or the caller may not see it."""
    named = molecule_in(node)
    current = workspace.graph.resolve(named) if named else None
    return current if current and current in workspace.graph and (sees is None or sees(current)) else None


def related_in(workspace: Workspace, node: Node, sees: Sees | None, *, named: bool = False) -> list[dict[str, str]]:
    """The related areas in the order in which they were given; `named` adds their names."""
    kind = scheme_of(node.uri)
    key = f"{kind}Id"
    answers = []
    for relation in sorted(related_relations(node), key=_position):
        target = workspace.graph.resolve(relation.target)
        if sees is not None and not sees(target):
            continue
        reason = relation.data.get("reason")
        answer = {key: str(target)}
        if named:
            answer["name"] = title_of(workspace, target)
        answers.append({**answer, "reason": reason if isinstance(reason, str) else ""})
    return answers


def _position(relation: Relation) -> tuple[int, Uri]:
    place = relation.data.get("position")
    return place if isinstance(place, int) and not isinstance(place, bool) else LAST, relation.target


def entry_answer(entry: LogEntry) -> EntryAnswer:
    return {
        "id": entry.id,
        "parentType": scheme_of(entry.parent),
        "parentId": entry.parent,
        "taskId": entry.task,
        "summary": entry.summary,
        "createdAt": entry.created_at,
    }


def short_entries(workspace: Workspace, uri: Uri, limit: int) -> list[ShortEntry]:
    page, _ = entries(workspace, uri, limit=limit)
    return [{"taskId": one.task, "summary": one.summary, "createdAt": one.created_at} for one in page]


def text_in(node: Node, key: str) -> str:
    value = node.data.get(key)
    return value if isinstance(value, str) else ""
