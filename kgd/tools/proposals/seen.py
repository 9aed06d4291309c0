"""Proposals as a caller sees them: found by name, shown as answers, and hidden with their nodes."""

from __future__ import annotations

import contextlib
import difflib
import time
from collections.abc import Iterable, Iterator
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from kgd.errors import Advice, Do, KgdError, NotFound
from kgd.model.access import Principal
from kgd.model.change import Author
from kgd.model.escaping import fenced_line
from kgd.model.uri import Uri
from kgd.tools import visibility
from kgd.tools.differences import NodeDiff
from kgd.tools.file_paths import PathMatcher
from kgd.tools.nodes import is_agent, is_by, moment
from kgd.tools.origins import Origin
from kgd.tools.paging import present
from kgd.tools.parameters import period
from kgd.tools.session import Session
from kgd.workspace.answers import NodeChange
from kgd.workspace.proposals import decided, deciding, proposals, records
from kgd.workspace.proposals.decided import Decided, Decision, decision
from kgd.workspace.proposals.proposals import Look, Marks, Proposal, marks
from kgd.workspace.proposals.records import Comment, shared
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.writer import Overruled

URIS_NAMED = 20
LATELY = 14
"""Days for which the list of open proposals points to the caller's decided ones."""
SEE_DECIDED = Advice("Read the decision and the comments with ", Do("proposals", name="NAME", decided="true"), ".")
LONGEST_LINE = 200


class BundleAnswer(TypedDict):
    """Nodes of a proposal that are accepted together or not at all, and the reason for the change."""

    kind: str
    nodes: list[str]
    reason: str


class CommentAnswer(TypedDict):
    """A remark of a reviewer, or the answer of the proposer; `at` is its time."""

    author: str
    at: str
    text: str


class ProposalAnswer(TypedDict):
    """`id` names the current commit; a decision about an older commit is refused. `age` is in seconds.

    `message` is the first line of the commit's message, `description` the rest, if one proposal is asked for by name.
    `author` is claimed by the commit; `pushed_by` is the holder and id of the token that pushed it to a hub. `state` is
    open, conflicts (acceptance leaves both versions), merged (nothing is left to accept) or broken. `comments` is
    their number; `discussion` lists them, oldest first, if one proposal is asked for by name, or those to answer if
    `unanswered` is asked for.
    """

    id: str
    author: str
    at: str
    age: int
    message: str
    description: NotRequired[str]
    base: str
    commit: str
    origin: Origin
    state: Literal["open", "conflicts", "merged", "broken"]
    nodes: list[str]
    more_nodes: NotRequired[int]
    remote: NotRequired[str]
    comments: NotRequired[int]
    discussion: NotRequired[list[CommentAnswer]]
    pushed_by: NotRequired[str]
    conflicts: NotRequired[list[str]]
    why: NotRequired[str]
    reasons: NotRequired[list[BundleAnswer]]
    diff: NotRequired[list[NodeDiff]]
    more_diff: NotRequired[int]


def proposal_answer(workspace: Workspace, one: Proposal, look: Look) -> ProposalAnswer:
    uris = [change.uri for change in look.changes]
    author = fenced_line(one.author, LONGEST_LINE)
    answer: ProposalAnswer = {
        "id": one.id,
        "author": author,
        "at": moment(one.at),
        "age": max(0, int(time.time()) - one.at),
        "message": fenced_line(one.subject, LONGEST_LINE),
        "base": look.base,
        "commit": one.commit,
        "state": look.state,
        "origin": {"workspace": workspace.id, "commit": one.commit, "author": author, "trust": "remote"},
        "nodes": list(uris[:URIS_NAMED]),
    }
    answer |= present(
        more_nodes=len(uris[URIS_NAMED:]),
        remote=one.remote,
        pushed_by=fenced_line(one.pusher, LONGEST_LINE),
        comments=len(records.comments_on(workspace, one)),
        conflicts=list(look.conflicts),
        why=look.why,
    )
    return answer


class DecidedAnswer(TypedDict):
    """A proposal that is no longer open: the decision, its author (absent if unknown), its time and its reason.

    `commit` is the commit of an acceptance; `partly accepted` means that the rest was rejected or withdrawn.
    `comments` is their number; `discussion` lists them if one proposal is asked for by name. `status` lists the newest.
    """

    id: str
    author: str
    at: str
    message: str
    decision: Literal["accepted", "partly accepted", "rejected", "withdrawn"]
    decided_at: str
    decided_by: NotRequired[str]
    reason: NotRequired[str]
    commit: NotRequired[str]
    nodes: list[str]
    more_nodes: NotRequired[int]
    pushed_by: NotRequired[str]
    comments: NotRequired[int]
    discussion: NotRequired[list[CommentAnswer]]


class ShownDecided(DecidedAnswer):
    """`description` is the message after its first line, `diff` the proposed changes, as far as there is room: only for
    the newest decision, if a proposal is asked for by name."""

    description: NotRequired[str]
    diff: NotRequired[list[NodeDiff]]
    more_diff: NotRequired[int]


def decided_answer(workspace: Workspace, one: Decided, comments: int = 0) -> DecidedAnswer:
    """The decided proposal as an answer, with the newest comments, at most this number."""
    proposal, made, uris = one.proposal, one.decision, sorted(deciding.nodes_of(workspace, one))
    every = records.comments_on(workspace, proposal)
    answer: DecidedAnswer = {
        "id": proposal.id,
        "author": fenced_line(proposal.author, LONGEST_LINE),
        "at": moment(proposal.at),
        "message": fenced_line(proposal.subject, LONGEST_LINE),
        "decision": made.how,
        "decided_at": moment(made.at),
        "nodes": list(uris[:URIS_NAMED]),
    }
    answer |= present(
        decided_by=fenced_line(made.by, LONGEST_LINE),
        reason=fenced_line(made.reason, records.LONGEST_REASON),
        commit=made.commit,
        more_nodes=len(uris[URIS_NAMED:]),
        pushed_by=fenced_line(proposal.pusher, LONGEST_LINE),
        comments=len(every),
        discussion=discussion(every[-comments:]) if comments else [],
    )
    return answer


def decided_for(session: Session, workspace: Workspace, name: str = "") -> Iterator[Decided]:
    """The decided proposals that this caller may see, all or those with this name or id, newest decision first. Hidden
    ones are dropped before anything is counted or cut."""
    sees, (called, _, commit) = session.sight(workspace.id), name.removeprefix("proposals/").partition("@")
    for one in decided.listed(workspace):
        if name and not (one.proposal.name == called and one.proposal.commit.startswith(commit)):
            continue
        uris = deciding.nodes_of(workspace, one) if sees else ()
        if sees is None or is_own(session.principal, one.proposal) or (uris and all(map(sees, uris))):
            yield one


def decided_lately(session: Session, workspace: Workspace) -> list[Decided]:
    """The caller's own proposals that others decided in the last `LATELY` days, newest decision first."""
    me, since = session.author(workspace).name, workspace.now() - LATELY * 86_400
    return [
        one
        for one in decided.listed(workspace)
        if one.decision.at >= since
        and one.decision.how != "withdrawn"
        and (session.principal is not None or one.decision.by != me)
        and is_mine(session, one.proposal, me)
    ]


def named(session: Session, workspace: Workspace, name: str) -> Proposal:
    """Like `proposals.named`, but limited to proposals that the caller may see.

    The error names the decision if the proposal is closed. For the user of this machine it suggests the closest name.
    """
    try:
        return proposals.named(workspace, name, lambda one: any(seen(session, workspace, (one,))))
    except NotFound as absent:
        is_kept = next(decided_for(session, workspace, name), None)
        if over := _sentence(is_kept.decision) if is_kept else _decided_before(session, workspace, name):
            raise NotFound(over, at=name[:80], next=SEE_DECIDED if is_kept else proposals.LIST_OPEN) from None
        names = [one.name for one in proposals.listed(workspace)] if session.principal is None else []
        if close := difflib.get_close_matches(name.partition("@")[0], names, 1):
            absent.next = f"Did you mean '{close[0]}'?"
        raise


@contextlib.contextmanager
def overruled(session: Session, workspace: Workspace, found: Proposal) -> Iterator[None]:
    """Turn the refusal of a decision into an error that reports the decision of the faster hub."""
    try:
        yield
    except Overruled:
        if hubs := shared(workspace):
            with contextlib.suppress(KgdError):
                workspace.catch_up()
                hubs.refresh()
        named(session, workspace, found.id)
        raise


def _decided_before(session: Session, workspace: Workspace, name: str) -> str:
    """A sentence with the decision about a proposal; empty if it is unknown or hidden from this caller."""
    found, sees = decision(workspace, name), session.sight(workspace.id)
    if found is None or (sees is not None and not (found.nodes and all(map(sees, found.nodes)))):
        return ""
    return _sentence(found)


def _sentence(found: Decision) -> str:
    commit = f", in commit {found.commit[:10]}" if found.commit else ""
    reason = f": {fenced_line(found.reason, LONGEST_LINE)}" if found.reason else ""
    done = {"withdrawn": "withdrew it", "partly accepted": "accepted a part of it"}.get(found.how, f"{found.how} it")
    by = f"{fenced_line(found.by, LONGEST_LINE)} {done}" if found.by else f"it was {found.how}"
    return f"the proposal is no longer open: {by} at {moment(found.at)}{commit}{reason}"


def seen(session: Session, workspace: Workspace, found: Iterable[Proposal]) -> Iterator[Proposal]:
    """The proposals that this caller may see. Hidden proposals are dropped before anything is counted or cut."""
    sees = session.sight(workspace.id)
    for one in found:
        if sees is None or is_own(session.principal, one) or _is_seen(workspace, one, sees):
            yield one


def is_from_agent(one: Proposal) -> bool:
    return is_agent(Author.of(one.author).client, one.email) or one.origin.pushed_by_agent


def is_from(by: str | None, one: Proposal) -> bool:
    """Whether a filter by author matches the proposal."""
    return is_by(by, one.author, f"<{one.email}>", one.pusher, agent=is_from_agent(one))


def matching(workspace: Workspace, by: str | None, since: str | None, until: str | None) -> Iterator[Proposal]:
    """The proposals of these authors and this period, oldest first.

    Raises:
        Invalid: `since` or `until` is not a date.
    """
    begin, last = period(since, until)
    for one in proposals.listed(workspace):
        is_then = (begin is None or begin <= one.at) and (last is None or one.at <= last)
        if is_then and is_from(by, one):
            yield one


def below(workspace: Workspace, paths: PathMatcher, found: Iterable[Proposal]) -> Iterator[Proposal]:
    """The proposals that change a node of these paths; all without paths. With paths, each costs a merge in memory."""
    for one in found:
        changes = proposals.look(workspace, one).changes if paths.globs else ()
        if not paths.globs or any(paths.concerns(change.uri, _targets(change)) for change in changes):
            yield one


def _targets(change: NodeChange) -> Iterator[Uri]:
    """The targets of a node's relations, before and after a change."""
    return (relation.target for node in (change.before, change.after) if node for relation in node.relations)


def _is_seen(workspace: Workspace, one: Proposal, sees: visibility.Sees) -> bool:
    """Whether every node that the proposal changes is readable. False for a merged or broken proposal, whose nodes are
    unknown."""
    try:
        touched = deciding.touches(workspace, one)
    except KgdError:
        return False
    return bool(touched.uris) and not touched.settings and all(map(sees, touched.uris))


def changing(session: Session, workspace: Workspace) -> Marks | None:
    """The open proposals by the nodes that they change; None for a restricted caller."""
    return marks(workspace) if session.sight(workspace.id) is None else None


def is_own(principal: Principal | None, one: Proposal) -> bool:
    return principal is not None and one.origin.is_of(principal)


def is_mine(session: Session, one: Proposal, me: str) -> bool:
    """Whether the caller, whose author's name is `me`, made the proposal."""
    is_of_person = session.principal is None and not one.origin.owner
    return is_own(session.principal, one) or (is_of_person and Author.of(one.author).name == me)


def unanswered(
    session: Session, workspace: Workspace, found: Iterable[Proposal]
) -> Iterator[tuple[Proposal, tuple[Comment, ...]]]:
    """The caller's own proposals with comments by others since the caller's last comment, each with these comments.

    Comments have only names. Without a token, proposals have as well, so a person and the agents on their machine are
    one author.
    """
    me = session.author(workspace).name
    for one in found:
        if is_mine(session, one, me) and (said := records.comments_after(workspace, one, me)):
            yield one, said


def discussion(said: Iterable[Comment]) -> list[CommentAnswer]:
    """Comments as answers, in the same order."""
    return [
        {
            "author": fenced_line(comment.by, LONGEST_LINE),
            "at": moment(comment.at),
            "text": fenced_line(comment.text, records.LONGEST_COMMENT),
        }
        for comment in said
    ]
