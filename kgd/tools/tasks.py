"""Tasks: their look-up, lists and answers, and the tools `query_container` and `add_task`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.areas.patterns import normalise
from kgd.errors import Advice, Do, Invalid, KgdError, NotFound, Stale
from kgd.memories.tasks import (
    CRITERIA,
    DEPENDS_ON,
    FILES,
    OBJECTIVE,
    STATUSES,
    Section,
    Task,
    parsed,
    status_of,
    with_sections,
)
from kgd.model.access import Verb
from kgd.model.change import ChangeSet, Upsert, subject_from
from kgd.model.node import Relation, cut_at_word
from kgd.model.uri import OWNED, Uri, build, scheme_of
from kgd.tools import addressing, nodes, origins
from kgd.tools.areas import ids
from kgd.tools.areas.answers import Envelope, answered, enveloped
from kgd.tools.areas.query_graph import GraphContext, context_of
from kgd.tools.nodes import Found
from kgd.tools.operation import Hints, Operation
from kgd.tools.paging import present
from kgd.tools.parameters import Many, WorkspaceParams, refuse_unseen
from kgd.tools.session import Session
from kgd.workspace.served import Beside, Changed
from kgd.workspace.workspace import Workspace

LOOKED_THROUGH = 2_000
"""Largest number of hits of a text query to which the status filter is applied."""


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
    found = nodes.find(workspace, uri, sees=session.sight(workspace.id))
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
    sees = session.sight(workspace.id)
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
    answer |= present(openConflicts=[one.id for one in found.workspace.conflicts.of([found.uri], about=found.sees)])
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


class Board(Beside):
    """The tasks of one workspace, by `Board.of`. Thread-safe.

    The first call reads each task once; later calls read only changed tasks. Answers include every acknowledged write.
    """

    def __init__(self, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._lines: dict[Uri, Line] = {}
        self._changed = Changed(workspace, SCHEME)

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
        for uri in self._changed.unread():
            self._lines.pop(uri, None)
            if line := self._read(uri):
                self._lines[uri] = line

    def _read(self, uri: Uri) -> Line | None:
        node = self._workspace.readable(uri)
        return Line(uri, node.type, node.title, status_of(node), node.summary) if node else None


def _place(line: Line) -> tuple[int, str, Uri]:
    return _ORDER.get(line.status, _UNKNOWN), line.name, line.uri


class QueryContainerParams(WorkspaceParams):
    operation: Literal["get", "search"]
    containerType: Literal["task"] = "task"
    id: Annotated[str | None, Field(description="get: URI or name")] = None
    query: Annotated[str, Field(max_length=2_000, description="search: words")] = ""
    status: Annotated[str | None, Field(description=f"search: {', '.join(STATUSES)}")] = None
    includeSections: bool = True
    includeGraphContext: Annotated[bool, Field(description="get: the areas of its Context Files")] = False
    limit: Annotated[int, Field(ge=1, le=200)] = 20
    offset: Annotated[int, Field(ge=0)] = 0
    projectId: Annotated[str | None, Field(description="a workspace")] = None


class QueryContainerData(TypedDict):
    task: NotRequired[TaskAnswer]
    sections: NotRequired[list[SectionAnswer]]
    graphContext: NotRequired[GraphContext]
    tasks: NotRequired[list[TaskAnswer]]
    total: NotRequired[int]


def query_container(session: Session, params: QueryContainerParams) -> Envelope[QueryContainerData]:
    """`get` returns a task with its sections and, if requested, the areas of its files; `search` returns a list."""
    if params.operation == "search":
        workspace = ids.project(session, params.workspace, params.projectId)
        return answered(_shown(session, workspace, _search(session, workspace, params)))
    if not params.id or not params.id.strip():
        raise Invalid(
            "get needs the id of a task",
            at="id",
            next=Advice("Find it with ", Do("query_container", operation="search"), "."),
        )
    workspace = ids.project(session, params.workspace, params.projectId, [params.id])
    found = task_at(session, workspace, params.id)
    task = task_of(found)
    data: QueryContainerData = {"task": task_answer(found, task)}
    if params.includeSections:
        data["sections"] = sections_answer(task)
    if params.includeGraphContext:
        data["graphContext"] = context_of(session, workspace, task.files)
    return answered(_shown(session, workspace, data))


def _shown(session: Session, workspace: Workspace, data: QueryContainerData) -> Mapping[str, Any]:
    """Fence text written by others, so that every character is visible."""
    return origins.fence(data) if origins.trust_in(session, workspace) == "remote" else data


def _search(session: Session, workspace: Workspace, params: QueryContainerParams) -> QueryContainerData:
    """Tasks by status, active tasks first; with words, the best match first. Only `get` returns sections."""
    status = status_named(params.status, at="status") if params.status and params.status.strip() else None
    sees = session.sight(workspace.id)
    board = Board.of(workspace)
    uris: list[Uri]
    if params.query.strip():
        types = sorted(board.types())
        hits = workspace.text().search(params.query, types=types, limit=LOOKED_THROUGH, sees=sees) if types else []
        lines = (board.line(hit.uri) for hit in hits)
        uris = [line.uri for line in lines if line and status in (None, line.status)]
    else:
        uris = [line.uri for line in board.lines(status, sees=sees)]
    page = (_answer(session, workspace, uri) for uri in uris[params.offset : params.offset + params.limit])
    return {"tasks": [one for one in page if one is not None], "total": len(uris)}


def _answer(session: Session, workspace: Workspace, uri: Uri) -> TaskAnswer | None:
    found = nodes.find(workspace, uri, sees=session.sight(workspace.id))
    return task_answer(found, parsed(found.stored)) if found and found.stored else None


def status_named(text: str, *, at: str) -> str:
    """The status that a text names in any spelling, such as ``In Progress``."""
    status = text.strip().lower().replace("_", "-").replace(" ", "-")
    if status not in STATUSES:
        raise Invalid(f"'{text[:60]}' is not a status", at=at, next=f"Known: {', '.join(STATUSES)}.")
    return status


QUERY_CONTAINER = Operation(
    name="query_container",
    title="Read tasks",
    description=(
        "Reads tasks. get: one task by id, with its sections, and with includeGraphContext also the areas of its "
        "Context Files. search: tasks by words and status, those in progress first."
    ),
    hints=Hints(read_only=True, idempotent=True),
    run=query_container,
    refusal=enveloped,
    offered="tasks",
    place=10,
    scope=Verb.READ,
)


class AddTaskParams(WorkspaceParams):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    objective: str = ""
    accept: Many[str] = Field(default_factory=list)
    files: Many[str] = Field(default_factory=list)
    depends: Many[str] = Field(default_factory=list)
    tags: Many[str] = Field(default_factory=list)
    dry_run: bool = False


class AddTaskResult(TypedDict):
    workspace: str
    commit: str | None
    id: str
    name: str
    sections: list[Any]
    warnings: list[str]
    dry_run: NotRequired[bool]


def add_task(session: Session, params: AddTaskParams) -> AddTaskResult:
    """Create a pending task. `put` derives the same URI from the type and name."""
    name = params.name.strip()
    refuse_unseen(name, "name")
    if not name:
        raise Invalid("a task needs a name", at="name", next="Describe the task in a few words.")
    workspace = addressing.choose(session, params.workspace, writing=True)
    uri = build(SCHEME, workspace.id, [name.encode("utf-8", "surrogatepass")])
    paths = [f"`{_path(session, workspace, path, at=f'files[{n}]')}`" for n, path in enumerate(params.files)]
    texts = ((OBJECTIVE, params.objective), (CRITERIA, _lines(params.accept)), (FILES, _lines(paths)))
    sections = with_sections(None, [Section(title, text) for title, text in texts])
    depends = [task_at(session, workspace, text, at=f"depends[{n}]").uri for n, text in enumerate(params.depends)]
    edit = Upsert(
        uri,
        type="task",
        name=name,
        summary=cut_at_word(params.objective),
        tags=tuple(params.tags),
        data={"status": "pending"} | ({"sections": sections} if sections else {}),
        relations=tuple(Relation(DEPENDS_ON, one) for one in dict.fromkeys(depends)),
        expect_version=0,
    )
    changes = ChangeSet((edit,), session.author(workspace), subject_from("task", name), operation="task")
    try:
        outcome = session.submit(workspace, changes, dry_run=params.dry_run)
    except Stale as stale:
        raise Stale(
            "a task of this name already exists",
            current=stale.current,
            at=uri,
            next=Advice(Do("query_container", operation="get"), " shows it; choose another name for the new one."),
        ) from stale
    answer: AddTaskResult = {
        "workspace": workspace.id,
        "commit": outcome.commit,
        "id": uri,
        "name": name,
        "sections": sections,
        "warnings": list(outcome.warnings),
    }
    answer |= present(dry_run=params.dry_run)
    return answer


def _path(session: Session, workspace: Workspace, text: str, *, at: str) -> str:
    """The path relative to the code tree, so that colleagues can use it. Patterns and new files stay unchanged.

    Raises:
        Invalid: The path is outside the code tree.
    """
    refuse_unseen(text, "path")
    here = os.path.join(session.cwd or "", text)
    root = workspace.layout.code_tree
    given = here if session.cwd and session.principal is None and os.path.lexists(here) else text
    path = normalise(given, root, workspace=workspace.id)
    if path is None:
        raise Invalid("this path is outside the code tree", at=at, next="Give the path of a file below it.")
    return path or "./"


def _lines(items: list[str]) -> str:
    return "\n".join(f"- {' '.join(item.split())}" for item in items if item.strip())


ADD_TASK = Operation(
    name="add_task",
    title="Add a task",
    description="Creates a pending task with objective, acceptance criteria and context files.",
    hints=Hints(),
    run=add_task,
    commits={"task": "wrote"},
)
