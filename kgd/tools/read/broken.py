"""The `broken` tool: relations to missing nodes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.code_history.history import CodeHistory
from kgd.errors import Advice
from kgd.model.fields import plain_weight
from kgd.model.uri import IN_CODE, Uri, path_of, scheme_of, workspace_of
from kgd.tools import addressing, paging
from kgd.tools.operation import CURSOR, LIMIT, Command, Hints, Operation
from kgd.tools.parameters import Params
from kgd.tools.session import Session
from kgd.tools.write.code_moves import after_rename, with_folders
from kgd.workspace.workspace import Workspace


class BrokenParams(Params):
    limit: Annotated[int, Field(ge=1, le=500)] = 50
    cursor: str | None = None
    workspace: str | None = None


class MissingLink(TypedDict):
    source: str
    type: str
    weight: float


class MissingNode(TypedDict):
    """A missing node to which relations lead. `moved` is the new path of a renamed file or folder of the code; `next`,
    in the first node of each rename, moves the facts there."""

    uri: str
    links: list[MissingLink]
    moved: NotRequired[str]
    next: NotRequired[str]


class BrokenResult(TypedDict):
    workspace: str
    links: int
    broken: list[MissingNode]
    cursor: NotRequired[str]


def broken(session: Session, params: BrokenParams) -> BrokenResult:
    """List broken relations, sorted by missing node, source and type. Takes time linear in the number of missing nodes.

    Raises:
        KgdError: The workspace is unknown, or the cursor belongs to another call.
    """
    workspace = addressing.choose(session, params.workspace)
    found = workspace.broken_links()
    after = paging.read("broken", workspace.id, params.cursor) if params.cursor else []
    rest = [one for one in found if [one.target, one.source, one.type] > after] if after else found
    answer: BrokenResult = {"workspace": workspace.id, "links": len(found), "broken": []}
    for one in rest[: params.limit]:
        if not answer["broken"] or answer["broken"][-1]["uri"] != one.target:
            answer["broken"].append({"uri": one.target, "links": []})
        answer["broken"][-1]["links"].append(
            {"source": one.source, "type": one.type, "weight": plain_weight(one.weight)}
        )
    if session.principal is None:
        _note_renames(workspace, answer["broken"])
    if len(rest) > params.limit:
        last = rest[params.limit - 1]
        answer["cursor"] = paging.write("broken", workspace.id, [last.target, last.source, last.type])
    return answer


def _note_renames(workspace: Workspace, broken: Sequence[MissingNode]) -> None:
    """Set `moved` in the missing nodes of renamed code, and `next` in the first one of each rename."""
    renamed = cache(CodeHistory.of(workspace).renamed)
    paths = ((one, _path(workspace, Uri(one["uri"]))) for one in broken)
    moved = [(one, path, now) for one, path in paths if path and (now := renamed(path))]
    left = with_folders(workspace, {path: now for _, path, now in moved})
    for one, path, now in moved:
        one["moved"] = now
        if was := next((was for was in left if path == was or path.startswith(f"{was}/")), ""):
            one["next"] = Advice(*after_rename(was, left.pop(was)))


def _path(workspace: Workspace, uri: Uri) -> str:
    """The path of a file, a folder or the file of a symbol of this workspace; empty for other nodes."""
    if scheme_of(uri) not in IN_CODE or workspace_of(uri) != workspace.id:
        return ""
    return path_of(uri).rpartition("/")[0] if scheme_of(uri) == "symbol" else path_of(uri)


BROKEN = Operation(
    name="broken",
    title="Broken links",
    description="Relations to missing nodes, by missing node.",
    hints=Hints(read_only=True, idempotent=True),
    run=broken,
    commands=(
        Command(
            "Care", "list broken links, by missing node", (LIMIT, CURSOR), place=90, print="printing_context.broken"
        ),
    ),
)
