"""The `submit_subgraph` tool: an atomic set of changes, or a piece of the user's graph, for another workspace; and its
dry run.

A submission to this machine is merged if the caller may write. It becomes a proposal if the caller may only propose, or
if the same fields changed since the caller's base. A submission to a hub is one call. A plain git server gets a commit
on ``proposals/<name>``.

A dry run asks a hub with calls that every hub supports: the token's holder, and a `put` with `dry_run`. Rules that only
the hub knows take effect at the real submission.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from kgd.errors import Advice, Do, Forbidden, Invalid, KgdError, NotFound, Unauthorized
from kgd.model.access import Policy, Principal, Verb, may, principal_from
from kgd.model.change import ChangeSet
from kgd.model.uri import OWNED, Uri, build, from_path, scheme_of_type
from kgd.tools import addressing
from kgd.tools.areas import ids
from kgd.tools.operation import USUAL, WRITE, Command, Hints, Operation, option
from kgd.tools.paging import present
from kgd.tools.proposals import outbound, own_nodes
from kgd.tools.proposals.outbound import Became, SubmitParams, SubmitResult, Target, subject
from kgd.tools.proposals.own_nodes import Piece
from kgd.tools.proposals.seen import decided_lately, unanswered
from kgd.tools.session import Session
from kgd.tools.write.changes import edits, naming_similar
from kgd.tools.write.put import answer_of
from kgd.workspace.proposals import deciding, proposals
from kgd.workspace.proposals.deciding import Submission, Submitter, expecting
from kgd.workspace.workspace import Workspace


def submit(session: Session, params: SubmitParams) -> SubmitResult:
    """Submit changes. All are merged, or all wait in a proposal, or nothing happens."""
    target = target_of(session, params)
    if params.changes:
        return outbound.send(session, target, params, given(params)) if target is not None else _here(session, params)
    own, piece = outbound.piece_of(session, target, params)
    if not piece.changes:
        done = _nothing_new(target.id if target is not None else piece.into)
    elif target is not None:
        done = outbound.send(session, target, with_changes(params, piece), piece.changes, base=piece.base)
    else:
        done = _here(session, with_changes(params, piece))
    own_nodes.note(own, piece)
    return done


def given(params: SubmitParams) -> list[dict[str, Any]]:
    """The given changes as plain data."""
    return [one.model_dump(mode="json", exclude_unset=True) for one in params.changes or ()]


def with_changes(params: SubmitParams, piece: Piece) -> SubmitParams:
    """The same submission with changes instead of roots."""
    known = params.model_dump(exclude={"changes", "roots", "max_cost"}, exclude_unset=True)
    remote = params.remote or piece.into
    return SubmitParams.model_validate({**known, "remote": remote, "changes": piece.changes, "base": piece.base})


def _nothing_new(workspace: str) -> SubmitResult:
    return {
        "workspace": workspace,
        "outcome": "unchanged",
        "commit": None,
        "changes": [],
        "look": "Nothing has changed since your last submission.",
    }


def target_of(session: Session, params: SubmitParams) -> outbound.Target | None:
    """The target of a submission; None for a workspace that is open here.

    Raises:
        Invalid: The target is missing, both changes and roots are given, or the message has control characters.
        Forbidden: The holder of a token asks this hub to submit elsewhere.
        NotFound, Unavailable: As `outbound.find`.
    """
    if bool(params.changes) and bool(params.roots):
        raise Invalid("give either changes or roots", at="changes", next="Roots are nodes of your own workspace.")
    if params.remote and session.principal is not None:
        raise Forbidden("a hub does not submit to others for token holders", at="remote", next="Leave out `remote`.")
    remote = params.remote or _inferred(session, params)
    if not params.changes and not remote:
        raise Invalid(
            "the target workspace is missing",
            at="remote",
            next=Advice(
                "Name it: ",
                Do("submit_subgraph", remote="WORKSPACE", roots="URI"),
                ", or without roots to submit later changes.",
            ),
        )
    return outbound.find(session, remote, params.workspace) if remote else None


def _inferred(session: Session, params: SubmitParams) -> str | None:
    """The workspace on a hub or in a clone that the URIs of the changes name; None for a workspace of this machine.

    Without changes and roots: the only workspace that received submissions before.
    """
    if session.principal is not None or params.roots:
        return None
    if not params.changes:
        return own_nodes.only_receiver(addressing.choose(session, params.workspace))
    texts = _named(params)
    return addressing.far(session, params.workspace, texts) or addressing.cloned(session, params.workspace, texts)


def workspace_of(session: Session, params: SubmitParams) -> Workspace:
    """The workspace here that the submission is for."""
    return addressing.choose(session, params.remote or params.workspace, _named(params), writing=True)


def _named(params: SubmitParams) -> list[str]:
    """The nodes that the changes name, as written."""
    texts = [getattr(one, "uri", None) or getattr(one, "source", None) for one in params.changes or []]
    return [text for text in texts if isinstance(text, str)]


def _here(session: Session, params: SubmitParams) -> SubmitResult:
    workspace = workspace_of(session, params)
    made = edits(session, workspace, params.changes or [])
    principal = session.principal
    request = session.request(params.request_id)
    if not (workspace.repeated(request) or proposals.by_request(workspace, request)):
        ids.check_molecules(session, workspace, made)
    changes = ChangeSet(
        made,
        session.author(workspace),
        params.message,
        params.request_id,
        operation="submit",
        origin=f"token {principal.id}" if principal else "",
    )
    with naming_similar(session, workspace):
        found = submit_here(session, workspace, changes, base=params.base)
    told = answer(workspace, [subject(edit) for edit in made], found)
    if principal and found.proposal and any(unanswered(session, workspace, proposals.listed(workspace))):
        command = f"`kgd proposals --unanswered -w {workspace.id}`"
        told.setdefault("warnings", []).append(f"your proposals have comments to answer: {command} shows them")
    if principal and found.proposal and (decided := decided_lately(session, workspace)):
        why = f"`kgd proposals --decided -w {workspace.id}`, and `status` of the hub, show why"
        told.setdefault("warnings", []).append(f"others decided {len(decided)} of your proposals lately: {why}")
    return told


def submit_here(session: Session, workspace: Workspace, changes: ChangeSet, *, base: str = "") -> Submission:
    """Submit the caller's changes against a base of this workspace; they are merged or become a proposal.

    Raises:
        Unauthorized, Forbidden: The caller may not propose some of the changes. Nothing was written.
        KgdError: As `deciding.submit`.
    """
    # Checked first, so that no later refusal reveals nodes outside the caller's scopes.
    session.allow(workspace, Verb.PROPOSE, changes.named)
    changes = replace(session.reverting(workspace, changes), request_id=session.request(changes.request_id))
    who = Submitter(
        proposals.holder_name(changes.author.name),
        session.principal,
        session.permit(workspace, Verb.WRITE),
        session.permit(workspace, Verb.PROPOSE),
        _most(session),
    )
    found = deciding.submit(workspace, changes, who, base=base)
    return replace(found, outcome=session.seen(workspace, found.outcome))


def answer(workspace: Workspace, subjects: Iterable[Uri], found: Submission) -> SubmitResult:
    """The answer to a submission, with the outcome of each change."""
    outcome, waits = found.outcome, found.proposal
    changed = {uri for uri, _ in outcome.nodes} | set(outcome.deleted)
    conflicts = set(found.conflicts)
    changes: list[Became] = []
    for index, uri in enumerate(subjects):
        is_changed = uri in changed or outcome.repeated or workspace.resolve(uri) in changed
        one: Became = {"index": index, "uri": uri, "outcome": found.what if is_changed else "unchanged"}
        one |= present(why="it has also changed here since the base" if uri in conflicts else "")
        changes.append(one)
    written = answer_of(workspace, outcome)
    result: SubmitResult = {
        "workspace": workspace.id,
        "outcome": found.what,
        "commit": waits.commit if waits else outcome.commit,
        "changes": changes,
        "look": _look(found),
    }
    if waits:
        result["proposal"] = waits.id
        result["why"] = found.why or "it is already waiting"
    else:
        result["nodes"] = written["nodes"]
    result |= present(
        conflicts=sorted(conflicts),
        created=list(outcome.created),
        deleted=list(outcome.deleted),
        similar=written["similar"],
        warnings=written["warnings"],
        repeated=outcome.repeated,
    )
    return result


def _look(found: Submission) -> str:
    if found.proposal:
        return "It waits for a decision."
    if found.outcome.commit:
        return f"`kgd show {found.outcome.commit[:12]}` shows it."
    return "The workspace already has these changes."


def _most(session: Session) -> int | None:
    """Largest number of open proposals of this caller; None if unlimited."""
    if session.principal is None:
        return None
    try:
        return session.daemon.tokens.record(session.principal.id).quota.pending_proposals
    except NotFound:
        return None
    except KgdError:
        return 0


SUBMIT_SUBGRAPH = Operation(
    name="submit_subgraph",
    title="Submit to another team",
    description=(
        "Propose changes to a workspace that you may not write, or send it a part of your workspace: changes as in "
        "put, or roots. They merge at once if you may write there, else they wait as a proposal. The answer lists the "
        "outcome of each change."
    ),
    hints=Hints(open_world=True, idempotent=False, destructive=True),
    run=submit,
    commits={"submit": "wrote"},
    offered=USUAL,
    place=140,
    scope=Verb.PROPOSE,
    commands=(
        Command(
            "Sharing",
            ("submit changes to another team; without options, all changes since your last submission"),
            (
                option("remote", value="WORKSPACE", nargs="?"),
                option(
                    "--changes", "a JSON file with a list of changes, as put takes them; - reads standard input", "FILE"
                ),
                option(
                    "--roots", "instead: this node of yours and the nodes within --max-cost; may be repeated", "URI"
                ),
                option("--max-cost", "largest cost of a path from a root", "N"),
                option("--base", "the newest commit that you have seen", "COMMIT"),
                *WRITE,
            ),
            name="submit",
            place=110,
            examples=(
                ('kgd submit infra --roots services/auth -m "Tokens end early"', "propose this node to another team"),
            ),
            print="printing_sharing.submitted",
            rehearsal="would_submit",
        ),
    ),
)


Would = Literal["merged", "proposed", "refused", "unchanged"]
TRIED = "The hub tried it, and wrote nothing."
BY_SCOPE = "Based on the token's scopes only. The hub checks its policy and its nodes when you send it."
AT_GIT = "A plain git server gets a proposal; whether it accepts the push is known only when you send it."
HERE = "The workspace is on this machine: the changes were tried, and nothing was written."


class Planned(TypedDict):
    """One change that would be sent, by its index in the list."""

    index: int
    op: str
    uri: str
    outcome: Would
    why: NotRequired[str]


class PlanResult(TypedDict):
    """`look` explains how certain the prediction is."""

    workspace: str
    dry_run: bool
    outcome: Would
    commit: None
    changes: list[Planned]
    look: str
    remote: NotRequired[str]
    why: NotRequired[str]
    warnings: NotRequired[list[str]]


def would_submit(session: Session, params: SubmitParams) -> PlanResult:
    """Predict the outcome of a submission; sends nothing.

    Raises:
        KgdError: The submission would be refused before it is sent.
    """
    target = target_of(session, params)
    if not params.changes:
        _, piece = outbound.piece_of(session, target, params)
        if not piece.changes:
            return _plan(piece.into, [], "Nothing has changed since your last submission.")
        params = with_changes(params, piece)
    if target is not None and (target.copy is None or target.remote is None):
        return _at_hub(session, target, params, given(params))
    workspace = target.copy if target is not None else None
    outcome: Would = "merged" if workspace is None else "proposed"
    look = HERE if workspace is None else AT_GIT
    found = _tried(session, workspace or workspace_of(session, params), params, outcome, look)
    if target is not None and target.remote is not None:
        found["remote"] = target.remote.name
    return found


def _tried(session: Session, workspace: Workspace, params: SubmitParams, outcome: Would, look: str) -> PlanResult:
    """Try the changes on the local copy. With `params.base`, they are compared with the current tip."""
    made = edits(session, workspace, params.changes or [])
    ids.check_molecules(session, workspace, made)
    changes = ChangeSet(made, session.author(workspace), params.message, operation="submit")
    if params.base:
        changes = expecting(workspace, changes, bytes.fromhex(workspace.tip))  # later changes matter when it is sent
    found = workspace.submit(changes, dry_run=True)
    changed = {uri for uri, _ in found.nodes} | set(found.deleted)
    planned: list[Planned] = []
    for index, (given, edit) in enumerate(zip(params.changes or [], made, strict=True)):
        uri = subject(edit)
        is_news = uri in changed or workspace.resolve(uri) in changed or given.op == "revert"
        planned.append({"index": index, "op": given.op, "uri": uri, "outcome": outcome if is_news else "unchanged"})
    answer = _plan(workspace.id, planned, look)
    answer |= present(warnings=list(found.warnings))
    return answer


def _at_hub(session: Session, target: Target, params: SubmitParams, changes: list[dict[str, Any]]) -> PlanResult:
    client = session.daemon.elsewhere.client(target.id)
    holder = _holder(client.workspaces().get("principal"))
    planned = [_judged(index, one, target.id, holder) for index, one in enumerate(changes)]
    answer = _plan(target.id, planned, BY_SCOPE)
    answer["remote"] = target.id
    if answer["outcome"] == "merged" and not params.base:
        try:
            client.call(target.id, "put", {"changes": changes, "dry_run": True, "conflicts": "show"})
            answer["look"] = TRIED
        except Forbidden as refusal:
            answer["outcome"], answer["why"] = "proposed", refusal.message
    return answer


def _holder(said: Any) -> Principal:
    """The token's holder, as the hub reports it. The hub itself checks the expiry."""
    try:
        return principal_from({**said, "expires": None})
    except (Invalid, TypeError):
        raise Unauthorized(
            "the hub does not report your identity", next=Advice(Do("whoami"), " asks it again.")
        ) from None


def _judged(index: int, change: Mapping[str, Any], workspace: str, holder: Principal) -> Planned:
    """The outcome of one change under the token's scopes."""
    named = list(_nodes_named(change, workspace))
    policy = Policy(workspace)

    def is_let(verb: Verb) -> bool:
        return all(may(holder, policy, verb, uri) for uri in named)

    outcome: Would = "merged" if is_let(Verb.WRITE) else "proposed" if is_let(Verb.PROPOSE) else "refused"
    uri = str(named[0]) if named else str(change.get("commit", ""))
    planned: Planned = {"index": index, "op": str(change.get("op", "")), "uri": uri, "outcome": outcome}
    planned |= present(why=f"'{holder.name}' may neither write nor propose it" if outcome == "refused" else "")
    return planned


def _nodes_named(change: Mapping[str, Any], workspace: str) -> Iterable[Uri]:
    """The nodes that a change names, as URIs of `workspace`. Only the hub can resolve a name to a node."""
    if (text := change.get("uri") or change.get("source")) and isinstance(text, str):
        yield _addressed(text, workspace)
    elif change.get("name"):
        yield build(scheme_of_type(str(change.get("type"))), workspace, [str(change["name"]).strip().encode()])
    if isinstance(change.get("to"), str):
        yield _addressed(change["to"], workspace)


def _addressed(text: str, workspace: str) -> Uri:
    scheme, colon, rest = text.partition(":")
    if "://" in text:
        return Uri(text)
    if colon and scheme in OWNED:
        return from_path(scheme, workspace, rest.strip("/"))
    return from_path("concept", workspace, text.strip("/"))


def _plan(workspace: str, planned: Sequence[Planned], look: str) -> PlanResult:
    """The plan of a submission, which is merged, proposed or refused as a whole."""
    every = {one["outcome"] for one in planned}
    order: tuple[Would, ...] = ("refused", "proposed", "merged")
    outcome: Would = next((one for one in order if one in every), "unchanged")
    return {
        "workspace": workspace,
        "dry_run": True,
        "outcome": outcome,
        "commit": None,
        "changes": list(planned),
        "look": look,
    }


WOULD_SUBMIT = Operation(
    name="would_submit",
    title="Preview a submission",
    description="The changes that `submit_subgraph` would send, and the outcome of each under the caller's scopes.",
    hints=Hints(read_only=True, open_world=True),
    run=would_submit,
)
