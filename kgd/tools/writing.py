"""This file is where `put` is: the one way in which clients change the graph."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from pydantic import Field

from kgd.model.change import ChangeSet
from kgd.model.uri import Uri
from kgd.tools import addressing
from kgd.tools.changes import Changes, edits
from kgd.tools.parameters import Params
from kgd.tools.session import Session
from kgd.tools.tool import Hints, Tool


class PutParams(Params):
    changes: Changes
    message: Annotated[str, Field(max_length=4_000, description="why, in one line: the commit's subject")] = ""
    request_id: Annotated[str, Field(max_length=200, description="a retry with the same id applies once")] = ""
    dry_run: bool = False
    conflicts: Literal["resolve", "show"] = "resolve"
    workspace: str | None = None


class Written(TypedDict):
    uri: str
    version: int


class Similar(TypedDict):
    uri: str
    like: list[str]


class PutResult(TypedDict):
    workspace: str
    commit: str | None
    nodes: list[Written]
    created: list[str]
    similar: list[Similar]
    warnings: list[str]
    repeated: NotRequired[bool]
    dry_run: NotRequired[bool]


def put(session: Session, params: PutParams) -> PutResult:
    """Applies all changes as one commit, or none of them."""
    workspace = addressing.choose(session, params.workspace, _first_uris(params.changes), writing=True)

    def own(text: str, at: str) -> Uri:
        return addressing.resolve(session, workspace, text, at=at)

    def spell(text: str, at: str) -> Uri:
        return addressing.spell(session, workspace, text, at=at)

    changes = ChangeSet(
        edits(params.changes, spell, own, workspace.id),
        author=session.author(workspace),
        message=params.message,
        request_id=params.request_id,
    )
    outcome = workspace.submit(changes, dry_run=params.dry_run)
    answer: PutResult = {
        "workspace": workspace.id,
        "commit": outcome.commit,
        "nodes": [{"uri": uri, "version": version} for uri, version in outcome.nodes],
        "created": list(outcome.created),
        "similar": [{"uri": one.uri, "like": list(one.like)} for one in outcome.similar],
        "warnings": list(outcome.warnings),
    }
    if outcome.repeated:
        answer["repeated"] = True
    if params.dry_run:
        answer["dry_run"] = True
    return answer


def _first_uris(changes: list[Any]) -> list[str]:
    """What the changes are about, to find their workspace by; the target of a relation says nothing about that."""
    found = (getattr(change, "uri", None) or getattr(change, "source", None) for change in changes)
    return [text for text in found if isinstance(text, str)]


PUT = Tool(
    name="put",
    title="Write knowledge",
    description=(
        "Write to the graph: all changes become one commit, or none does. "
        "upsert (uri, or type and name; names what changes and leaves the rest; tags and relations add), append (uri, "
        "text), delete, relate and unrelate (source, target, type, weight: cost 0..1), untag, move (uri, to), revert "
        "(commit). Replacing content needs expect_version. Look with search first; a short summary and relations "
        "make a node findable."
    ),
    Params=PutParams,
    Result=PutResult,
    hints=Hints(destructive=True, idempotent=False),
    run=put,
)
