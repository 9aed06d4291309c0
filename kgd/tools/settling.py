"""This file is where open conflicts are listed and settled by whoever decides: a person, or an agent for one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.errors import Invalid, NotFound
from kgd.model.change import ChangeSet, Settle
from kgd.tools import addressing, cursors, nodes
from kgd.tools.nodes import ConflictAnswer
from kgd.tools.parameters import JsonObject, Many, Params
from kgd.tools.session import Session
from kgd.tools.tool import Hints, Tool
from kgd.tools.writing import PutResult, answer_of
from kgd.workspace.outcome import OpenConflict

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

SIDES = {"a": 0, "b": 1}
IDS_NAMED = 8


class ConflictsParams(Params):
    uri: str | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: str | None = None
    workspace: str | None = None


class ConflictsResult(TypedDict):
    workspace: str
    total: int
    conflicts: list[ConflictAnswer]
    cursor: NotRequired[str]


def conflicts(session: Session, params: ConflictsParams) -> ConflictsResult:
    """What two people wrote differently, both sides of each field."""
    workspace = addressing.choose(session, params.workspace, [params.uri] if params.uri else [])
    uri = addressing.resolve(session, workspace, params.uri) if params.uri else None
    after = str(cursors.read("conflicts", uri, params.cursor)[0]) if params.cursor else ""
    found = workspace.conflicts(uri, limit=params.limit + 1, after=after)
    answer: ConflictsResult = {
        "workspace": workspace.id,
        "total": workspace.conflict_count if uri is None else len(found),
        "conflicts": [nodes.conflict(one) for one in found[: params.limit]],
    }
    if len(found) > params.limit:
        answer["cursor"] = cursors.write("conflicts", uri, [found[params.limit - 1].path])
    return answer


class Resolution(Params):
    id: str
    take: Literal["a", "b", "base"] | None = None
    fields: JsonObject | None = None


class ResolveParams(Params):
    resolutions: Annotated[Many[Resolution], Field(min_length=1, max_length=200)]
    message: str = ""
    dry_run: bool = False
    workspace: str | None = None


def resolve(session: Session, params: ResolveParams) -> PutResult:
    """Settles conflicts, all of them in one commit: a side as it is, or a value for each field."""
    workspace = addressing.choose(session, params.workspace, [one.id for one in params.resolutions], writing=True)
    edits = []
    for index, resolution in enumerate(params.resolutions):
        at = f"resolutions[{index}]"
        found = _named(session, workspace, resolution.id, at)
        edits.append(Settle(found.id, _decided(found, resolution, at)))
    changes = ChangeSet(tuple(edits), session.author(workspace), params.message, operation="resolve")
    return answer_of(workspace, workspace.submit(changes, dry_run=params.dry_run), dry_run=params.dry_run)


def _named(session: Session, workspace: Workspace, id: str, at: str) -> OpenConflict:
    """By id, by digest alone, or by the node, in any spelling of its URI, where it has only one."""
    chosen = [one for one in workspace.conflicts(limit=10_000) if id in (one.id, one.conflict.digest)]
    if not chosen:
        uri = addressing.resolve(session, workspace, id, at=at)
        chosen = list(workspace.conflicts(uri) or workspace.conflicts(workspace.graph.resolve(uri)))
    if len(chosen) == 1:
        return chosen[0]
    if chosen:
        ids = ", ".join(one.conflict.digest for one in chosen[:IDS_NAMED])
        raise Invalid(f"this node has {len(chosen)} open conflicts", at=at, next=f"Name one by its id: {ids}.")
    raise NotFound("this conflict is not open", at=at, next="List what is open with `kgd conflicts`.")


def _decided(found: OpenConflict, resolution: Resolution, at: str) -> Mapping[str, Any]:
    if (resolution.take is None) == (resolution.fields is None):
        raise Invalid("say either `take` or `fields`", at=at, next="take is a, b or base; fields gives each its value.")
    fields = found.conflict.fields
    if resolution.fields is not None:
        return resolution.fields
    if resolution.take == "base":
        return {name: field.base for name, field in fields.items()}
    side = SIDES[resolution.take or "a"]
    missing = [name for name, field in fields.items() if side >= len(field.sides)]
    if missing:
        raise Invalid(f"'{missing[0][:60]}' has no side {resolution.take}", at=f"{at}.take")
    return {name: field.sides[side] for name, field in fields.items()}


CONFLICTS = Tool(
    name="conflicts",
    title="Open conflicts",
    description="What two people wrote differently, with both sides.",
    Params=ConflictsParams,
    Result=ConflictsResult,
    hints=Hints(read_only=True, idempotent=True),
    run=conflicts,
)
RESOLVE = Tool(
    name="resolve",
    title="Settle conflicts",
    description="Takes a side, or gives each field its value.",
    Params=ResolveParams,
    Result=PutResult,
    hints=Hints(destructive=True),
    run=resolve,
)
