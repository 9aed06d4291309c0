"""Outbound traffic to other workspaces: submissions with their parameters and answer, and decisions about proposals.

`kgd.tools.proposals.own_nodes` turns a part of the user's graph into changes. A submission to a plain git server is a
commit on its tip, pushed to a branch under ``proposals/``. The maintainers of the server do not need kgd: they accept
it by merging the branch.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from kgd.errors import Advice, Do, Invalid, KgdError, NotFound, Unavailable
from kgd.git.objects import ObjectId
from kgd.git.refs import list_refs
from kgd.git.remote import GitRemote
from kgd.git.remote_errors import LostRace
from kgd.git.remote_settings import Remote, parse_stored, remote
from kgd.git.staging import Staging
from kgd.model.change import ChangeSet, Edit
from kgd.model.uri import Uri
from kgd.sync.hub_sign_in import bearer, network_of
from kgd.sync.hubs import HubClient
from kgd.sync.round import Transport
from kgd.tools import addressing
from kgd.tools.hub_reads import checked
from kgd.tools.paging import present
from kgd.tools.parameters import Many, Message, RequestId, WorkspaceParams
from kgd.tools.proposals.own_nodes import AtHand, OnHub, Piece, There, only_receiver, piece
from kgd.tools.session import Session
from kgd.tools.write.changes import ChangesAsInPut, edits
from kgd.tools.write.put import Similar, Written
from kgd.workspace.answers import Outcome
from kgd.workspace.proposals.deciding import expecting
from kgd.workspace.proposals.proposals import Proposal, holder_name, keep
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.transaction import Transaction

SUBMITTED = "refs/kgd/submitted/"
"""Prefix of the refs that protect submitted commits from gc."""


class SubmitParams(WorkspaceParams):
    remote: Annotated[str | None, Field(description="a registered workspace, or a remote of this one")] = None
    changes: ChangesAsInPut | None = None
    roots: Annotated[
        Many[str],
        Field(description="or these nodes and all within max_cost; neither: changes since the last submission"),
    ] = Field(default_factory=list)
    max_cost: Annotated[float, Field(ge=0)] = 0.0
    base: Annotated[str, Field(description="the commit you saw")] = ""
    message: Message = ""
    request_id: RequestId = ""


What = Literal["merged", "proposed", "unchanged"]


class Became(TypedDict):
    """The outcome of one change, by its index in the list."""

    index: int
    uri: str
    outcome: What
    why: NotRequired[str]


class SubmitResult(TypedDict):
    """`look` names the next command; `conflicts` are the nodes that need a decision."""

    workspace: str
    outcome: What
    commit: str | None
    changes: list[Became]
    look: str
    remote: NotRequired[str]
    proposal: NotRequired[str]
    why: NotRequired[str]
    conflicts: NotRequired[list[str]]
    nodes: NotRequired[list[Written]]
    created: NotRequired[list[str]]
    deleted: NotRequired[list[str]]
    similar: NotRequired[list[Similar]]
    warnings: NotRequired[list[str]]
    repeated: NotRequired[bool]


_HUB = re.compile(r"(https?://.+)/git/([a-z0-9][a-z0-9-]{0,62})(?:\.git)?/?").fullmatch
"""Matches the git address of a hub's workspace: the hub's address and the workspace's id."""
SHARED_REF = "refs/heads/main"


@dataclass(frozen=True, slots=True)
class Target:
    """Destination of a submission: the workspace's id and, for plain git, the local copy and its remote."""

    id: str
    copy: Workspace | None = None
    remote: Remote | None = None
    token: str = ""


def find(session: Session, name: str, workspace: str | None) -> Target | None:
    """Find the hub or remote called `name`; None for a workspace that is open on this machine.

    Raises:
        NotFound: Neither the registry nor this workspace knows the name.
        Unavailable: The first fetch is still running.
    """
    entry = session.daemon.registry.current().entries.get(name)
    if entry is not None and entry.path:
        return None
    if entry is not None and entry.hub:
        return Target(name)
    if entry is not None:
        copy = session.daemon.workspace(name)
        url = parse_stored(copy.layout, entry.remote)
        return Target(name, copy, Remote("origin", url, entry.ref or SHARED_REF), entry.token)
    try:
        here = addressing.choose(session, workspace, writing=True)
        found = remote(here.layout, name)
    except NotFound:
        known = session.daemon.workspace_ids()
        if workspace is not None and workspace not in known:
            raise
        raise NotFound(
            f"there is no workspace or remote '{name[:60]}'",
            at="remote",
            next=Advice(
                f"Known workspaces: {', '.join(known[:8]) or 'none'}; ",
                Do("remote", action="list"),
                " shows this one's remotes.",
            ),
        ) from None
    own = session.daemon.registry.current().entries.get(here.id)
    return Target(here.id, here, found, (own.token if own else "") or found.token)


def send(
    session: Session, target: Target, params: SubmitParams, changes: list[dict[str, Any]], *, base: str = ""
) -> SubmitResult:
    """Send changes to the target and return their outcome.

    Raises:
        KgdError: The hub or the git server refused; nothing was stored there.
        Unavailable: The target cannot be reached, or the connection ended. Retry with the same request id.
    """
    if target.copy is None or target.remote is None:
        return _to_hub(session, target, params, changes)
    if params.base != base:
        raise _baseless()
    return _to_git(session, target.copy, target.remote, target.token, params, changes)


def piece_of(session: Session, target: Target | None, params: SubmitParams) -> tuple[Workspace, Piece]:
    """The caller's workspace, and the piece of it for the target.

    Args:
        target: Destination; None for the workspace of this machine that `params.remote` names.

    Raises:
        KgdError: As in `own_nodes.piece`.
    """
    if params.base and target is not None and target.copy is not None:
        raise _baseless()
    own = addressing.choose(session, params.workspace, params.roots)
    roots = {
        addressing.resolve(session, own, text, at=f"roots[{n}]"): params.max_cost for n, text in enumerate(params.roots)
    }
    there = _there(session, target, params.remote or only_receiver(own) or "")
    if target is None and there.id == own.id:
        raise Invalid(
            f"'{own.id}' is this workspace, and nodes are submitted to another one",
            at="remote",
            next=Advice("Name that workspace, or change this one with ", Do("put"), "."),
        )
    return own, piece(own, there.id, there, roots, base=params.base)


def _baseless() -> Invalid:
    return Invalid("a plain git server accepts only submissions without a base", at="base", next="Leave out `base`.")


def _there(session: Session, target: Target | None, id: str) -> There:
    if target is None:
        here = addressing.choose(session, id, writing=True)
        return AtHand(here, bytes.fromhex(here.tip))
    if target.copy is None or target.remote is None:
        return OnHub(session.daemon.elsewhere.client(target.id), target.id)
    tip = target.copy.store.ref(target.remote.incoming) or bytes.fromhex(target.copy.tip)
    return AtHand(target.copy, tip)


def _to_hub(session: Session, target: Target, params: SubmitParams, changes: list[dict[str, Any]]) -> SubmitResult:
    arguments = {"changes": changes, "message": params.message, "base": params.base, "request_id": params.request_id}
    client = session.daemon.elsewhere.client(target.id)
    answer: SubmitResult = checked(SubmitResult, client.call(target.id, "submit_subgraph", present(**arguments)))
    return {**answer, "remote": target.id}


def _to_git(
    session: Session, copy: Workspace, to: Remote, token: str, params: SubmitParams, changes: list[dict[str, Any]]
) -> SubmitResult:
    read = SubmitParams.model_validate({"changes": changes}).changes or []
    made = edits(session, copy, read)
    given = ChangeSet(made, session.author(copy), params.message, params.request_id, operation="submit")
    transport = GitRemote(to.url, copy.store, network_of(token))
    done = offer(copy, to, transport, given, bytes.fromhex(params.base) if params.base else None)
    outcome = done.outcome
    changed = {uri for uri, _ in outcome.nodes} | set(outcome.deleted)
    answer: SubmitResult = {
        "workspace": copy.id,
        "remote": to.name,
        "outcome": "proposed",
        "commit": done.commit,
        "proposal": done.ref.removeprefix("refs/heads/"),
        "why": "a plain git server only takes proposals",
        "changes": [
            {"index": index, "uri": uri, "outcome": "proposed" if outcome.repeated or uri in changed else "unchanged"}
            for index, uri in enumerate(map(subject, made))
        ],
        "look": f"It waits at the remote as {done.ref} until its owner accepts or merges it.",
    }
    answer |= present(warnings=list(outcome.warnings), repeated=outcome.repeated)
    return answer


def subject(edit: Edit) -> Uri:
    """The node that an edit changes or, for a revert, the commit that it reverts."""
    return Uri(str(getattr(edit, "uri", None) or getattr(edit, "source", None) or getattr(edit, "commit", "")))


def take_off(session: Session, workspace: Workspace, found: Proposal, reason: str) -> str:
    """Remove a fetched proposal from its remote: the hub rejects it, or the git server deletes its branch.

    A failure does not restore it locally. Returns the reason why the remote still lists the proposal; empty on success.
    """
    if session.principal is not None:
        return "only the hub's administrator can change its upstream"
    try:
        there = remote(workspace.layout, found.remote)
        reference = session.daemon.syncing(workspace).credential(there)
        token = bearer(reference) if reference else ""
        if there.direction == "pull":
            return f"kgd only pulls from '{there.name}'"
        if hub := _HUB(there.url.text):
            with contextlib.suppress(Unavailable):  # a git server may have an address like a hub's
                return _reject_at(hub[1], hub[2], token, found, reason)
        git = GitRemote(there.url, workspace.store, network_of(reference))
        try:
            git.delete(there.proposals + _name_there(found), bytes.fromhex(found.commit))
        finally:
            git.close()
    except LostRace:
        return "it has since changed there"
    except KgdError as error:
        return error.message
    return ""


def _reject_at(url: str, workspace: str, token: str, found: Proposal, reason: str) -> str:
    client = HubClient(url, lambda: token.rpartition(":")[2])
    try:
        at = f"{_name_there(found)}@{found.commit[:10]}"
        client.call(workspace, "reject", {"name": at, **({"reason": reason} if reason else {})})
    except NotFound:
        return ""  # already decided there
    finally:
        client.close()
    return ""


def _name_there(found: Proposal) -> str:
    return found.name.removeprefix(f"{found.remote}/")


@dataclass(frozen=True, slots=True)
class Offered:
    """A pushed submission: the full name of its remote ref, its commit and its outcome."""

    ref: str
    commit: str
    outcome: Outcome


def offer(
    workspace: Workspace, remote: Remote, transport: Transport, changes: ChangeSet, base: ObjectId | None = None
) -> Offered:
    """Push the changes to the remote as a commit on its last fetched tip, or on an older `base`.

    The same request id pushes the same commit, so a push with an unknown result can be repeated.

    Raises:
        Invalid: The changes change nothing on the remote.
        Trouble: The remote refused the push, or cannot be reached; try again with the same request id.
        KgdError: The changes are invalid.
    """
    tip = base or workspace.store.ref(remote.incoming) or bytes.fromhex(workspace.tip)
    if base is not None:
        changes = expecting(workspace, changes, base)
    known = _earlier(workspace, remote, changes.request_id)
    if known is not None:
        name, commit, outcome = known[0], known[1], Outcome(known[1].hex(), repeated=True)
    else:
        staging = Staging(workspace.store, workspace.store.tree_of(tip), workspace.signing)
        around = workspace.surroundings_at(tip)
        made = Transaction(changes, around, workspace.now(), seal=workspace.seal).stage(staging, tip)
        if made.commit is None:
            raise Invalid("the remote already has all these changes", at="changes")
        name, commit, outcome = f"{holder_name(changes.author.name)}-{made.commit.hex()[:8]}", made.commit, made.answer
        keep(workspace, staging, f"{SUBMITTED}{remote.name}/{name}", commit, f"kgd: for {remote.name}")
    ref = remote.proposals + name
    try:
        transport.push(ref, None, commit)
    except LostRace:
        if known is None:
            raise
    return Offered(ref, commit.hex(), outcome)


def _earlier(workspace: Workspace, remote: Remote, request: str) -> tuple[str, ObjectId] | None:
    prefix = f"{SUBMITTED}{remote.name}/"
    for ref, tip in list_refs(workspace.layout.git_dir, prefix).items() if request else ():
        try:
            made_for = workspace.seal.request(workspace.store, tip, workspace.store.commit(tip).message)
        except KgdError:
            continue
        if made_for == request:
            return ref.removeprefix(prefix), tip
    return None
