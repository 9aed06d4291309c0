"""Suggestions from usage (E19): counts of reads, and suggestions to list, accept or dismiss."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NotRequired

from typing_extensions import TypedDict

from kgd.errors import Advice, Do, Invalid, NotFound
from kgd.model.change import ChangeSet, Edit, Relate
from kgd.model.fields import plain_weight
from kgd.model.node import Relation
from kgd.model.uri import Uri, workspace_of
from kgd.tools.differences import foretold
from kgd.tools.proposals.proposals import Decided
from kgd.tools.suggestions import mentions
from kgd.tools.suggestions.mentions import Offer
from kgd.workspace.usage import Usage

if TYPE_CHECKING:
    from kgd.model.usage import Suggestion
    from kgd.tools.session import Session
    from kgd.workspace.workspace import Workspace

ALL = "suggestions"
"""Stands for all suggestions in a list of ids."""
LISTED = 50


class SuggestionAnswer(TypedDict):
    """A suggested relation, weight, entity or merge, with its reason. `resolutions` accept it.

    `now` is the present weight, if any. An `entity` would be created at `source` with that `name`, which `texts`
    mention. A `merge` keeps `source` and removes `target`.
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
    """Count the nodes that a local conversation read by name, and the relations that it was shown with them."""
    if session.principal is None and (conversation := answer.get("context_id")):
        links = [(Uri(edge["source"]), Uri(edge["target"]), str(edge["type"])) for edge in shown]
        here = [workspace.graph.resolve(uri) for uri in read if workspace_of(uri) in (None, workspace.id)]
        Usage.of(workspace).note(conversation, here, links)


def is_suggestion(id: str) -> bool:
    return id == ALL or id.startswith("suggestion-")


def listed(session: Session, workspace: Workspace, ids: Iterable[str] = (ALL,)) -> list[SuggestionAnswer]:
    """The open suggestions with these ids, or all; at most `LISTED`."""
    wanted = set(ids)
    found = [_answer(one) for one in _open(session, workspace)]
    found += [
        {"id": one.id, "kind": one.kind, "source": one.source, "reason": one.reason, **one.more}  # type: ignore[typeddict-item]
        for one in _offers(session, workspace)
    ]
    return [one for one in found if ALL in wanted or one["id"] in wanted][:LISTED]


def decide(session: Session, workspace: Workspace, id: str, take: str | None, *, dry_run: bool = False) -> Decided:
    """Carry out a suggestion in one commit by the caller, or dismiss it.

    Raises:
        Invalid: `take` is neither accept nor reject.
        NotFound: No such suggestion is open.
    """
    every: list[Suggestion | Offer] = [*_open(session, workspace), *_offers(session, workspace)]
    found = next((one for one in every if one.id == id), None)
    if found is None:
        raise NotFound(
            "this suggestion is not open (any more)",
            at=id[:80],
            next=Advice("List them with ", Do("conflicts", suggestions="true"), '; over MCP pass ids ["suggestions"].'),
        )
    if take not in ("accept", "reject"):
        raise Invalid("a suggestion is accepted or rejected", at="take", next="take: accept or reject.")
    answer: Decided = {"id": id, "take": "reject"}
    if take == "accept":
        edits, message = _carried_out(workspace, found)
        changes = ChangeSet(edits, session.author(workspace), message[:300], operation="suggestion")
        outcome = session.submit(workspace, changes, dry_run=dry_run)
        answer = {
            "id": id,
            "take": "accept",
            "commit": outcome.commit,
            "nodes": [uri for uri, _ in outcome.nodes],
            "warnings": list(outcome.warnings),
        }
        if outcome.would:
            answer["would"] = foretold(outcome.would)  # unfiltered: only users of this machine have suggestions
    if not dry_run:
        Usage.of(workspace).decide(found.id, found.count)
    return answer


def _carried_out(workspace: Workspace, one: Suggestion | Offer) -> tuple[tuple[Edit, ...], str]:
    """The edits of a suggestion, and the commit message."""
    if isinstance(one, Offer):
        what = f"{one.more['target']} becomes {one.source}" if one.kind == "merge" else f"new: {one.source}"
        return mentions.edits(workspace, one), f"{what}: {one.reason}"
    edit = Relate(one.source, Relation(one.type, one.target, one.weight), frozenset({"weight"}))
    return (edit,), f"{one.source} {one.type} {one.target}: {one.reason}"


def _offers(session: Session, workspace: Workspace) -> list[Offer]:
    """The open offers. Token holders get none: the names come from texts that they may be unable to read."""
    return mentions.offered(workspace) if session.principal is None else []


def _open(session: Session, workspace: Workspace) -> list[Suggestion]:
    """The open suggestions. Token holders get none: the reads of this machine's users are private."""
    return Usage.of(workspace).suggestions() if session.principal is None else []


def _answer(one: Suggestion) -> SuggestionAnswer:
    answer: SuggestionAnswer = {
        "id": one.id,
        "kind": one.kind,
        "source": one.source,
        "target": one.target,
        "type": one.type,
        "weight": plain_weight(one.weight),
        "reason": one.reason,
    }
    if one.now is not None:
        answer["now"] = plain_weight(one.now)
    return answer
