"""The tools `proposals`, `comment`, `accept` and `reject`, for users at the command line and for agents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Annotated, Any, Literal, NotRequired, cast

from pydantic import Field
from typing_extensions import TypedDict

from kgd.errors import Advice, Do, Invalid, KgdError, NotFound
from kgd.model.access import Verb
from kgd.model.change import Author
from kgd.model.escaping import fenced, fenced_line, fenced_value
from kgd.model.uri import Uri
from kgd.tools import addressing, paging
from kgd.tools.differences import Foretold, NodeDiff, node_diff
from kgd.tools.file_paths import PathFilter, PathMatcher
from kgd.tools.hub_reads import forwarded
from kgd.tools.operation import BELOW, CURSOR, LIMIT, MESSAGE, SINCE, UNTIL, Command, Hints, Operation, Reflects, option
from kgd.tools.paging import HARD_LIMIT, LEAST, Room, clip, present, size_of
from kgd.tools.parameters import Many, Message, When, WorkspaceParams, future, period, refuse_unseen
from kgd.tools.proposals.outbound import take_off
from kgd.tools.proposals.seen import (
    LONGEST_LINE,
    SEE_DECIDED,
    CommentAnswer,
    ProposalAnswer,
    ShownDecided,
    below,
    decided_answer,
    decided_for,
    decided_lately,
    discussion,
    is_from,
    is_own,
    matching,
    named,
    overruled,
    proposal_answer,
    seen,
    unanswered,
)
from kgd.tools.recent_commits import correction
from kgd.tools.session import Session
from kgd.tools.write.put import Rehearsed, rehearsed
from kgd.workspace.answers import NodeChange, Outcome
from kgd.workspace.proposals import decided, deciding, proposals, records
from kgd.workspace.proposals.proposals import SEE_CHANGES, Chosen, Proposal
from kgd.workspace.proposals.records import LONGEST_COMMENT, LONGEST_REASON, MOST_COMMENTS
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.touched_nodes import Permit

SHOWN = 100
LISTED = 20
LONGEST_MESSAGE = 4_000
NEXT = Advice(
    Do("accept", name="ID"),
    " or ",
    Do("reject", name="ID"),
    " decides; ",
    Do("accept", name="ID", only="URI"),
    " accepts a part; ",
    Do("proposals", name="ID"),
    " shows one.",
)
ANSWER = Advice(Do("comment", name="ID", text="TEXT"), " answers.")


class ProposalsParams(WorkspaceParams):
    name: Annotated[str | None, Field(description="show only this one, with its changes")] = None
    uri: Annotated[str | None, Field(description="with `name`: only this node, with its full text")] = None
    by: Annotated[str | None, Field(description="agent, person, or part of a name")] = None
    path: PathFilter = Field(default_factory=list)
    since: When = None
    until: When = None
    unanswered: Annotated[bool, Field(description="only your own, with comments to answer")] = False
    decided: Annotated[bool, Field(description="decided proposals of the last 90 days, not open ones")] = False
    limit: Annotated[int, Field(ge=1, le=SHOWN)] = 50
    cursor: str | None = None


class ProposalsResult(TypedDict):
    workspace: str
    total: int
    proposals: list[ProposalAnswer]
    decided: NotRequired[list[ShownDecided]]
    decided_lately: NotRequired[int]
    """The number of the caller's own proposals that others decided in the last 14 days."""
    cursor: NotRequired[str]
    next: NotRequired[str]


def listed(session: Session, params: ProposalsParams) -> ProposalsResult:
    """List the open proposals that match the filters, oldest first, or show one with its diff; or list the decided
    ones. A workspace on a hub gets the hub's answer."""
    if far := addressing.far(session, params.workspace, reads=True):
        given = params.model_dump(mode="json", exclude_unset=True, exclude={"workspace"})
        answer: ProposalsResult = forwarded(session, far, "proposals", given, ProposalsResult)  # type: ignore[assignment]
        if "next" in answer:  # a hub's text names tools; on this machine, each surface names the operations itself
            is_empty = not (answer["proposals"] or answer.get("decided") or answer.get("decided_lately"))
            answer["next"] = (future(params.since) if is_empty else "") or _next(params, answer, far)
        return answer
    workspace = addressing.choose(session, params.workspace)
    if params.decided:
        return _decided(session, workspace, params)
    if params.name is not None:
        return _shown(session, workspace, params)
    found = matching(workspace, params.by, params.since, params.until)
    said = dict(unanswered(session, workspace, found)) if params.unanswered else dict.fromkeys(found, ())
    every = list(below(workspace, PathMatcher.of(session, workspace, params.path), seen(session, workspace, said)))
    question = [params.by, params.path, params.since, params.until, params.unanswered]
    at = paging.read("proposals", question, params.cursor) if params.cursor else []
    after = [at[0] is True, paging.index(at, 1), paging.text(at, 2)] if at else []
    left = [one for one in every if _place(one) > after]
    shown = [proposal_answer(workspace, one, proposals.look(workspace, one)) for one in left[: params.limit]]
    for one, told in zip(left, shown, strict=False):
        if said[one]:
            told["discussion"] = discussion(said[one])
    answer = {"workspace": workspace.id, "total": len(every), "proposals": shown}
    if not params.cursor and not params.unanswered:
        answer |= present(decided_lately=len(decided_lately(session, workspace)))
    if len(left) > params.limit:
        answer["cursor"] = paging.write("proposals", question, _place(left[params.limit - 1]))
    if shown:
        answer["next"] = _next(params, answer)
    elif not params.cursor:
        wrong = future(params.since) or _unknown(session, workspace, params)
        answer |= present(next=wrong or (_next(params, answer) if "decided_lately" in answer else ""))
    return answer


def _decided(session: Session, workspace: Workspace, params: ProposalsParams) -> ProposalsResult:
    """List the decided proposals, newest decision first; or only those of one name, with their comments."""
    begin, last = period(params.since, params.until)
    paths = PathMatcher.of(session, workspace, params.path)
    name, every = params.name or "", list[decided.Decided]()
    for one in decided_for(session, workspace, name):
        end = one.decision.at
        is_then = (begin is None or begin <= end) and (last is None or end <= last)
        if not is_then or not is_from(params.by, one.proposal):
            continue
        if not paths.globs or any(paths.concerns(uri, ()) for uri in deciding.nodes_of(workspace, one)):
            every.append(one)
    if name and not every:
        raise _not_decided(session, workspace, name)
    question = ["decided", name, params.by, params.path, params.since, params.until]
    at = paging.read("proposals", question, params.cursor) if params.cursor else []
    after = [-paging.index(at, 0), paging.text(at, 1)] if at else []
    left = [one for one in every if not after or [-one.decision.at, one.proposal.name] > after]
    shown = left[: params.limit]
    found = [cast(ShownDecided, decided_answer(workspace, one, MOST_COMMENTS if name else 0)) for one in shown]
    if name and found:
        changes = deciding.changes_of(workspace, shown[0])
        diffs = _diffs(changes, found)
        more = len(changes) - len(diffs)
        found[0] |= present(description=_description(workspace, shown[0].proposal), diff=diffs, more_diff=more)
    answer: ProposalsResult = {"workspace": workspace.id, "total": len(every), "proposals": [], "decided": found}
    if len(left) > params.limit:
        place = [shown[-1].decision.at, shown[-1].proposal.name]
        answer["cursor"] = paging.write("proposals", question, place)
    if found and not name:
        answer["next"] = _next(params, answer)
    elif not found and not params.cursor:
        answer |= present(next=future(params.since))
    return answer


def _description(workspace: Workspace, one: Proposal) -> str:
    """The message of a proposal after its first line; empty if it lists reasons instead."""
    commit = workspace.past.commit(bytes.fromhex(one.commit))
    body = "" if records.read(commit.message) else workspace.past.entry(commit, ()).body
    return str(clip(fenced(body), LONGEST_MESSAGE))


def _diffs(changes: Sequence[NodeChange], beside: Any, *, whole: bool = False) -> list[NodeDiff]:
    """The first changes as answers, as far as there is room beside the rest of the answer, but at least one."""
    room, diffs = Room(HARD_LIMIT), list[NodeDiff]()
    room.left = max(LEAST, room.left - size_of(beside))
    for change in changes:
        diff: NodeDiff = fenced_value(node_diff(change, whole=whole))
        if not room.take(diff) and diffs:
            break
        diffs.append(diff)
    return diffs


def _not_decided(session: Session, workspace: Workspace, name: str) -> NotFound:
    """The error that a proposal is still open, or unknown."""
    try:
        found = named(session, workspace, name)
    except NotFound:
        advice = Advice("List them with ", Do("proposals", decided="true"), ".")
        return NotFound("no proposal of that name was decided lately", at=name[:80], next=advice)
    return NotFound(
        "the proposal is still open", at=found.name, next=Advice("Show it with ", Do("proposals", name=found.name), ".")
    )


def _unknown(session: Session, workspace: Workspace, params: ProposalsParams) -> str:
    """Name the author or the path of the filter that is not known; empty for the holder of a token."""
    if session.principal is not None:
        return ""
    is_author_known = params.by is None or next(matching(workspace, params.by, None, None), None) is not None
    writers = () if is_author_known else [Author.of(one.author).name for one in matching(workspace, None, None, None)]
    return correction(session, workspace, None if is_author_known else params.by, params.path, writers)


def _next(params: ProposalsParams, answer: ProposalsResult, far: str = "") -> Advice:
    """The next step; `far` is the workspace of an answer from a hub, which a command has to name."""
    if params.decided:
        return SEE_DECIDED
    if params.unanswered and params.name is None:
        return ANSWER
    lately = answer.get("decided_lately", 0)
    if not lately:
        return NEXT
    count = "1 of your proposals was" if lately == 1 else f"{lately} of your proposals were"
    hint = (
        f"{count} decided lately: see ",
        Do("proposals", decided="true", **({"workspace": far} if far else {})),
        ".",
    )
    return Advice(*NEXT.parts, " ", *hint) if answer["proposals"] else Advice(*hint)


def _place(one: Proposal) -> list[Any]:
    """Sort key of a proposal in the list."""
    return [bool(one.remote), one.at, one.name]


def _shown(session: Session, workspace: Workspace, params: ProposalsParams) -> ProposalsResult:
    """Show one proposal with its diff, or with a page of the diff if it is long."""
    assert params.name is not None
    found = named(session, workspace, params.name)
    look = proposals.look(workspace, found)
    one = proposal_answer(workspace, found, look)
    answer: ProposalsResult = {"workspace": workspace.id, "total": 1, "proposals": [one], "next": NEXT}
    uri = addressing.resolve(session, workspace, params.uri) if params.uri else None
    changes = [change for change in look.changes if uri is None or change.uri == uri]
    if uri is not None and not changes:
        raise NotFound("the proposal does not change this node", at=uri, next=SEE_CHANGES)
    question = [found.id, uri]
    start = paging.index(paging.read("proposals", question, params.cursor), 0) if params.cursor else 0
    one |= present(discussion=discussion(records.comments_on(workspace, found)))
    commit = workspace.past.commit(bytes.fromhex(found.commit))
    if told := records.read(commit.message):
        one["reasons"] = [
            {"kind": one.kind, "nodes": list(one.nodes), "reason": fenced_line(one.reason, LONGEST_REASON)}
            for one in told
            if not {change.uri for change in look.changes}.isdisjoint(one.nodes)
        ]
    one |= present(description=_description(workspace, found))
    diffs = _diffs(changes[start:], one, whole=uri is not None)
    end = start + len(diffs)
    one["diff"] = diffs
    one |= present(more_diff=len(changes) - end)
    answer |= present(cursor=paging.write("proposals", question, [end]) if end < len(changes) else "")
    return answer


class AcceptParams(WorkspaceParams):
    name: Annotated[str, Field(description="a proposal's id or name")]
    only: Annotated[Many[str], Field(description="only these nodes")] = Field(default_factory=list)
    fields: Annotated[Many[str], Field(description="only these fields of nodes, each as `URI FIELD`")] = Field(
        default_factory=list
    )
    message: Message = ""
    dry_run: bool = False


class AcceptResult(Rehearsed):
    proposal: str
    left: int


def accept(session: Session, params: AcceptParams) -> AcceptResult:
    """Merge a proposal into the workspace, whole or in part; a hub's proposal is accepted on the hub."""
    workspace = addressing.choose(session, params.workspace, params.only, writing=True)
    only = _chosen(session, workspace, params.only, params.fields)
    return _accepted(session, workspace, params.name, only, params.message, dry_run=params.dry_run)


def _chosen(session: Session, workspace: Workspace, nodes: list[str], fields: list[str]) -> Chosen:
    """The part that `only` and `fields` name; a node that `only` names is chosen as a whole."""
    uris = frozenset(addressing.resolve(session, workspace, text, at=f"only[{n}]") for n, text in enumerate(nodes))
    by_node: dict[Uri, list[str]] = {}
    for n, text in enumerate(fields):
        node, _, name = text.strip().partition(" ")
        if not name:
            message = "a field is a node and a name, in quotes"
            raise Invalid(message, at=f"fields[{n}]", next="Example: 'concept://shop/auth summary'.")
        by_node.setdefault(addressing.resolve(session, workspace, node, at=f"fields[{n}]"), []).append(name.strip())
    return Chosen(uris, {uri: names for uri, names in by_node.items() if uri not in uris})


def _accepted(
    session: Session, workspace: Workspace, name: str, only: Chosen, message: str = "", *, dry_run: bool = False
) -> AcceptResult:
    found = named(session, workspace, name)
    permit = session.permit(workspace, Verb.WRITE)
    with overruled(session, workspace, found):
        outcome = deciding.accept(
            workspace,
            found,
            session.author(workspace),
            only=only.nodes,
            fields=only.fields,
            permit=permit,
            message=message,
            dry_run=dry_run,
        )
    outcome = session.seen(workspace, outcome)
    written = _written(workspace, outcome, dry_run=dry_run)
    answer = rehearsed(session, workspace, outcome, dry_run=dry_run)
    left = [one for one in proposals.listed(workspace) if one.ref == found.ref]
    count = len(proposals.look(workspace, left[0]).changes) if left else 0
    return cast(AcceptResult, {**answer, **written, "proposal": found.id, "left": count})


def _written(workspace: Workspace, outcome: Outcome, *, dry_run: bool) -> dict[str, Any]:
    """The accepted nodes with their versions; for a dry run, the predicted ones."""

    def versions(uris: Iterable[Uri], later: int = 0) -> list[dict[str, Any]]:
        return [{"uri": uri, "version": workspace.version(workspace.path(uri)) + later} for uri in uris]

    if not dry_run:
        return {"nodes": versions(uri for uri, _ in outcome.nodes if workspace.exists(uri))}
    would = {one.uri: one for one in outcome.would.nodes} if outcome.would else {}
    nodes = [would[uri] for uri, _ in outcome.nodes if uri in would]
    return {
        "nodes": versions((one.uri for one in nodes if one.after), 1),
        "created": [one.uri for one in nodes if one.before is None],
        "deleted": [one.uri for one in nodes if one.after is None],
    }


class RejectParams(WorkspaceParams):
    name: Annotated[str, Field(description="a proposal's id or name")]
    reason: Annotated[str, Field(max_length=300)] = ""


class RejectResult(TypedDict):
    workspace: str
    proposal: str
    kept: str
    still_there: NotRequired[str]
    """The reason why the remote still lists a proposal that is closed here."""


def reject(session: Session, params: RejectParams) -> RejectResult:
    """Archive a proposal with the reason; a hub or remote that has it removes it too."""
    refuse_unseen(params.reason, "reason")
    workspace = addressing.choose(session, params.workspace, writing=True)
    return _rejected(session, workspace, params.name, params.reason)


def _rejected(session: Session, workspace: Workspace, name: str, reason: str = "") -> RejectResult:
    found = named(session, workspace, name)
    # Its submitter may withdraw it, even without permission to write.
    withdrawn = is_own(session.principal, found)
    permit = None if withdrawn else session.permit(workspace, Verb.WRITE)
    by = session.author(workspace).name
    with overruled(session, workspace, found):
        kept = deciding.reject(workspace, found, by, reason, withdrawn=withdrawn, permit=permit)
    answer: RejectResult = {"workspace": workspace.id, "proposal": found.id, "kept": kept}
    why = take_off(session, workspace, found, reason) if found.remote else ""
    answer |= present(still_there=fenced_line(why, LONGEST_LINE))
    return answer


class Decided(TypedDict):
    """The decision about one proposal."""

    id: str
    take: Literal["accept", "reject"]
    commit: NotRequired[str | None]
    nodes: NotRequired[list[str]]
    warnings: NotRequired[list[str]]
    left: NotRequired[int]
    would: NotRequired[Foretold]


def is_proposal(session: Session, workspace: Workspace, id: str) -> bool:
    """Whether `id` names an open proposal or has the form of a proposal id."""
    if "://" in id:
        return False
    name = id.removeprefix("proposals/").partition("@")[0]
    return "@" in id or any(seen(session, workspace, (one for one in proposals.listed(workspace) if one.name == name)))


def decide(session: Session, workspace: Workspace, id: str, take: str | None, only: list[str] | None = None) -> Decided:
    """Accept or reject one proposal for `resolve_conflicts`.

    Raises:
        Invalid: `take` is neither accept nor reject.
        NotFound, Stale: No such proposal is open, or it has moved from the commit in the id.
        Forbidden: The caller may not write some of the nodes that it changes.
    """
    if take == "reject" and not only:
        return {"id": _rejected(session, workspace, id)["proposal"], "take": "reject"}
    if take != "accept":
        raise Invalid(
            "a proposal can only be accepted or rejected",
            at="take",
            next="Set `take` to accept or reject; `only` works only with accept.",
        )
    done = _accepted(session, workspace, id, _chosen(session, workspace, only or [], []))
    return {
        "id": done["proposal"],
        "take": "accept",
        "commit": done["commit"],
        "left": done["left"],
        "nodes": [one["uri"] for one in done["nodes"]],
        "warnings": done["warnings"],
    }


def waiting(session: Session, workspace: Workspace, name: str | None = None) -> list[ProposalAnswer]:
    """The proposals that this caller may decide, at most `LISTED`, or the named proposal with its diff."""
    found = proposals.listed(workspace) if name is None else (named(session, workspace, name),)
    permit = session.permit(workspace, Verb.WRITE)
    decidable = (one for one in seen(session, workspace, found) if _is_permitted(workspace, one, permit))
    if name is None:
        return [proposal_answer(workspace, one, proposals.look(workspace, one)) for one in islice(decidable, LISTED)]
    return _shown(session, workspace, ProposalsParams(name=name))["proposals"] if list(decidable) else []


def _is_permitted(workspace: Workspace, one: Proposal, permit: Permit | None) -> bool:
    """Whether the caller may accept the whole proposal."""
    try:
        if permit is not None:
            permit(deciding.touches(workspace, one), workspace.policy)
    except KgdError:
        return False
    return True


PROPOSALS = Operation(
    name="proposals",
    page="the page Proposals",
    title="Open proposals",
    description="Lists the open proposals, or shows one with its changes; with `decided`, lists the decided ones.",
    hints=Hints(read_only=True, idempotent=True),
    run=listed,
    scope=Verb.READ,
    reflects=Reflects.NOW,
    commands=(
        Command(
            "Sharing",
            "list the open or decided proposals, or show one with its changes",
            (
                option("name", "a proposal", "PROPOSAL", nargs="?"),
                option("--author --by", value="WHO", dest="by"),
                BELOW,
                SINCE,
                UNTIL,
                option("--unanswered"),
                option("--decided"),
                LIMIT,
                CURSOR,
            ),
            place=40,
            examples=(
                ("kgd proposals", "the open proposals, with their changes"),
                ("kgd proposals --decided", "the decided ones, with reasons"),
            ),
            print="printing_sharing.proposals",
        ),
    ),
)
ACCEPT = Operation(
    name="accept",
    title="Accept a proposal",
    description="Accepts a proposal, in whole or in part.",
    hints=Hints(destructive=True),
    run=accept,
    forwards=True,
    commits={"accept": "accepted"},
    scope=Verb.WRITE,
    commands=(
        Command(
            "Sharing",
            "accept a proposal into the workspace, in whole or in part",
            (
                option("name", "a proposal, as `kgd proposals` lists it", "PROPOSAL"),
                option("--only", "only this node; may be repeated", "URI"),
                option("--field", "only this field, as 'URI FIELD'; may be repeated", "'URI FIELD'", dest="fields"),
                MESSAGE,
            ),
            place=50,
            examples=(
                ("kgd accept Ann-Person-1", "write all of it"),
                ("kgd accept Ann-Person-1 --only services/auth", "only one node"),
            ),
            print="printing_sharing.accepted",
        ),
    ),
)
REJECT = Operation(
    name="reject",
    title="Reject a proposal",
    description="Closes a proposal and archives it with the reason.",
    hints=Hints(destructive=True),
    run=reject,
    forwards=True,
    scope=Verb.WRITE,
    commands=(
        Command(
            "Sharing",
            "reject a proposal; it is archived with the reason",
            (option("name", "a proposal", "PROPOSAL"), option("--reason", "the reason", "TEXT")),
            place=60,
            examples=(('kgd reject Ann-Person-1 --reason "We keep the old limit"', "its author reads the reason"),),
            print="printing_sharing.rejected",
        ),
    ),
)


class CommentParams(WorkspaceParams):
    name: Annotated[str, Field(description="a proposal's id or name")]
    text: Annotated[str, Field(max_length=LONGEST_COMMENT, description="the comment, one paragraph")]


class CommentResult(TypedDict):
    """`comments` are all comments on the proposal, oldest first."""

    workspace: str
    proposal: str
    comments: list[CommentAnswer]


def comment(session: Session, params: CommentParams) -> CommentResult:
    """Add a comment to an open proposal; a comment on a hub's proposal is stored on the hub.

    Raises:
        Forbidden: The caller neither made the proposal nor may propose what it changes.
        KgdError: As `records.add_comment`.
    """
    refuse_unseen(params.text, "text", lines=True)
    workspace = addressing.choose(session, params.workspace, writing=True)
    found = named(session, workspace, params.name)
    permit = None if is_own(session.principal, found) else session.permit(workspace, Verb.PROPOSE)
    if permit:
        permit(deciding.touches(workspace, found), workspace.policy)
    with overruled(session, workspace, found):
        records.add_comment(workspace, found, session.author(workspace).name, params.text)
    return {
        "workspace": workspace.id,
        "proposal": found.id,
        "comments": discussion(records.comments_on(workspace, found)),
    }


COMMENT = Operation(
    name="comment",
    title="Comment on a proposal",
    description="Adds a comment to an open proposal, for its author and its reviewers.",
    hints=Hints(),
    run=comment,
    forwards=True,
    scope=Verb.PROPOSE,
    commands=(
        Command(
            "Sharing",
            "comment on a proposal; `kgd proposals NAME` shows comments",
            (
                option("name", "a proposal", "PROPOSAL"),
                option("text", "the comment, in quotes; - reads standard input", "TEXT"),
            ),
            place=55,
            examples=(('kgd comment Ann-Person-1 "Which cluster?"', "ask before you decide"),),
            print="printing_sharing.commented",
        ),
    ),
)
