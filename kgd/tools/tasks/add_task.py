"""The `add_task` operation behind `kgd task add`: creates a task with sections."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.areas.paths import normalise
from kgd.errors import Advice, Do, Invalid, Stale
from kgd.memories.tasks import CRITERIA, DEPENDS_ON, FILES, OBJECTIVE, Section, with_sections
from kgd.model.change import ChangeSet, Upsert
from kgd.model.node import Relation, cut_at_word
from kgd.model.uri import build
from kgd.tools import addressing
from kgd.tools.operation import Hints, Operation
from kgd.tools.parameters import Many, Params, refuse_unseen
from kgd.tools.session import Session
from kgd.tools.tasks.answers import SCHEME, task_at

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace


class AddTaskParams(Params):
    name: Annotated[str, Field(min_length=1, max_length=200)]
    objective: str = ""
    accept: Many[str] = Field(default_factory=list)
    files: Many[str] = Field(default_factory=list)
    depends: Many[str] = Field(default_factory=list)
    tags: Many[str] = Field(default_factory=list)
    dry_run: bool = False
    workspace: str | None = None


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
    changes = ChangeSet((edit,), session.author(workspace), f"task {name}", operation="task")
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
    if params.dry_run:
        answer["dry_run"] = True
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
    Params=AddTaskParams,
    Result=AddTaskResult,
    hints=Hints(),
    run=add_task,
    commits={"task": "wrote"},
)
