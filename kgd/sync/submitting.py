"""This file is where changes for a plain git server are put up there: as a commit on what it has, under ``proposals/``.

Nobody over there has to run kgd. Whoever accepts it merges the branch, or has their own daemon do it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kgd.errors import Invalid, KgdError
from kgd.git.objects import ObjectId
from kgd.git.refs import list_refs
from kgd.git.remote_settings import Remote
from kgd.git.staging import Staging
from kgd.git.trouble import LostRace
from kgd.model.change import ChangeSet
from kgd.workspace.outcome import Outcome
from kgd.workspace.proposals import holder_name, keep
from kgd.workspace.submission import expecting
from kgd.workspace.transaction import Transaction

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

SUBMITTED = "refs/kgd/submitted/"
"""Where a commit is kept here that was put up elsewhere: nothing else may lead to it."""


class Pusher(Protocol):
    """What this asks of a remote; `kgd.git.remote.GitRemote` is the real one."""

    def push(self, ref: str, old: ObjectId | None, new: ObjectId) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Offered:
    """What was put up: the full name of its ref over there, the commit, and what it changes."""

    ref: str
    commit: str
    outcome: Outcome


def offer(
    workspace: Workspace, remote: Remote, transport: Pusher, changes: ChangeSet, base: ObjectId | None = None
) -> Offered:
    """Put the changes up at the remote, made against what was last fetched from it, or against an older `base`.

    The same request id puts up the same commit: a push whose end nobody saw is repeated, and applies once.

    Raises:
        Invalid: They change nothing of what the remote has.
        Trouble: The remote refused, or cannot be reached; ask again with the same request id.
        KgdError: What is wrong with the changes.
    """
    tip = base or workspace.store.ref(remote.incoming) or bytes.fromhex(workspace.tip)
    if base is not None:
        changes = expecting(workspace, changes, base)
    known = _earlier(workspace, remote, changes.request_id)
    if known is not None:
        name, commit, outcome = known[0], known[1], Outcome(known[1].hex(), repeated=True)
    else:
        staging = Staging(workspace.store, workspace.store.tree_of(tip))
        around = workspace.surroundings_at(tip)
        made = Transaction(changes, around, workspace.now(), seal=workspace.seal).stage(staging, tip)
        if made.commit is None:
            raise Invalid("the remote has all of that already", at="changes")
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
