"""The tools `resolve` and `resolve_conflicts`: settlement of open conflicts by users and agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, cast

from pydantic import Field, StringConstraints
from typing_extensions import TypedDict

from kgd.codec.paths import conflict_path
from kgd.errors import Advice, Do, Invalid, KgdError, NotFound
from kgd.model.access import Verb
from kgd.model.change import ChangeSet, Settle
from kgd.model.conflict import Conflict
from kgd.model.escaping import fenced_line
from kgd.model.uri import Uri, parse_subject
from kgd.tools import addressing, nodes
from kgd.tools.conflicts import check_subject, is_digest, settled_before, settled_in, subject_of, with_authors
from kgd.tools.model_decisions import Resolved, Via, askable, consult, settle, with_moves
from kgd.tools.nodes import DisputedAnswer
from kgd.tools.operation import MESSAGE, USUAL, Command, Hints, Operation, option
from kgd.tools.paging import HARD_LIMIT, Room, clip, present, size_of
from kgd.tools.parameters import JsonObject, Many, Message, Params, WorkspaceParams
from kgd.tools.proposals.proposals import Decided, decide, is_proposal
from kgd.tools.proposals.proposals import waiting as proposals
from kgd.tools.proposals.seen import ProposalAnswer
from kgd.tools.session import Session
from kgd.tools.suggestions import suggestions
from kgd.tools.suggestions.suggestions import SuggestionAnswer
from kgd.tools.write.put import Rehearsed, answer_of, rehearsed
from kgd.workspace.answers import OpenConflict, Outcome
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.edits import LIST_CONFLICTS

SIDES = "abcdefghijklmnopqrstuvwxyz"
COMMITS = {"resolve": "resolved", "suggestion": "accepted a suggestion for"}
IDS_NAMED = 8
LONGEST_VALUE = 300
"""Number of characters of a value in the answer of `resolve`."""
LISTED = 20
"""Largest number of conflicts to handle if the call names none."""


class Resolution(Params):
    id: str
    take: Annotated[
        Annotated[str, StringConstraints(to_lower=True, strip_whitespace=True)] | None,
        Field(description="a side's letter, base, accept or reject"),
    ] = None
    fields: JsonObject | None = None


class ResolveParams(WorkspaceParams):
    resolutions: Annotated[Many[Resolution], Field(min_length=1, max_length=200)]
    message: Message = ""
    dry_run: bool = False


class Settled(TypedDict):
    """A conflict that is resolved, or would be by a dry run, with the value of each of its fields; only of nodes that
    the caller may read."""

    id: str
    uri: str
    fields: dict[str, Any]


class ResolveResult(Rehearsed):
    settled: NotRequired[list[Settled]]


def resolve(session: Session, params: ResolveParams) -> ResolveResult:
    """Settle conflicts in one commit, each by a side or by a value for each field.

    A call that names a suggestion can decide only suggestions.
    """
    workspace = addressing.choose(session, params.workspace, [one.id for one in params.resolutions], writing=True)
    if any(suggestions.is_suggestion(one.id) for one in params.resolutions):
        return _take_over(session, workspace, params)
    chosen, _ = _chosen(session, workspace, dict(enumerate(params.resolutions)), repeats=False)
    edits, (changed, moved) = [edit for _, edit in chosen], with_moves(session, workspace, chosen)
    changes = ChangeSet(changed, session.author(workspace), params.message, operation="resolve")
    outcome = session.submit(workspace, changes, dry_run=params.dry_run, verb=Verb.RESOLVE)
    settled = {one.conflict for one in edits}
    answer = cast(ResolveResult, rehearsed(session, workspace, outcome, dry_run=params.dry_run, settled=settled))
    answer["warnings"] += moved
    if not outcome.repeated:
        reads = session.settles(workspace)
        answer["settled"] = [
            {"id": edit.conflict, "uri": uri, "fields": clip(dict(edit.fields), LONGEST_VALUE)}
            for edit in edits
            if (uri := _uri_of(edit)) and (reads is None or reads(uri))
        ]
    return answer


def _take_over(session: Session, workspace: Workspace, params: ResolveParams) -> ResolveResult:
    """Accept or dismiss suggestions. Each accepted suggestion is a separate commit."""
    commit, nodes, warnings, would = None, [], [], None
    for one in params.resolutions:
        done = suggestions.decide(session, workspace, one.id, one.take, dry_run=params.dry_run)
        commit = done.get("commit") or commit
        nodes += [Uri(uri) for uri in done.get("nodes", ())]
        warnings += done.get("warnings", [])
        would = done.get("would") or would
        if done["take"] == "reject":
            said = "would be dismissed" if params.dry_run else "is dismissed"
            warnings.append(f"{one.id} {said}; it returns when its evidence has doubled")
    outcome = Outcome(
        commit, tuple((uri, workspace.version(workspace.path(uri))) for uri in nodes), warnings=tuple(warnings)
    )
    answer = cast(ResolveResult, answer_of(workspace, outcome, dry_run=params.dry_run))
    answer |= present(would=would)
    return answer


def _named(session: Session, workspace: Workspace, id: str, at: str) -> OpenConflict:
    """Find a conflict by id, by digest alone, or by its node in any spelling, if the node has only one conflict."""
    node, _, digest = id.rpartition("#")
    exact = bool(node) and is_digest(digest)
    if exact:
        uri = parse_subject(node)
        session.allow(workspace, Verb.RESOLVE, [uri])
        # The full id suffices without read permission: the caller may settle a conflict whose content it cannot see.
        chosen = list(workspace.conflicts.find(uri, digest=digest, about=session.settles(workspace, reads=False)))
    else:  # a digest alone can match any record
        chosen = _settleable(session, workspace, digest=id) if is_digest(id) else []
    if not chosen and not exact:
        uri = subject_of(session, workspace, id, at=at)
        session.allow(workspace, Verb.RESOLVE, [uri])
        settles = session.settles(workspace)
        chosen = list(
            workspace.conflicts.find(uri, about=settles)
            or workspace.conflicts.find(workspace.graph.resolve(uri), about=settles)
        )
        if not chosen:
            if is_digest(id):
                raise NotFound("this conflict is not open", at=at, next=LIST_CONFLICTS)
            check_subject(workspace, uri, session.sight(workspace.id))
            raise NotFound("this node has no open conflict", at=uri, next=LIST_CONFLICTS)
    if len(chosen) == 1:
        return chosen[0]
    if chosen:
        ids = ", ".join(one.conflict.digest for one in chosen[:IDS_NAMED])
        raise Invalid(f"this node has {len(chosen)} open conflicts", at=at, next=f"Name one by its id: {ids}.")
    raise NotFound("this conflict is not open", at=at, next=LIST_CONFLICTS)


def _settled_already(session: Session, workspace: Workspace, id: str, at: str) -> NotFound | None:
    """The error that reports who settled the conflict; None if unknown.

    Looks up the whole id, or the last settled conflict of a node.
    """
    entry = settled_in(workspace, id)
    if entry is None:
        try:
            uri = addressing.resolve(session, workspace, id)
            session.allow(workspace, Verb.RESOLVE, [uri])
        except KgdError:
            return None
        folder = conflict_path(uri, "", workspace.sharded).rpartition("/")[0]
        entry = workspace.past.removal_below(folder, bytes.fromhex(workspace.tip))
    if entry is None:
        return None
    commit, when = entry.commit[:10], nodes.moment(entry.at)
    return NotFound(
        f"this conflict is no longer open: {entry.author} resolved it at {when}, in commit {commit}",
        at=at,
        next=Advice(
            Do("history", commit=commit, diff="true"),
            " shows that commit; ",
            Do("revert", commit=commit),
            " reverts it.",
        ),
    )


def _settleable(session: Session, workspace: Workspace, *, digest: str = "") -> list[OpenConflict]:
    """The first open conflicts that the caller may see and settle."""
    return list(workspace.conflicts.find(limit=LISTED, digest=digest, about=session.settles(workspace)))


def _decided(found: OpenConflict, resolution: Resolution, at: str) -> Mapping[str, Any]:
    if (resolution.take is None) == (resolution.fields is None) or resolution.fields == {}:
        raise Invalid(
            "give either `take` or `fields`",
            at=at,
            next=f"{_possible(found)[:-1]}, or give `fields` with values.",
        )
    fields = found.conflict.fields
    if resolution.fields is not None:
        return resolution.fields
    if resolution.take in ("accept", "reject"):
        raise Invalid(
            f"{resolution.take} is for proposals and suggestions; this is a conflict",
            at=f"{at}.take",
            next=Advice(f"{_possible(found)} ", Do("conflicts"), " shows them."),
        )
    if resolution.take == "base":
        return {name: field.base for name, field in fields.items()}
    side = SIDES.find(letter) if len(letter := resolution.take or "") == 1 else -1
    missing = [name for name, field in fields.items() if not 0 <= side < len(field.sides)]
    if missing:
        raise Invalid(
            f"'{missing[0][:60]}' has no side {fenced_line(letter, 20) or repr(letter)}",
            at=f"{at}.take",
            next=Advice(f"{_possible(found)} ", Do("conflicts"), " shows them."),
        )
    return {name: field.sides[side] for name, field in fields.items()}


def _possible(found: OpenConflict) -> str:
    """The sides that all fields of a conflict have: ``Take a, b or base.``"""
    count = min((len(field.sides) for field in found.conflict.fields.values()), default=0)
    return f"Take {', '.join(SIDES[:count])} or base."


class Choice(Resolution):
    only: Many[str] = Field(default_factory=list)


class ResolveConflictsParams(WorkspaceParams):
    ids: Annotated[Many[str], Field(max_length=200, description="default: all open ones")] = Field(default_factory=list)
    resolutions: Annotated[Many[Choice], Field(max_length=200)] = Field(default_factory=list)
    via: Via = "auto"


class Remaining(DisputedAnswer):
    """An undecided conflict with both sides, and the reason why it is undecided."""

    why: str


class ResolveConflictsResult(TypedDict):
    """`open` is the number of open conflicts, `more` the number of conflicts that did not fit the answer."""

    workspace: str
    resolved: list[Resolved]
    remaining: list[Remaining]
    open: int
    next: str
    more: NotRequired[int]
    commit: NotRequired[str | None]
    decided: NotRequired[list[Decided]]
    proposals: NotRequired[list[ProposalAnswer]]
    suggestions: NotRequired[list[SuggestionAnswer]]


def resolve_conflicts(session: Session, params: ResolveConflictsParams) -> ResolveConflictsResult:
    """Settle conflicts by the caller's decisions, then by models, and return the remaining conflicts for the caller to
    decide.

    All questions are asked before anything is written.
    """
    texts = [*params.ids, *(one.id for one in params.resolutions)]
    workspace = addressing.choose(session, params.workspace, texts, writing=True)
    about = [one for one in params.resolutions if is_proposal(session, workspace, one.id)]
    use = [one for one in params.resolutions if suggestions.is_suggestion(one.id)]
    others = {n: one for n, one in enumerate(params.resolutions) if one not in about and one not in use}
    if partial := [n for n, one in others.items() if one.only]:
        at = f"resolutions[{partial[0]}]"
        raise Invalid("`only` is for proposals", at=at, next="Take a side or base, or give fields.")
    chosen, resolved = _chosen(session, workspace, others, repeats=True)
    edits = [edit for _, edit in chosen]
    given = {edit.conflict for edit in edits}
    open_now, before = _asked_for(session, workspace, params)
    fresh, stale = askable(workspace, [one for one in open_now if one.id not in given])
    consulted = consult(session, fresh, params.via)
    answer: ResolveConflictsResult = {
        "workspace": workspace.id,
        "resolved": [*resolved, *before],
        "remaining": [],
        "open": 0,
        "next": "",
    }
    if edits:
        changed, _ = with_moves(session, workspace, chosen)
        changes = ChangeSet(changed, session.author(workspace), operation="resolve")
        answer["commit"] = session.submit(workspace, changes, verb=Verb.RESOLVE).commit
        answer["resolved"] += [_resolved(session, workspace, edit) for edit in edits]
    answer["resolved"] += settle(session, workspace, consulted)
    if about or use:
        answer["decided"] = [decide(session, workspace, one.id, one.take, one.only) for one in about]
        answer["decided"] += [suggestions.decide(session, workspace, one.id, one.take) for one in use]
    if asked := [id for id in params.ids if suggestions.is_suggestion(id)]:
        answer["suggestions"] = suggestions.listed(session, workspace, asked)
    if (waiting := _waiting(session, workspace, params)) is not None:
        answer["proposals"] = waiting
    _add_remaining(workspace, answer, open_now, {**stale, **consulted.left})
    answer["open"] = workspace.conflicts.count(about=session.settles(workspace))
    answer["next"] = _next_step(answer)
    return answer


def _chosen(
    session: Session, workspace: Workspace, choices: Mapping[int, Resolution], *, repeats: bool
) -> tuple[list[tuple[Conflict, Settle]], list[Resolved]]:
    """The caller's decisions with their conflicts and, if a repeated call succeeds, the conflicts settled earlier.

    Args:
        choices: The decisions by their index in the call.

    Raises:
        NotFound: A conflict is not open; the error reports who settled it.
    """
    chosen, before = [], []
    for index, choice in choices.items():
        at = f"resolutions[{index}]"
        try:
            found = _named(session, workspace, choice.id, at)
        except NotFound as gone:
            if not repeats or (settled := settled_before(workspace, choice.id)) is None:
                raise _settled_already(session, workspace, choice.id, at) or gone from None
            before.append(settled)
            continue
        chosen.append((found.conflict, Settle(found.id, _decided(found, choice, at))))
    return chosen, before


def _resolved(session: Session, workspace: Workspace, edit: Settle) -> Resolved:
    """A conflict settled by the caller, with the values if the caller may read them."""
    uri, reads = _uri_of(edit), session.settles(workspace)
    found: Resolved = {"id": edit.conflict, "uri": uri, "by": "agent"}
    return {**found, "fields": dict(edit.fields)} if reads is None or reads(uri) else found


def _uri_of(edit: Settle) -> Uri:
    return Uri(edit.conflict.rpartition("#")[0])


def _asked_for(
    session: Session, workspace: Workspace, params: ResolveConflictsParams
) -> tuple[list[OpenConflict], list[Resolved]]:
    """The conflicts to settle besides the caller's decisions, and the named conflicts that were settled earlier."""
    if not params.ids:
        return ([] if params.resolutions else _settleable(session, workspace)), []
    found: dict[str, OpenConflict] = {}
    before = []
    for index, id in enumerate(params.ids):
        if is_proposal(session, workspace, id) or suggestions.is_suggestion(id):
            continue
        try:
            one = _named(session, workspace, id, f"ids[{index}]")
        except NotFound:
            if (settled := settled_before(workspace, id)) is None:
                raise
            before.append(settled)
        else:
            found[one.id] = one
    return list(found.values()), before


def _waiting(session: Session, workspace: Workspace, params: ResolveConflictsParams) -> list[ProposalAnswer] | None:
    """The proposals that `ids` names; if the call names nothing, every proposal that this caller may decide."""
    names = [id for id in params.ids if is_proposal(session, workspace, id)]
    if names:
        return [one for name in names for one in proposals(session, workspace, name)]
    return proposals(session, workspace) or None if not params.ids and not params.resolutions else None


def _add_remaining(
    workspace: Workspace, answer: ResolveConflictsResult, found: list[OpenConflict], why: Mapping[str, str]
) -> None:
    room, left = Room(HARD_LIMIT), [one for one in found if one.id in why]
    for number, (one, fields) in enumerate(zip(left, with_authors(workspace, left), strict=True)):
        item: Remaining = {"id": one.id, "uri": one.uri, "why": why[one.id], "fields": fields}
        for limit in (8_000, 2_000, 500):
            if size_of(item) <= HARD_LIMIT // 2:
                break
            item = {**clip(item, limit), "id": one.id, "uri": one.uri}  # type: ignore[typeddict-item]
        if not room.take(item, first=True):
            answer["more"] = len(left) - number
            break
        answer["remaining"].append(item)


def _next_step(answer: ResolveConflictsResult) -> str:
    if answer.get("suggestions") and not answer["remaining"]:
        return "Accept the useful ones: call with resolutions: [{id, take: accept|reject}]."
    if answer.get("proposals") and not answer["remaining"]:
        return "Proposals wait: call with resolutions: [{id, take: accept|reject}], with only: [URIs] for a part."
    if answer["remaining"]:
        return (
            "Read the sides of each, then call again with resolutions: [{id, take: a|b|base}] or "
            '[{id, fields: {<field>: <value>}}]. If your host refuses sampling, call with via="agent".'
        )
    return f"{answer['open']} more are open: call again." if answer["open"] else "There are no open conflicts."


RESOLVE = Operation(
    name="resolve",
    title="Resolve conflicts",
    description="Takes a side, or sets a value for each field.",
    hints=Hints(destructive=True),
    run=resolve,
    commits=COMMITS,
    scope=Verb.RESOLVE,
    commands=(
        Command(
            "Care",
            "resolve conflicts: take a side, or set a value for each field",
            (
                option(
                    "ids",
                    "the node, if it has one open conflict, or the conflict's or suggestion's id",
                    "ID",
                    nargs="+",
                ),
                option(
                    "--take",
                    "the letter of a side, as `kgd conflicts` shows it, or base; for a suggestion accept or reject",
                    "SIDE",
                ),
                option("--fields", "JSON object: a value for each field", "JSON"),
                MESSAGE,
            ),
            place=110,
            examples=(
                ("kgd resolve services/auth --take a", "keep side a"),
                ('kgd resolve services/auth --fields \'{"summary": "Checks tokens"}\'', "write a value of your own"),
            ),
            print="printing_sharing.resolve",
            also="resolve_conflicts",
        ),
    ),
)
RESOLVE_CONFLICTS = Operation(
    name="resolve_conflicts",
    page="the page Conflicts",
    title="Resolve conflicts",
    description=(
        "Resolve conflicting edits. Without resolutions your host's model decides if it may; open conflicts return "
        "with both sides. Decide yourself with {id, take} or {id, fields: {field: value}}. For proposals, and the "
        "suggestions that ids [suggestions] lists: take accept or reject; only: some URIs."
    ),
    hints=Hints(destructive=True, idempotent=True),
    run=resolve_conflicts,
    commits=COMMITS,
    offered=USUAL,
    place=130,
    scope=Verb.RESOLVE,
)
