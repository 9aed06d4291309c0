"""Deciding on proposals: accepting them as a whole by kgd's own merge, or in part as one commit, and rejecting them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import policy_in
from kgd.errors import Damaged, Forbidden, Invalid, KgdError, Limit, Unavailable
from kgd.git import program
from kgd.git.objects import ObjectId, Signature, signature, trailers
from kgd.git.refs import HEAD, PROPOSALS, REJECTED, RefUpdate, delete_refs, list_refs, move_ref, read_log
from kgd.git.staging import Staging
from kgd.model.change import Author, ChangeSet, subject_from
from kgd.model.uri import Uri
from kgd.workspace.answers import Outcome, Would
from kgd.workspace.merging.histories import merge_commits
from kgd.workspace.merging.trees import MergedTree
from kgd.workspace.proposals import records
from kgd.workspace.proposals.proposals import Chosen, Proposal, files_of, is_name, left_of, vet
from kgd.workspace.proposals.records import Bundle, shared
from kgd.workspace.publishing.adoption import check_signatures
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.secrets import refuse_secret_text
from kgd.workspace.writing.touched_nodes import Permit, Touched, of_files, touched_by
from kgd.workspace.writing.transaction import RESOLVED_BY, dry_run_effect, message_of
from kgd.workspace.writing.writer import Staged

ORIGIN = "Kgd-Origin"
_BY = "kgd: rejected by "

MAX_COMMITS = 1_000
"""Maximum number of commits in one proposal; each is authorized."""

Job = Callable[[Staging, ObjectId], Staged[object]]


def accept(
    workspace: Workspace,
    proposal: Proposal,
    author: Author,
    *,
    only: Collection[Uri] = (),
    fields: Mapping[Uri, Collection[str]] | None = None,
    permit: Permit | None = None,
    message: str = "",
    dry_run: bool = False,
) -> Outcome:
    """Accept a proposal, in whole or in part.

    A whole proposal is merged, and is then no longer open. If its message lists bundles (`records`), it becomes one
    plain commit instead. A part becomes one commit by the proposal's author. Changes that disagree with newer changes
    at the tip become a conflict, so neither side is lost.

    Args:
        only: Accept these nodes. Without `only` and `fields`, the whole proposal is accepted.
        fields: Accept these fields of other nodes.
        permit: Called with everything that the proposal's commits touch; raises to refuse it.
        dry_run: Write nothing; the outcome then has no commit.

    Raises:
        Invalid, NotFound: The proposal is not valid content, or lacks a chosen node or field.
    """
    refuse_secret_text(message, "the message", at="message")
    commit = bytes.fromhex(proposal.commit)
    store = workspace.store
    bases = store.merge_bases(bytes.fromhex(workspace.tip), commit)
    if not bases:
        raise Invalid("this proposal shares no history with the workspace", at=proposal.name)
    vet(workspace, bases[0], commit)
    told = records.read(store.commit(commit).message)
    part = Chosen(frozenset(only), fields or {})
    job = (
        _part(workspace, proposal, author, part, permit, told, message, dry_run)
        if part or (told and proposal.request)
        else _whole(workspace, proposal, author, permit, message, dry_run)
    )
    if dry_run:
        tip = bytes.fromhex(workspace.tip)
        would = job(Staging(store, store.tree_of(tip)), tip).answer
        assert isinstance(would, Outcome)
        return replace(would, commit=None)
    outcome = workspace.run(job)
    assert isinstance(outcome, Outcome)
    if proposal.remote:
        return outcome
    tip = bytes.fromhex(workspace.tip)
    if outcome.commit and (hubs := shared(workspace)):
        hubs.changed()  # the push of the commit has removed the proposal
    elif not part or not left_of(workspace, store.tree_of(tip), merge_commits(store, tip, commit, workspace.sharded)):
        _remove(workspace, proposal)
    return outcome


def reject(workspace: Workspace, proposal: Proposal, by: str, reason: str = "", *, permit: Permit | None = None) -> str:
    """Reject an open proposal; return the full name of the ref that keeps it.

    Raises:
        Forbidden: `permit` refuses a node that the proposal touches.
        Overruled: Another hub has just decided about it.
        Unavailable: The proposal was changed at the same time.
    """
    commit = bytes.fromhex(proposal.commit)
    if permit:
        permit(touches(workspace, proposal), workspace.policy)
    if not proposal.remote and (hubs := shared(workspace)):
        return hubs.reject(proposal.name, commit, by, reason)
    kept = archive(workspace, proposal.name, commit, by, reason)
    if proposal.remote:
        workspace.tell_uncommitted()
    else:
        _remove(workspace, proposal)
    return kept


def archive(workspace: Workspace, name: str, commit: ObjectId, by: str, reason: str) -> str:
    """Keep a rejected proposal; return the full name of the ref that keeps it. Has no effect the second time."""
    git_dir, scratch = workspace.layout.git_dir, workspace.layout.derived_dir
    flat = REJECTED + name.replace("/", ".")
    known = list_refs(git_dir, REJECTED)
    kept = flat if known.get(flat, commit) == commit else f"{flat}-{commit.hex()[:10]}"
    note = f"{_BY}{by}" + (f": {reason}" if reason else "")
    if kept not in known:
        move_ref(git_dir, scratch, kept, None, commit, note=note[:500])
    return kept


def drop_merged(workspace: Workspace) -> None:
    """Remove open proposals that the tip already contains, because they were accepted elsewhere."""
    tip, hubs = bytes.fromhex(workspace.tip), shared(workspace)
    for ref, commit in list_refs(workspace.layout.git_dir, PROPOSALS).items():
        with contextlib.suppress(KgdError):
            if workspace.store.is_ancestor(commit, tip):
                if hubs:
                    hubs.remove(ref.removeprefix(PROPOSALS), commit)
                    continue
                delete_refs(workspace.layout.git_dir, {ref: commit})
                workspace.tell_uncommitted()


def touches(workspace: Workspace, proposal: Proposal) -> Touched:
    """Everything that the proposal changes, in total and in each of its commits that the tip lacks.

    Raises:
        Limit: The proposal has more than a thousand commits.
        Damaged: One of them is missing or cannot be read.
    """
    tip = bytes.fromhex(workspace.tip)
    return _touched_by_commits(workspace, tip, bytes.fromhex(proposal.commit))


def _remove(workspace: Workspace, proposal: Proposal) -> None:
    if hubs := shared(workspace):
        return hubs.remove(proposal.name, bytes.fromhex(proposal.commit))
    try:
        delete_refs(workspace.layout.git_dir, {proposal.ref: bytes.fromhex(proposal.commit)})
    except Unavailable as error:
        raise Unavailable(
            f"the proposal is still listed: {error.message[:100]}",
            at=proposal.name,
            next="It may have changed: read it again.",
        ) from None
    workspace.tell_uncommitted()


def _whole(
    workspace: Workspace, proposal: Proposal, author: Author, permit: Permit | None, message: str, dry_run: bool
) -> Job:
    store, commit = workspace.store, bytes.fromhex(proposal.commit)

    def job(staging: Staging, tip: ObjectId) -> Staged[object]:
        if store.is_ancestor(commit, tip):
            return Staged(Outcome(None, warnings=("this proposal is in the workspace already",)))
        try:
            check_signatures(workspace, tip, commit)
        except Forbidden as refusal:
            refusal.next = "Accept its nodes with `--only`, as a commit signed by kgd; or ask the proposer to sign it."
            raise
        merged = merge_commits(store, tip, commit, workspace.sharded)
        files = left_of(workspace, store.tree_of(tip), merged)
        touched = touched_by(staging, files, workspace.id, workspace.sharded)
        _authorize(permit, staging, workspace, touched | _touched_by_commits(workspace, tip, commit))
        subject = message.strip() or subject_from("accept", proposal.subject)
        changes = ChangeSet(
            (), author, subject, operation="accept", origin=f"proposals/{proposal.id}", accepted_by=author.name
        )
        text = message_of(changes, touched.uris)
        would = dry_run_effect(text, author.name, files, staging.read) if dry_run else None
        staging.write(files)
        tree = staging.write_tree()
        also = _also(workspace, proposal, staging, is_done=True)
        made = _commit(workspace, staging, tree, [tip, commit], signature(author, workspace.now()), text)
        return Staged(_outcome(made, touched, merged, would), made, None, also=also)

    return job


def _part(
    workspace: Workspace,
    proposal: Proposal,
    author: Author,
    only: Chosen,
    permit: Permit | None,
    told: Sequence[Bundle],
    message: str,
    dry_run: bool,
) -> Job:
    """Make one plain commit with `only` this part, or with all remaining changes, so that one revert undoes it."""
    store, commit = workspace.store, bytes.fromhex(proposal.commit)

    def job(staging: Staging, tip: ObjectId) -> Staged[object]:
        merged = merge_commits(store, tip, commit, workspace.sharded)
        left = left_of(workspace, store.tree_of(tip), merged)
        files = files_of(workspace, staging, left, only, told) if only else left
        if not files:
            return Staged(Outcome(None, warnings=("this proposal is in the workspace already",)))
        touched = touched_by(staging, files, workspace.id, workspace.sharded)
        _authorize(permit, staging, workspace, touched)
        original = store.commit(commit)
        by_author = Author(original.author_name, original.author_email)
        subject = message.strip() or _message(proposal, told, touched)
        changes = ChangeSet(
            (),
            by_author,
            subject,
            operation="accept",
            origin=f"proposals/{proposal.id}",
            resolved_by=dict(trailers(original.message)).get(RESOLVED_BY, "")[:200],
            accepted_by=author.name,
        )
        text = message_of(changes, touched.uris)
        would = dry_run_effect(text, by_author.name, files, staging.read) if dry_run else None
        changed = staging.write(files)
        by = Signature(original.author_name, original.author_email, workspace.now())
        made = _commit(workspace, staging, staging.write_tree(), [tip], by, text)
        also = _also(workspace, proposal, staging, is_done=left == files)
        return Staged(_outcome(made, touched, merged, would), made, changed, by, also=also)

    return job


def _commit(
    workspace: Workspace, staging: Staging, tree: ObjectId, parents: list[ObjectId], by: Signature, text: str
) -> ObjectId:
    """Make the commit; with several hubs, its seal proves to the others that a hub made it, not a pusher."""
    make = workspace.seal.commit if shared(workspace) else Staging.commit
    return make(staging, tree, parents, by, text)


def _also(workspace: Workspace, proposal: Proposal, staging: Staging, *, is_done: bool) -> Sequence[RefUpdate]:
    """The updates of the upstream's refs that belong to an acceptance; see `SharedProposals.also`."""
    if proposal.remote or (hubs := shared(workspace)) is None:
        return ()
    return hubs.also(proposal.name, bytes.fromhex(proposal.commit), staging, is_done=is_done)


def _message(proposal: Proposal, told: Sequence[Bundle], touched: Touched) -> str:
    taken = [records.written(one) for one in told if not touched.uris.isdisjoint(one.nodes)]
    part = "" if len(taken) == len(told) else ", a part of it"
    return "\n".join([f"{proposal.subject}{part}", "", *taken]) if taken else proposal.subject


def _authorize(permit: Permit | None, staging: Staging, workspace: Workspace, touched: Touched) -> None:
    if permit:
        permit(touched, policy_in(staging.read(SETTINGS), workspace.id))


def _outcome(commit: ObjectId, touched: Touched, merged: MergedTree, would: Would | None) -> Outcome:
    uris = {one.uri for one in merged.conflicts} & touched.uris
    warnings = tuple(f"{uri} was also changed here: both versions are kept as a conflict" for uri in sorted(uris))
    return Outcome(commit.hex(), tuple((uri, 0) for uri in sorted(touched.uris)), warnings=warnings, would=would)


def _touched_by_commits(workspace: Workspace, tip: ObjectId, commit: ObjectId) -> Touched:
    store, past = workspace.store, workspace.past
    touched = Touched()
    for id in _commits(workspace, tip, commit):
        one = store.commit(id)
        parent = store.tree_of(one.parents[0]) if one.parents else None
        touched |= of_files(past.files_of(one), store, parent, workspace.id, workspace.sharded)
    return touched


def _commits(workspace: Workspace, tip: ObjectId, commit: ObjectId) -> Sequence[ObjectId]:
    """The proposal's own commits, newest first.

    Raises:
        Damaged, Limit: A commit is missing, or there are too many.
    """
    try:
        said = program.run(
            workspace.layout.git_dir, ["rev-list", f"--max-count={MAX_COMMITS + 1}", commit.hex(), f"^{tip.hex()}"]
        )
    except program.GitFailed as error:
        raise Damaged(f"a commit of the proposal cannot be read: {error.said[:100]}", at=commit.hex()) from error
    found = [bytes.fromhex(line) for line in said.decode().split()]
    if len(found) > MAX_COMMITS:
        raise Limit(f"a proposal has at most {MAX_COMMITS} commits", next="Squash them into fewer.")
    return found


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on a proposal, who made it (empty if unknown), and when; `commit` and `nodes` if it was accepted."""

    how: Literal["accepted", "rejected"]
    by: str
    at: int
    commit: str = ""
    reason: str = ""
    nodes: tuple[Uri, ...] = ()


def decision(workspace: Workspace, id: str) -> Decision | None:
    """The last decision on a proposal with this name (and this commit, if given); None if no decision is known.

    Reads the messages of the whole history.
    """
    name, _, commit = id.removeprefix(PROPOSALS).removeprefix("proposals/").partition("@")
    if not is_name(name):
        return None
    return _rejection(workspace, name, commit) or acceptance(workspace, name, commit)


def _rejection(workspace: Workspace, name: str, commit: str) -> Decision | None:
    if hubs := shared(workspace):
        with contextlib.suppress(Unavailable):
            found = hubs.rejection(name, commit)
            return Decision("rejected", found.by, found.at, reason=found.reason) if found else None
    git_dir, flat = workspace.layout.git_dir, REJECTED + name.replace("/", ".")
    for ref, tip in list_refs(git_dir, flat).items():
        if ref not in (flat, f"{flat}-{tip.hex()[:10]}") or not tip.hex().startswith(commit):
            continue
        for line in reversed(read_log(git_dir, ref)):
            if line.note.startswith(_BY):
                by, _, reason = line.note.removeprefix(_BY).partition(": ")
                return Decision("rejected", by, line.time, reason=reason)
    return None


def acceptance(workspace: Workspace, name: str, commit: str) -> Decision | None:
    """The last acceptance of a proposal with this name at a commit with this prefix; None if there is none."""
    origin = f"proposals/{name}@{commit[:10]}"
    try:
        said = program.run(
            workspace.layout.git_dir,
            ["log", "--max-count=1", "--format=%H", "--fixed-strings", f"--grep={ORIGIN}: {origin}", HEAD],
        )
        if not (id := said.decode().strip()):
            return None
        made = workspace.past.commit(bytes.fromhex(id))
        entry = workspace.past.entry(made, limit=2_000)
    except (KgdError, program.GitFailed):
        return None
    if not dict(trailers(made.message)).get(ORIGIN, "").startswith(origin):
        return None  # the message only resembles one of an acceptance
    by = entry.author if len(made.parents) > 1 else ""  # for a part, the commit's author is the proposal's author
    return Decision("accepted", by, entry.at, id, nodes=entry.nodes)
