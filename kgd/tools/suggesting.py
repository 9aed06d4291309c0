"""This file is where use is noted for a caller, and where what it suggests is listed, accepted and dismissed (E19)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NotRequired

from typing_extensions import TypedDict

from kgd.errors import Invalid, NotFound
from kgd.model.change import ChangeSet, Edit, Relate
from kgd.model.fields import plain_weight
from kgd.model.node import Relation
from kgd.model.uri import Uri, workspace_of
from kgd.tools.differences import foretold
from kgd.tools.entities import offers
from kgd.tools.entities.offers import Offer
from kgd.tools.proposing import Decided
from kgd.workspace.usage import Usage

if TYPE_CHECKING:
    from kgd.model.usage import Suggestion
    from kgd.tools.session import Session
    from kgd.workspace.workspace import Workspace

ALL = "suggestions"
"""The word that asks for all of them where ids are given."""
LISTED = 50


class SuggestionAnswer(TypedDict):
    """A relation to make, a weight to change, a node to make, or two to make one, and what speaks for it.

    `now` is the present weight, where there is one. An `entity` is to be made at `source`, called `name`, and is named
    in `texts`; a `merge` has `source` stay and `target` go. `resolutions` take it over.
    """

    id: str
    kind: Literal["relate", "shorten", "lengthen", "entity", "merge"]
    source: str
    reason: str
    target: NotRequired[str]
    type: NotRequired[str]
    weight: NotRequired[float]
    now: NotRequired[float]
    name: NotRequired[str]
    texts: NotRequired[list[str]]


def note(session: Session, workspace: Workspace, answer: Any, read: Sequence[Uri], shown: Iterable[Any] = ()) -> None:
    """Count what a conversation of this machine asked for by name, and the relations it was shown for it."""
    if session.principal is None and (conversation := answer.get("context_id")):
        links = [(Uri(edge["source"]), Uri(edge["target"]), str(edge["type"])) for edge in shown]
        here = [workspace.graph.resolve(uri) for uri in read if workspace_of(uri) in (None, workspace.id)]
        Usage.of(workspace).note(conversation, here, links)


def is_suggestion(id: str) -> bool:
    return id == ALL or id.startswith("suggestion-")


def listed(session: Session, workspace: Workspace, ids: Iterable[str] = (ALL,)) -> list[SuggestionAnswer]:
    """Those of these ids, or all."""
    wanted = set(ids)
    found = [_answer(one) for one in _open(session, workspace)]
    found += [
        {"id": one.id, "kind": one.kind, "source": one.source, "reason": one.reason, **one.more}  # type: ignore[typeddict-item]
        for one in _offers(session, workspace)
    ]
    return [one for one in found if ALL in wanted or one["id"] in wanted][:LISTED]


def decide(session: Session, workspace: Workspace, id: str, take: str | None, *, dry_run: bool = False) -> Decided:
    """Make the relation or change the weight as a suggestion says, in one commit of the caller's; or dismiss it.

    Raises:
        Invalid: `take` is neither accept nor reject.
        NotFound: There is no such suggestion (any more).
    """
    every: list[Suggestion | Offer] = [*_open(session, workspace), *_offers(session, workspace)]
    found = next((one for one in every if one.id == id), None)
    if found is None:
        raise NotFound(
            "this is not suggested (any more)", at=id[:80],
            next='List what is: resolve_conflicts with ids ["suggestions"], or `kgd conflicts --suggestions`.',
        )  # fmt: skip
    if take not in ("accept", "reject"):
        raise Invalid("a suggestion is accepted or rejected", at="take", next="take: accept or reject.")
    answer: Decided = {"id": id, "take": "reject"}
    if take == "accept":
        edits, message = _carried_out(workspace, found)
        changes = ChangeSet(edits, session.author(workspace), message[:300], operation="suggestion")
        outcome = session.submit(workspace, changes, dry_run=dry_run)
        answer = {"id": id, "take": "accept", "commit": outcome.commit, "nodes": [uri for uri, _ in outcome.nodes],
                  "warnings": list(outcome.warnings)}  # fmt: skip
        if outcome.would:
            answer["would"] = foretold(outcome.would)  # for a person of this machine alone: others have no suggestions
    if not dry_run:
        Usage.of(workspace).decide(found.id, found.count)
    return answer


def _carried_out(workspace: Workspace, one: Suggestion | Offer) -> tuple[tuple[Edit, ...], str]:
    """The edits of a suggestion, and what the commit says."""
    if isinstance(one, Offer):
        what = f"{one.more['target']} becomes {one.source}" if one.kind == "merge" else f"new: {one.source}"
        return offers.edits(workspace, one), f"{what}: {one.reason}"
    edit = Relate(one.source, Relation(one.type, one.target, one.weight), frozenset({"weight"}))
    return (edit,), f"{one.source} {one.type} {one.target}: {one.reason}"


def _offers(session: Session, workspace: Workspace) -> list[Offer]:
    """Likewise none for the holder of a token: names in texts that they may not read are nobody else's business."""
    return offers.offered(workspace) if session.principal is None else []


def _open(session: Session, workspace: Workspace) -> list[Suggestion]:
    """None for the holder of a token: what people of this machine read is nobody else's business."""
    return Usage.of(workspace).suggestions() if session.principal is None else []


def _answer(one: Suggestion) -> SuggestionAnswer:
    answer: SuggestionAnswer = {
        "id": one.id, "kind": one.kind, "source": one.source, "target": one.target, "type": one.type,
        "weight": plain_weight(one.weight), "reason": one.reason,
    }  # fmt: skip
    if one.now is not None:
        answer["now"] = plain_weight(one.now)
    return answer
