"""Look-up of tasks by URI or name, their list in memory, and their form in answers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import NotRequired

from typing_extensions import TypedDict

from kgd.errors import Advice, Do, Invalid, KgdError, NotFound
from kgd.memories.tasks import Task, parsed, status_of
from kgd.model.access import Verb
from kgd.model.uri import OWNED, Uri, build, scheme_of
from kgd.tools import addressing, nodes, visibility
from kgd.tools.nodes import Found
from kgd.tools.session import Session
from kgd.workspace.changed_nodes import Changed
from kgd.workspace.workspace import Workspace


class SectionAnswer(TypedDict):
    title: str
    content: str


class TaskAnswer(TypedDict):
    """A task without its sections. `dependsOn` are URIs."""

    id: str
    projectId: str
    name: str
    summary: str
    status: str
    tags: list[str]
    dependsOn: list[str]
    version: int
    createdAt: NotRequired[str]
    updatedAt: NotRequired[str]
    openConflicts: NotRequired[list[str]]


def task_at(session: Session, workspace: Workspace, text: str, *, at: str = "id") -> Found:
    """The stored task for a URI, a former URI, or a short id such as ``payments/fix-webhook``.

    Raises:
        Invalid: The text names something other than a task.
        NotFound: There is no such task; the error suggests similar tasks.
        Forbidden: The caller may not read the task.
    """
    uri = _uri_of(session, workspace, text.strip(), at)
    session.allow(workspace, Verb.READ, [uri])
    found = nodes.find(workspace, uri, sees=visibility.sight(session, workspace.id))
    if found is None or found.stored is None or not session.may(workspace, found.uri, Verb.READ):
        raise NotFound("there is no such task", at=at, next=_way_out(session, workspace, text))
    return found


def _uri_of(session: Session, workspace: Workspace, text: str, at: str) -> Uri:
    if not text:
        raise Invalid("it is not clear which task is meant", at=at, next="Give its URI, or its name.")
    if short := _short(workspace, text):
        return short
    is_uri = text.partition(":")[0] in OWNED or "://" in text
    uri = addressing.resolve(session, workspace, text if is_uri else f"{SCHEME}:{text}", at=at)
    if scheme_of(uri) != SCHEME:
        raise Invalid("this is not a task", at=at, next=f"A task is {SCHEME}://{workspace.id}/<name>.")
    return uri


def _short(workspace: Workspace, text: str) -> Uri | None:
    """The task of a short id: a path below ``task://<workspace>/``, or a whole name, from which `put` makes a URI."""
    whole = text.encode("utf-8", "surrogateescape")
    for segments in (whole.strip(b"/").split(b"/"), [whole]):
        try:
            uri = workspace.graph.resolve(build(SCHEME, workspace.id, segments))
        except KgdError:
            continue
        if uri in workspace.graph:
            return uri
    return None


def _way_out(session: Session, workspace: Workspace, text: str) -> str:
    sees = visibility.sight(session, workspace.id)
    words = text.rpartition("://")[2].partition("/")[2] or text
    alike = [hit.uri for hit in workspace.text().search(words[:200], types=[SCHEME], limit=3, sees=sees)]
    if alike:
        return f"Did you mean {' or '.join(alike)}?"
    return Advice(Do("query_container", operation="search"), " lists them, ", Do("put", type="task"), " makes one.")


def task_of(found: Found) -> Task:
    assert found.stored is not None
    return parsed(found.stored)


def task_answer(found: Found, task: Task) -> TaskAnswer:
    """The answer for a task. An `advance` that expects this version detects later changes."""
    head = nodes.head(found, found.uri)
    answer: TaskAnswer = {
        "id": found.uri,
        "projectId": found.workspace.id,
        "name": task.name,
        "summary": head.get("summary", ""),
        "status": task.status,
        "tags": head.get("tags", []),
        "dependsOn": [uri for uri in task.depends_on if found.sees is None or found.sees(uri)],
        "version": head["version"],
    }
    if "created" in head:
        answer["createdAt"], answer["updatedAt"] = head["created"]["at"], head["updated"]["at"]
    if disputed := found.workspace.conflicts.of([found.uri], about=found.sees):
        answer["openConflicts"] = [one.id for one in disputed]
    return answer


def sections_answer(task: Task) -> list[SectionAnswer]:
    return [{"title": one.title, "content": one.content} for one in task.sections]


SCHEME = "task"
_ORDER = {"in-progress": 0, "pending": 1, "completed": 3, "cancelled": 4}
"""Active tasks come first; an unknown status sorts before finished tasks."""
_UNKNOWN = 2


@dataclass(frozen=True, slots=True)
class Line:
    """One task of a list. `get` returns its objective."""

    uri: Uri
    type: str
    name: str
    status: str
    summary: str


class Board:
    """The tasks of one workspace, by `Board.of`. Thread-safe.

    The first call reads each task once; later calls read only changed tasks.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._lock = workspace, threading.Lock()
        self._lines: dict[Uri, Line] = {}
        self._is_loaded = False
        self._changed = Changed(workspace, SCHEME)

    @classmethod
    def of(cls, workspace: Workspace) -> Board:
        """The board of a workspace. Its answers include every acknowledged write."""
        return workspace.beside(cls, cls)

    def lines(self, status: str | None = None, *, sees: Callable[[Uri], bool] | None = None) -> list[Line]:
        """Tasks in progress first, then pending tasks, then finished tasks; each group by name, then by URI. Costs
        O(tasks)."""
        with self._lock:
            self._refresh()
            found = [one for one in self._lines.values() if status in (None, one.status)]
        return sorted((one for one in found if sees is None or sees(one.uri)), key=_place)

    def line(self, uri: Uri) -> Line | None:
        with self._lock:
            self._refresh()
            return self._lines.get(uri)

    def types(self) -> set[str]:
        """Types of the nodes with a task URI: `task`, unless a user set another type."""
        with self._lock:
            self._refresh()
            return {one.type for one in self._lines.values()}

    def _refresh(self) -> None:
        changed = self._changed.take()
        if not self._is_loaded:
            changed.update(self._workspace.graph.uris(scheme=SCHEME))
            self._is_loaded = True
        for uri in changed:
            self._lines.pop(uri, None)
            if line := self._read(uri):
                self._lines[uri] = line

    def _read(self, uri: Uri) -> Line | None:
        node = self._workspace.readable(uri)
        return Line(uri, node.type, node.title, status_of(node), node.summary) if node else None


def _place(line: Line) -> tuple[int, str, Uri]:
    return _ORDER.get(line.status, _UNKNOWN), line.name, line.uri
