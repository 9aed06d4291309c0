"""Submissions to a plain git server: a commit on its tip, pushed to a branch under ``proposals/``.

The maintainers of the server do not need kgd: they accept a submission by merging the branch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgd.errors import Invalid, KgdError
from kgd.git.objects import ObjectId
from kgd.git.refs import list_refs
from kgd.git.remote_errors import LostRace
from kgd.git.remote_settings import Remote
from kgd.git.staging import Staging
from kgd.model.change import ChangeSet
from kgd.sync.round import Transport
from kgd.workspace.answers import Outcome
from kgd.workspace.proposals.proposals import holder_name, keep
from kgd.workspace.proposals.submission import expecting
from kgd.workspace.writing.transaction import Transaction

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

SUBMITTED = "refs/kgd/submitted/"
"""Prefix of the refs that protect submitted commits from gc."""


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
