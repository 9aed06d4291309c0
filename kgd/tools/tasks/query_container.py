"""The `query_container` tool: reads a task with its sections and the areas of its files, or lists tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.errors import Advice, Do, Invalid
from kgd.memories.tasks import STATUSES, parsed
from kgd.model.access import Verb
from kgd.tools import nodes, origins, visibility
from kgd.tools.areas import ids
from kgd.tools.areas.answers import Envelope, answered, enveloped
from kgd.tools.areas.query_graph import GraphContext, context_of
from kgd.tools.operation import Hints, Operation
from kgd.tools.parameters import Params
from kgd.tools.session import Session
from kgd.tools.tasks.answers import Board, SectionAnswer, TaskAnswer, sections_answer, task_answer, task_at, task_of

if TYPE_CHECKING:
    from kgd.model.uri import Uri
    from kgd.workspace.workspace import Workspace

LOOKED_THROUGH = 2_000
"""Largest number of hits of a text query to which the status filter is applied."""


class QueryContainerParams(Params):
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
    workspace: str | None = None


class QueryContainerData(TypedDict):
    task: NotRequired[TaskAnswer]
    sections: NotRequired[list[SectionAnswer]]
    graphContext: NotRequired[GraphContext]
    tasks: NotRequired[list[TaskAnswer]]
    total: NotRequired[int]


class QueryContainerResult(TypedDict):
    success: bool
    data: QueryContainerData


def query_container(session: Session, params: QueryContainerParams) -> Envelope:
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
    status = _status(params.status)
    sees = visibility.sight(session, workspace.id)
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
    found = nodes.find(workspace, uri, sees=visibility.sight(session, workspace.id))
    return task_answer(found, parsed(found.stored)) if found and found.stored else None


def _status(wanted: str | None) -> str | None:
    if wanted is None or not wanted.strip():
        return None
    status = wanted.strip().lower().replace("_", "-").replace(" ", "-")
    if status not in STATUSES:
        raise Invalid(f"'{wanted[:60]}' is not a status", at="status", next=f"Known: {', '.join(STATUSES)}.")
    return status


QUERY_CONTAINER = Operation(
    name="query_container",
    title="Read tasks",
    description=(
        "Reads tasks. get: one task by id, with its sections, and with includeGraphContext also the areas of its "
        "Context Files. search: tasks by words and status, those in progress first."
    ),
    Params=QueryContainerParams,
    Result=QueryContainerResult,
    hints=Hints(read_only=True, idempotent=True),
    run=query_container,
    refusal=enveloped,
    offered="tasks",
    place=10,
    scope=Verb.READ,
)
