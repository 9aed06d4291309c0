"""The `manage_changelog` tool: immutable entries about changes of an area and their reasons, newest first."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field
from typing_extensions import TypedDict

from kgd.model.access import Verb
from kgd.model.change import ChangeSet, Log, subject_from
from kgd.tools import addressing, origins
from kgd.tools.areas import answers, ids, parameters
from kgd.tools.areas.answers import EntryAnswer, Envelope, answered, entry_answer, enveloped, from_hub
from kgd.tools.areas.parameters import Checks, Use
from kgd.tools.operation import USUAL, Hints, Operation
from kgd.tools.parameters import When, period
from kgd.tools.session import Session

MAX_LIMIT = 1_000

_SHARED = frozenset({"operation", "parentType", "parentId", "workspace", "projectId"})


class ManageChangelogParams(parameters.AreaParams):
    operation: Literal["append", "search"]
    parentType: Literal["atom", "molecule"]
    parentId: str
    taskId: str | None = None
    summary: str | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] = 20
    offset: Annotated[int, Field(ge=0)] = 0
    since: When = None
    until: When = None
    projectId: str | None = None
    workspace: str | None = None

    checks: ClassVar[Checks] = {"summary": parameters.summary}

    @classmethod
    def use(cls, operation: str, given: Mapping[str, Any]) -> Use:
        if operation == "append":
            return Use(("taskId", "summary"), _SHARED)
        return Use((), _SHARED | {"limit", "offset", "since", "until"})


class ManageChangelogData(TypedDict, total=False):
    """`append` returns `entry`; `search` returns `entries` and `total`."""

    entry: EntryAnswer
    entries: list[EntryAnswer]
    total: int


def manage_changelog(session: Session, params: ManageChangelogParams) -> Envelope[ManageChangelogData]:
    """`append` adds one immutable entry; `search` returns a page of entries and their total."""
    return answered(_append(session, params) if params.operation == "append" else _search(session, params))


def _append(session: Session, params: ManageChangelogParams) -> dict[str, Any]:
    assert params.taskId is not None
    assert params.summary is not None
    text = parameters.summary(params.summary)
    workspace = ids.project(session, params.workspace, params.projectId, [params.parentId], writing=True)
    parent = ids.area(session, workspace, params.parentType, params.parentId, at="parentId", verb=Verb.WRITE)
    task, before = ids.task(session, workspace, params.taskId, at="taskId")
    entry = answers.new_entry(parent, task, text, time.time())
    card = workspace.graph.card(parent)
    message = subject_from("log", params.parentType, f"{card.name if card else parent}:", text.splitlines()[0])
    edits = (*before, Log(entry))
    session.submit(workspace, ChangeSet(edits, session.author(workspace), message, operation="manage_changelog"))
    return {"entry": entry_answer(entry)}


def _search(session: Session, params: ManageChangelogParams) -> dict[str, Any]:
    if far := addressing.far(session, params.workspace or params.projectId, [params.parentId]):
        return {**from_hub(session, far, "manage_changelog", params)["data"]}
    workspace = ids.project(session, params.workspace, params.projectId, [params.parentId])
    parent = ids.area(session, workspace, params.parentType, params.parentId, at="parentId")
    since, until = period(params.since, params.until)
    page, total = answers.entries(workspace, parent, limit=params.limit, offset=params.offset, since=since, until=until)
    data = {"entries": [entry_answer(entry) for entry in page], "total": total}
    return origins.fence(data) if origins.trust_in(session, workspace) == "remote" else data


MANAGE_CHANGELOG = Operation(
    name="manage_changelog",
    title="Changelog of an area",
    description="append: record what changed in an area and why (taskId, summary). search: its entries, newest first.",
    hints=Hints(),
    run=manage_changelog,
    commits={"manage_changelog": "added to the changelog of"},
    refusal=enveloped,
    offered=USUAL,
    place=70,
    scope=Verb.WRITE,
)
