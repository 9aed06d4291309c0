"""The `comment` tool: remarks on a proposal that its proposer and its reviewers read."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from typing_extensions import TypedDict

from kgd.model.access import Verb
from kgd.tools import addressing
from kgd.tools.operation import Command, Hints, Operation, option
from kgd.tools.parameters import Params, refuse_unseen
from kgd.tools.proposals.outbound import decided_there
from kgd.tools.proposals.seen import CommentAnswer, discussion, is_own, named, overruled
from kgd.tools.session import Session
from kgd.workspace.proposals import comments, deciding
from kgd.workspace.proposals.comments import LONGEST


class CommentParams(Params):
    name: Annotated[str, Field(description="a proposal's id or name")]
    text: Annotated[str, Field(max_length=LONGEST, description="the comment, one paragraph")]
    workspace: str | None = None


class CommentResult(TypedDict):
    """`comments` are all comments on the proposal, oldest first."""

    workspace: str
    proposal: str
    comments: list[CommentAnswer]


def comment(session: Session, params: CommentParams) -> CommentResult:
    """Add a comment to a pending proposal; a comment on a hub's proposal is stored on the hub.

    Raises:
        Forbidden: The caller neither made the proposal nor may propose what it changes.
        KgdError: As `comments.add`.
    """
    refuse_unseen(params.text, "text", lines=True)
    if far := addressing.far(session, params.workspace):
        given = {"name": params.name, "text": params.text}
        return decided_there(session, far, "comment", given, CommentResult)  # type: ignore[no-any-return]
    workspace = addressing.choose(session, params.workspace, writing=True)
    found = named(session, workspace, params.name)
    permit = None if is_own(session.principal, found) else session.permit(workspace, Verb.PROPOSE)
    if permit:
        permit(deciding.touches(workspace, found), workspace.policy)
    with overruled(session, workspace, found):
        comments.add(workspace, found, session.author(workspace).name, params.text)
    return {"workspace": workspace.id, "proposal": found.id, "comments": discussion(comments.of(workspace, found))}


COMMENT = Operation(
    name="comment",
    title="Comment on a proposal",
    description="Adds a comment to an open proposal, for its author and its reviewers.",
    Params=CommentParams,
    Result=CommentResult,
    hints=Hints(),
    run=comment,
    scope=Verb.PROPOSE,
    commands=(
        Command(
            "Sharing",
            "comment on a proposal; `kgd proposals NAME` shows comments",
            (option("name", "a proposal", "PROPOSAL"), option("text", "the comment, in quotes", "TEXT")),
            place=55,
            print="printing_sharing.commented",
        ),
    ),
)
