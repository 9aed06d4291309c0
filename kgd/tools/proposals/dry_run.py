"""Dry runs of submissions: the changes that would be sent, and their outcome.

A hub is asked with calls that every hub supports: the token's holder, and a `put` with `dry_run`. Rules that only the
hub knows take effect at the real submission.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from kgd.errors import Advice, Do, Forbidden, Invalid, Unauthorized
from kgd.model.access import Policy, Principal, Verb, may, principal_from
from kgd.model.change import ChangeSet
from kgd.model.uri import OWNED, Uri, build, from_path, scheme_of_type
from kgd.tools.areas import ids
from kgd.tools.operation import Hints, Operation
from kgd.tools.proposals import outbound, submit
from kgd.tools.proposals.outbound import SubmitParams, Target, subject
from kgd.tools.session import Session
from kgd.tools.write.changes import edits
from kgd.workspace.proposals.submission import expecting
from kgd.workspace.workspace import Workspace

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
    target = submit.target_of(session, params)
    if not params.changes:
        _, piece = outbound.piece_of(session, target, params)
        if not piece.changes:
            return _plan(piece.into, [], "Nothing has changed since your last submission.")
        params = submit.with_changes(params, piece)
    if target is not None and (target.copy is None or target.remote is None):
        return _at_hub(session, target, params, submit.given(params))
    workspace = target.copy if target is not None else None
    outcome: Would = "merged" if workspace is None else "proposed"
    look = HERE if workspace is None else AT_GIT
    found = _tried(session, workspace or submit.workspace_of(session, params), params, outcome, look)
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
    if found.warnings:
        answer["warnings"] = list(found.warnings)
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
    named = list(_named(change, workspace))
    policy = Policy(workspace)

    def is_let(verb: Verb) -> bool:
        return all(may(holder, policy, verb, uri) for uri in named)

    outcome: Would = "merged" if is_let(Verb.WRITE) else "proposed" if is_let(Verb.PROPOSE) else "refused"
    uri = str(named[0]) if named else str(change.get("commit", ""))
    planned: Planned = {"index": index, "op": str(change.get("op", "")), "uri": uri, "outcome": outcome}
    if outcome == "refused":
        planned["why"] = f"'{holder.name}' may neither write nor propose it"
    return planned


def _named(change: Mapping[str, Any], workspace: str) -> Iterable[Uri]:
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
