"""The tools `sync`, `share` and `remote`: remotes of a workspace, and exchange with them; notice of a moved branch."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal, NotRequired
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field
from typing_extensions import TypedDict

from kgd.config.credentials import check_reference, drop, is_kept_as, keep
from kgd.daemon.syncing import Answer
from kgd.errors import Advice, Do, Invalid, InvariantViolation, KgdError
from kgd.git import remote_settings
from kgd.git.creation import code_remotes
from kgd.git.remote_errors import Trouble
from kgd.git.remote_settings import Remote
from kgd.model.access import Verb
from kgd.sync.remote_state import Machine
from kgd.tools import addressing
from kgd.tools.nodes import moment
from kgd.tools.operation import DIRECTION, REF, SECONDS, TOKEN, USUAL, Command, Hints, Operation, option
from kgd.tools.paging import present
from kgd.tools.parameters import Environment, Params, WorkspaceParams
from kgd.tools.session import Session
from kgd.tools.workspaces.status import RESOLVE_OPEN
from kgd.workspace.workspace import Workspace

GIVEN_UP = ("vanished", "unrelated", "other-workspace")
"""Problems of the first sync after which a new remote is removed, because it is not the intended one."""
_CONFIRM = re.compile(r"(?:yes|[0-9a-fA-F]{7,64})?").fullmatch


class WaitAnswer(TypedDict):
    """A change that waits for a decision. `commit` is the value for `confirm`."""

    kind: str
    reason: str
    next: NotRequired[str]
    commit: NotRequired[str]


class RemoteAnswer(TypedDict):
    """One remote. `state` is ok, waiting, blocked, diverged, held or emptied; counts are commits.

    `ahead` is the number of commits that only this workspace has, `behind` the number that only the remote has, as far
    as known.
    """

    name: str
    url: str
    ref: str
    state: str
    last_success: NotRequired[str]
    direction: NotRequired[str]
    pulled: NotRequired[int]
    pushed: NotRequired[int]
    proposed: NotRequired[int]
    merged: NotRequired[str]
    proposals: NotRequired[int]
    ahead: NotRequired[int]
    behind: NotRequired[int]
    waits: list[WaitAnswer]


class RemotesResult(TypedDict):
    ok: bool
    workspace: str
    tip: str
    remotes: list[RemoteAnswer]
    conflicts: int
    warnings: NotRequired[list[str]]
    next: NotRequired[str]


def _confirm(value: object) -> object:
    return "yes" if value is True else ("" if value is False else value)


class SyncParams(WorkspaceParams):
    remote: str | None = None
    direction: Literal["both", "pull", "push"] = "both"
    confirm: Annotated[
        str,
        BeforeValidator(_confirm),
        Field(description="the held-back commit to accept, although it deletes much or rewrites history"),
    ] = ""


def sync(session: Session, params: SyncParams) -> RemotesResult:
    """Sync the workspace with its remotes now; reports transfers, pending work with reasons, and open conflicts."""
    workspace = addressing.choose(session, params.workspace, writing=True)
    if not _CONFIRM(params.confirm):
        raise Invalid("only a commit can be confirmed", at="confirm", next="Give the commit that sync reported.")
    syncing = session.daemon.syncing(workspace)
    session.progress(0, None, f"syncing with {params.remote or 'all remotes'}")
    answers = syncing.sync(params.remote, direction=params.direction, confirm=params.confirm, progress=session.progress)
    return _answer(workspace, [_after_round(one) for one in answers])


class AccessParams(WorkspaceParams):
    ref: str | None = None
    token: str = ""
    sync: Annotated[float | None, Field(ge=0, le=86_400)] = None
    environment: Environment = Field(default_factory=dict)


class ShareParams(AccessParams):
    remote: str | None = None


def share(session: Session, params: ShareParams) -> RemotesResult:
    """Publish to the repository's remote: the remote of the code, or the workspace's origin if the workspace was
    cloned."""
    workspace = _mine(session, params)
    layout = workspace.layout
    found = code_remotes(
        layout.code_tree if layout.in_code and layout.code_tree else layout.work_tree,
        environment=session.daemon.syncing(workspace).environment,
    )
    if params.remote is not None:
        found = {name: there for name, there in found.items() if name == params.remote}
    if not found:
        raise InvariantViolation(
            "there is no remote to share through",
            at=params.remote or "",
            next=Advice(
                "Add one with ",
                Do("remote", action="add", name="origin", url="URL"),
                ", for an empty repository or a bare directory.",
            ),
        )
    name, there = next(iter(found.items()))
    address = remote_settings.parse_url(remote_settings.take_credential(there)[0], layout.work_tree)
    wanted = Remote(name, address, params.ref or layout.branch, params.token, params.sync)
    return _add(session, workspace, wanted, there, of_code=layout.in_code)


class RemoteParams(AccessParams):
    action: Literal["list", "add", "remove", "show"] = "list"
    name: str | None = None
    url: str | None = None
    direction: Literal["both", "pull", "push"] = "both"


def remote(session: Session, params: RemoteParams) -> RemotesResult:
    workspace = _mine(session, params)
    syncing = session.daemon.syncing(workspace)
    if params.action != "list" and not params.name:
        url_too = " URL" if params.action == "add" else ""
        raise Invalid("name the remote", at="name", next=f"`kgd remote {params.action} NAME{url_too}`.")
    if params.action == "add":
        return _named(session, workspace, params)
    is_one = params.name and params.action != "list"
    known = remote_settings.remote(workspace.layout, params.name or "") if is_one else None
    if params.action == "remove" and known is not None:
        if syncing.is_registered(known):
            session.daemon.registry.forget_remote(workspace.id)
        remote_settings.remove(workspace.layout, known.name)
        syncing.reload()
        if is_kept_as(session.daemon.home.state, known.token, _kept_name(workspace, known)):
            drop(session.daemon.home.state, known.token)
    shown = (one for one in syncing.machines() if params.action != "show" or one.remote.name == params.name)
    return _answer(workspace, [_shown(one, workspace) for one in shown])


def _named(session: Session, workspace: Workspace, params: RemoteParams) -> RemotesResult:
    """Add the remote that the parameters name."""
    if not params.url:
        raise Invalid(
            "the address of the remote is missing",
            at="url",
            next=Advice(Do("remote", action="add", name="NAME", url="URL"), "."),
        )
    name, there = params.name or "", remote_settings.parse_url(params.url, session.cwd or Path("/"))
    stored = remote_settings.settings_of(workspace.layout, name).get(f"remote.{name}.url", "")
    wanted = Remote(name, there, params.ref or workspace.layout.branch, params.token, params.sync, params.direction)
    return _add(session, workspace, wanted, stored)


def _mine(session: Session, params: AccessParams) -> Workspace:
    workspace = addressing.choose(session, params.workspace, writing=True)
    if params.environment:
        session.daemon.syncing(workspace).environment = params.environment
    return workspace


def _add(
    session: Session, workspace: Workspace, wanted: Remote, stored: str = "", *, of_code: bool = False
) -> RemotesResult:
    """Add a remote at the user's request and sync with it. The workspace is published there from now on.

    If the remote turns out to be the wrong remote, it is removed again.

    Args:
        stored: The address in the git settings. If `git clone` left a credential in the address, the credential is
            removed from it and stored for the remote.
        of_code: The repository belongs to the code and has its own default branch. A clone of any other repository
            should check out the workspace.
    """
    if wanted.token:
        check_reference(wanted.token)
    if workspace.read_only:
        raise InvariantViolation(f"this workspace is read-only: {workspace.read_only}")
    syncing, layout = session.daemon.syncing(workspace), workspace.layout
    shared = {one.name: one.ref for one in remote_settings.remotes(layout)}
    before = remote_settings.settings_of(layout, wanted.name)
    wanted, told = _with_credential(session, workspace, wanted, stored)
    remote_settings.add(layout, wanted)
    syncing.reload(waiting=True)
    answers = syncing.sync(wanted.name, direction=wanted.direction, progress=session.progress)
    error = answers[0].error
    if isinstance(error, Trouble) and error.kind in GIVEN_UP and shared.get(wanted.name) != wanted.ref:
        remote_settings.remove(layout, wanted.name)
        remote_settings.write(layout, before)
        syncing.reload()
        if "`kgd remote remove" in error.next:
            error.next = "Nothing was added. Check the address."
        raise error
    answer = _answer(workspace, [_after_round(one) for one in answers])
    is_branch = wanted.ref.startswith("refs/heads/") and not of_code
    if is_branch and answers[0].done.pushed and not syncing.is_cloned(wanted.name):
        told.append(
            f"the HEAD of {wanted.url.text} names a missing branch, so `git clone` of it checks out nothing. "
            f"Make {wanted.ref.removeprefix('refs/heads/')} its default branch in the server's settings, or there "
            f"with `git symbolic-ref HEAD {wanted.ref}`."
        )
    answer |= present(warnings=told)
    return answer


def _with_credential(session: Session, workspace: Workspace, wanted: Remote, stored: str) -> tuple[Remote, list[str]]:
    """The remote with a reference to the credential in the stored address, and the warnings about it."""
    clean, credential = remote_settings.take_credential(stored)
    if not credential or clean != wanted.url.text:
        return wanted, []
    if not wanted.token:
        reference = keep(session.daemon.home.state, _kept_name(workspace, wanted), credential)
        wanted = replace(wanted, token=reference)
    if workspace.layout.in_code:
        return wanted, [f"kgd keeps a copy of the credential in the code remote's address as {wanted.token}"]
    return wanted, [
        f"the credential was removed from the address: kgd reads it from {wanted.token}; plain `git` will "
        "ask for it, unless a credential helper has it"
    ]


def _kept_name(workspace: Workspace, remote: Remote) -> str:
    """The name of a stored credential from an address, one for each remote of each workspace."""
    return f"{workspace.id}/{remote.name}@{urlsplit(remote.url.text).netloc}"


def _answer(workspace: Workspace, remotes: list[RemoteAnswer]) -> RemotesResult:
    answer: RemotesResult = {
        "ok": all(
            one["state"] in ("ok", "waiting") and all(wait["kind"] == "proposed" for wait in one["waits"])
            for one in remotes
        ),
        "workspace": workspace.id,
        "tip": workspace.tip,
        "remotes": remotes,
        "conflicts": workspace.conflict_count,
    }
    if not remotes:
        answer["next"] = Advice(
            Do("share"),
            " publishes to the remote of this repository, ",
            Do("remote", action="add", name="NAME", url="URL"),
            " to another.",
        )
    elif workspace.conflict_count:
        answer["next"] = RESOLVE_OPEN
    return answer


def _shown(machine: Machine, workspace: Workspace | None = None) -> RemoteAnswer:
    answer: RemoteAnswer = {
        "name": machine.remote.name,
        "url": machine.remote.url.text,
        "ref": machine.remote.ref,
        "state": machine.state,
        "waits": [],
    }
    answer |= present(
        last_success=moment(int(machine.last_success)) if machine.last_success is not None else "",
        direction=machine.remote.direction if machine.remote.direction != "both" else "",
    )
    if workspace is not None and machine.theirs and workspace.tip and workspace.store.exists(machine.theirs):
        answer["ahead"], answer["behind"] = workspace.store.ahead_behind(bytes.fromhex(workspace.tip), machine.theirs)
    for wait in machine.waits:
        told: WaitAnswer = {"kind": wait.kind, "reason": wait.reason}
        told |= present(next=wait.next, commit=wait.commit)
        answer["waits"].append(told)
    if machine.trouble is not None:
        answer["waits"].append(_told(machine.trouble))
    return answer


def _after_round(one: Answer) -> RemoteAnswer:
    answer, done = _shown(one.machine), one.done
    answer["pulled"], answer["pushed"] = done.pulled, done.pushed
    answer |= present(proposed=done.proposed, merged=done.merged, proposals=done.proposals)
    if one.error is not None and one.machine.trouble is not one.error:
        answer["waits"].append(_told(one.error))
    return answer


def _told(error: KgdError) -> WaitAnswer:
    told: WaitAnswer = {"kind": error.kind if isinstance(error, Trouble) else error.code, "reason": error.message}
    told |= present(next=error.next)
    return told


SYNC = Operation(
    name="sync",
    title="Sync with remotes",
    description=(
        "Fetch, merge and push now; the daemon also does this by itself. Reports transferred and held-back changes. "
        "To accept a held-back change, pass its commit as confirm."
    ),
    hints=Hints(idempotent=True, open_world=True),
    run=sync,
    offered=USUAL,
    place=120,
    scope=Verb.ADMIN,
    commands=(
        Command(
            "Sharing",
            "fetch, merge and push now; the daemon also does this itself",
            (
                option("remote", "only this remote", "REMOTE", nargs="?"),
                DIRECTION,
                option(
                    "--confirm",
                    "accept a held change: a commit that deletes much, or a rewritten history",
                    "COMMIT",
                    nargs="?",
                    const="yes",
                ),
            ),
            place=30,
            examples=(
                ("kgd sync", "now, with every remote"),
                ("kgd sync origin --direction pull", "fetch only"),
            ),
            print="printing_sharing.remotes",
        ),
    ),
)
SHARE = Operation(
    name="share",
    title="Share a workspace",
    description="Shares the workspace through the repository's own remote.",
    hints=Hints(idempotent=True, open_world=True),
    run=share,
    commands=(
        Command(
            "Sharing",
            "share the workspace through its repository's remote, and keep both in sync",
            (option("--remote", "which of its remotes (default: origin)", "NAME"), REF, TOKEN, SECONDS),
            place=10,
            examples=(("kgd share", "with the team, through the remote of the code"),),
            ask="place",
            print="printing_sharing.remotes",
        ),
    ),
)
REMOTE = Operation(
    name="remote",
    title="Remotes",
    description="Lists, adds and removes the remotes of a workspace.",
    hints=Hints(idempotent=True, open_world=True),
    run=remote,
    commands=(
        Command(
            "Sharing",
            "list, add and remove the workspace's remotes",
            (
                option("action", "the action", nargs="?", type="remote_action"),
                option("name", "its name, such as origin", "NAME", nargs="?"),
                option("url", "https://..., user@host:path or a directory", "URL", nargs="?"),
                REF,
                TOKEN,
                SECONDS,
                DIRECTION,
            ),
            place=20,
            examples=(
                ("kgd remote add origin git@example.com:team/shop.git", "push and fetch automatically from now on"),
            ),
            ask="place",
            print="printing_sharing.remotes",
        ),
    ),
)


class NoticeParams(Params):
    git_dir: Annotated[str, Field(description="the repository's git directory")]


class NoticeResult(TypedDict):
    noticed: bool


def notice(session: Session, params: NoticeParams) -> NoticeResult:
    """Wake publication in the open workspace of a git directory. Opens no workspace."""
    place = Path(params.git_dir)
    concerned = [one for one in session.daemon.opened() if one.layout.git_dir == place]
    for workspace in concerned:
        workspace.hint(())
    return {"noticed": bool(concerned)}


NOTICE = Operation(
    name="notice",
    title="A branch moved",
    description="A git hook reports a moved branch; the daemon checks at once.",
    hints=Hints(idempotent=True),
    run=notice,
)
