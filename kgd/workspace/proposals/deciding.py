"""Decisions about proposed changes: acceptance as a whole, by kgd's own merge, or in part, as one commit; rejection;
and submissions.

A *submission* has changes that were made elsewhere against a known base. They are merged now, or become a proposal: the
difference from the base is merged three-way into the tip as one commit. If the submitter may only propose, or the tip
changed the same nodes, the whole submission becomes a proposal on that base.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from kgd.codec import paths
from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import policy_in
from kgd.errors import Forbidden, Invalid, KgdError, Limit, NotFound, Stale, Unavailable
from kgd.git.objects import ObjectId, Signature, signature, trailers
from kgd.git.refs import ACCEPTED, INCOMING, PROPOSALS, REJECTED, RefMoved, RefUpdate, delete_refs, list_refs, move_ref
from kgd.git.staging import Staging, Unwritten
from kgd.model.access import Principal
from kgd.model.change import Author, ChangeSet, Delete, Edit, Upsert, subject_from
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.workspace.answers import NodeChange, Outcome, Would
from kgd.workspace.merging.histories import merge_commits
from kgd.workspace.merging.trees import MergedTree, merge_trees
from kgd.workspace.parts import node_in
from kgd.workspace.proposals import proposals, records
from kgd.workspace.proposals.decided import ORIGIN, Decided, acceptance, accepted, archive, rejected
from kgd.workspace.proposals.proposals import Chosen, Proposal, files_of, left_of, vet
from kgd.workspace.proposals.records import Bundle, shared
from kgd.workspace.publishing.adoption import check_signatures
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.broken_links import broken_by
from kgd.workspace.writing.secrets import refuse_secret_text
from kgd.workspace.writing.touched_nodes import Permit, Touched, of_files, touched_by
from kgd.workspace.writing.transaction import (
    RESOLVED_BY,
    Transaction,
    commit_of,
    dry_run_effect,
    entries_of,
    message_of,
)
from kgd.workspace.writing.writer import Staged

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
    tip = bytes.fromhex(workspace.tip)
    if outcome.commit and not proposal.remote and (hubs := shared(workspace)):
        hubs.changed()  # the push of the commit has removed the proposal
    elif not part or not _left_to_decide(workspace, tip, commit):
        _remove_accepted(workspace, proposal)
    elif outcome.commit and not proposal.remote:
        with contextlib.suppress(RefMoved):  # continued in the meantime: the rest has another commit
            note, place = records.partly_accepted(author.name), workspace.layout
            move_ref(place.git_dir, place.derived_dir, proposal.ref, commit, commit, note=note)
    return outcome


def reject(
    workspace: Workspace,
    proposal: Proposal,
    by: str,
    reason: str = "",
    *,
    withdrawn: bool = False,
    permit: Permit | None = None,
) -> str:
    """Reject an open proposal; return the full name of the ref that keeps it.

    Args:
        withdrawn: Whether its proposer withdraws it.

    Raises:
        Forbidden: `permit` refuses a node that the proposal touches.
        Overruled: Another hub has just decided about it.
        Unavailable: The proposal was changed at the same time.
    """
    commit = bytes.fromhex(proposal.commit)
    if permit:
        permit(touches(workspace, proposal), workspace.policy)
    if not proposal.remote and (hubs := shared(workspace)):
        return hubs.reject(proposal.name, commit, by, reason, withdrawn=withdrawn)
    decision = rejected(by, workspace.now(), reason, withdrawn)
    kept = archive(workspace, proposal.name, commit, decision)
    if proposal.remote:
        workspace.tell_uncommitted()
    else:
        _remove(workspace, proposal)
    return kept


def drop_merged(workspace: Workspace, since: ObjectId, by: str) -> None:
    """Remove open proposals that were accepted elsewhere, by commits after `since` that a holder pushed: the tip
    contains the proposal, or they accept parts of it and leave nothing to decide."""
    tip, hubs = bytes.fromhex(workspace.tip), shared(workspace)
    shown = list_refs(workspace.layout.git_dir, PROPOSALS)
    in_part = _named_by_commits(workspace, since, tip) if shown else ()
    for ref, commit in shown.items():
        with contextlib.suppress(KgdError):
            is_done = commit.hex()[:10] in in_part and not _left_to_decide(workspace, tip, commit)
            if is_done or workspace.store.is_ancestor(commit, tip):
                name = ref.removeprefix(PROPOSALS)
                if hubs:
                    hubs.remove(name, commit)
                    continue
                archive(workspace, name, commit, accepted(workspace, name, commit, by))
                delete_refs(workspace.layout.git_dir, {ref: commit})
                workspace.tell_uncommitted()


def archive_accepted(workspace: Workspace, remote: str, gone: Mapping[str, ObjectId]) -> None:
    """Archive the proposals of a remote that another clone accepted. The tip contains such a proposal, or all parts of
    one that is `gone` from the remote."""
    tip, git_dir = bytes.fromhex(workspace.tip), workspace.layout.git_dir
    base = f"{INCOMING}{remote}/proposals/"
    known = {ref.removeprefix(base): commit for ref, commit in list_refs(git_dir, base).items()} | dict(gone)
    kept = {*list_refs(git_dir, ACCEPTED).values(), *list_refs(git_dir, REJECTED).values()} if known else set()
    for name, commit in known.items():
        with contextlib.suppress(KgdError):
            if commit in kept or not workspace.store.exists(commit):
                continue
            in_part = name in gone and acceptance(workspace, name, commit.hex())
            is_done = in_part and not _left_to_decide(workspace, tip, commit)
            if is_done or workspace.store.is_ancestor(commit, tip):
                archive(workspace, f"{remote}/{name}", commit, accepted(workspace, name, commit))


def _named_by_commits(workspace: Workspace, since: ObjectId, tip: ObjectId) -> Collection[str]:
    """The commits, in ten digits, of the proposals that the commits after `since` accept; none if there are more than
    `MAX_COMMITS`."""
    store = workspace.store
    try:
        made = [store.commit(id) for id in store.commits_between([since], tip, limit=MAX_COMMITS)]
    except KgdError:
        return ()
    return {dict(trailers(one.message)).get(ORIGIN, "").rpartition("@")[2] for one in made}


def _left_to_decide(workspace: Workspace, tip: ObjectId, commit: ObjectId) -> dict[str, bytes | None]:
    """The changes of a proposal that the tip lacks."""
    store = workspace.store
    return left_of(workspace, store.tree_of(tip), merge_commits(store, tip, commit, workspace.sharded))


def touches(workspace: Workspace, proposal: Proposal) -> Touched:
    """Everything that the proposal changes, in total and in each of its commits that the tip lacks.

    Raises:
        Limit: The proposal has more than a thousand commits.
        Damaged: One of them is missing or cannot be read.
    """
    return _touched_by_commits(workspace, bytes.fromhex(workspace.tip), bytes.fromhex(proposal.commit))


def nodes_of(workspace: Workspace, one: Decided) -> frozenset[Uri]:
    """The nodes that a decided proposal changes; empty if they are unknown, or if it changes the settings.

    Compares its commits, at the first call, with the tip before the acceptance or, for a rejected one, at this call.
    """
    if one.nodes is None:
        try:
            touched = _touched_by_commits(workspace, _before(workspace, one), bytes.fromhex(one.proposal.commit))
        except KgdError:
            return frozenset()
        one.nodes = frozenset() if touched.settings else frozenset(touched.uris)
    return one.nodes


def changes_of(workspace: Workspace, one: Decided) -> list[NodeChange]:
    """The changes of a decided proposal to `nodes_of`, as proposed; empty if they are unknown. Compares two commits."""
    commit = bytes.fromhex(one.proposal.commit)
    try:
        bases = workspace.store.merge_bases(_before(workspace, one), commit)
        changes = workspace.past.changes_between(bases[0], commit) if bases else ()
    except KgdError:
        return []
    nodes = nodes_of(workspace, one)
    return [change for change in changes if change.uri in nodes]


def _before(workspace: Workspace, one: Decided) -> ObjectId:
    """The tip before the acceptance of a proposal; for a rejected one, the tip now."""
    if made := one.decision.commit:
        return workspace.past.commit(bytes.fromhex(made)).parents[0]
    return bytes.fromhex(workspace.tip)


def _remove_accepted(workspace: Workspace, proposal: Proposal) -> None:
    """Archive an accepted proposal, and remove its ref. A sync removes the ref of a remote's proposal."""
    commit = bytes.fromhex(proposal.commit)
    if not proposal.remote and (hubs := shared(workspace)):
        return hubs.remove(proposal.name, commit)
    archive(workspace, proposal.name, commit, accepted(workspace, proposal.name, commit))
    if proposal.remote:
        workspace.tell_uncommitted()
    else:
        _remove(workspace, proposal)


def _remove(workspace: Workspace, proposal: Proposal) -> None:
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
        warnings = _warnings(workspace, staging, files, touched, merged)
        staging.write(files)
        tree = staging.write_tree()
        also = _also(workspace, proposal, staging, author.name, is_done=True)
        made = _commit(workspace, staging, tree, [tip, commit], signature(author, workspace.now()), text)
        return Staged(_outcome(made, touched, warnings, would), made, None, also=also)

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
        by_author = Author(original.author.name, original.author.email)
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
        warnings = _warnings(workspace, staging, files, touched, merged)
        changed = staging.write(files)
        by = Signature(original.author.name, original.author.email, workspace.now())
        made = _commit(workspace, staging, staging.write_tree(), [tip], by, text)
        also = _also(workspace, proposal, staging, author.name, is_done=left == files)
        return Staged(_outcome(made, touched, warnings, would), made, changed, by, also=also)

    return job


def _commit(
    workspace: Workspace, staging: Staging, tree: ObjectId, parents: list[ObjectId], by: Signature, text: str
) -> ObjectId:
    """Make the commit; with several hubs, its seal proves to the others that a hub made it, not a pusher."""
    make = workspace.seal.commit if shared(workspace) else Staging.commit
    return make(staging, tree, parents, by, text)


def _also(workspace: Workspace, proposal: Proposal, staging: Staging, by: str, *, is_done: bool) -> Sequence[RefUpdate]:
    """The updates of the upstream's refs that belong to an acceptance; see `SharedProposals.also`."""
    if proposal.remote or (hubs := shared(workspace)) is None:
        return ()
    note = "" if is_done else records.partly_accepted(by)
    return hubs.also(proposal.name, bytes.fromhex(proposal.commit), staging, left=note)


def _message(proposal: Proposal, told: Sequence[Bundle], touched: Touched) -> str:
    taken = [records.written(one) for one in told if not touched.uris.isdisjoint(one.nodes)]
    part = "" if len(taken) == len(told) else ", a part of it"
    return "\n".join([f"{proposal.subject}{part}", "", *taken]) if taken else proposal.subject


def _authorize(permit: Permit | None, staging: Staging, workspace: Workspace, touched: Touched) -> None:
    if permit:
        permit(touched, policy_in(staging.read(SETTINGS), workspace.id))


def _warnings(
    workspace: Workspace, staging: Staging, files: Mapping[str, bytes | None], touched: Touched, merged: MergedTree
) -> tuple[str, ...]:
    """Warnings about conflicts with newer changes, and about links that the acceptance of these files breaks."""
    uris = {one.uri for one in merged.conflicts} & touched.uris
    disputed = (f"{uri} was also changed here: both versions are kept as a conflict" for uri in sorted(uris))
    if all(data is not None and not paths.is_part_path(path) for path, data in files.items()):
        return tuple(disputed)
    changed: dict[Uri, Node | None] = {}
    for path, data in files.items():
        if paths.is_node_path(path) or paths.is_part_path(path):
            for uri, _, after in entries_of(path, staging.read(path), data):
                # A node that moves between its own file and a part is removed from one of them.
                changed[uri] = node_in(path, after) or changed.get(uri)
    return (*disputed, *broken_by(changed, workspace.graph, workspace.in_overlay))


def _outcome(commit: ObjectId, touched: Touched, warnings: tuple[str, ...], would: Would | None) -> Outcome:
    return Outcome(commit.hex(), tuple((uri, 0) for uri in sorted(touched.uris)), warnings=warnings, would=would)


def _touched_by_commits(workspace: Workspace, tip: ObjectId, commit: ObjectId) -> Touched:
    store, past = workspace.store, workspace.past
    touched = Touched()
    try:
        own = store.commits_between([tip], commit, limit=MAX_COMMITS)
    except Limit as error:
        error.next = "Squash them into fewer."
        raise
    for one in map(store.commit, own):
        parent = store.tree_before(one)
        touched |= of_files(past.files_of(one), store, parent, workspace.id, workspace.sharded)
    return touched


VERSIONS_LOOKED_AT = 10_000
"""Maximum number of commits of a node's history to search for an expected version."""

What = Literal["merged", "proposed", "unchanged"]


@dataclass(frozen=True, slots=True)
class Submission:
    """The result of a submission. `conflicts` are nodes changed on both sides; `why` is the reason why the submission
    waits for a decision."""

    what: What
    outcome: Outcome
    proposal: Proposal | None = None
    conflicts: tuple[Uri, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Submitter:
    """The submitter, with the checks before a merge and before a proposal.

    `owner` will own a proposal; None means a person on this machine. `most` limits open proposals of the owner's
    line; None means no limit.
    """

    holder: str
    owner: Principal | None = None
    write: Permit | None = None
    propose: Permit | None = None
    most: int | None = None


class _Clash(Invalid):
    """The same nodes have been changed at the tip in the meantime."""

    def __init__(self, conflicts: tuple[Uri, ...]) -> None:
        super().__init__("the same nodes were also changed here")
        self.conflicts = conflicts


def submit(workspace: Workspace, changes: ChangeSet, who: Submitter, *, base: str = "") -> Submission:
    """Merge the changes, or propose them; return when that is durable.

    A repeated request id returns the first result. If no base is given, the expected versions determine the base;
    without expected versions, the base is the tip.

    Raises:
        Forbidden: The submitter may neither make nor propose some of the changes. Nothing was written.
        Stale: There is no commit with all expected versions.
        Invalid: The base is not in the history of this workspace.
        KgdError: As `Workspace.submit`.
    """
    if (waiting := proposals.by_request(workspace, changes.request_id)) is not None:
        return Submission("proposed", Outcome(waiting.commit, repeated=True), waiting)
    if done := workspace.repeated(changes.request_id):
        return Submission("merged", done)
    if base:
        seen = _base(workspace, base)
        return _merge_onto(workspace, expecting(workspace, changes, seen), who, seen)
    try:
        return _at_tip(workspace, changes, who)
    except Stale:
        older = None if _exists_already(workspace, changes) else _base_of_versions(workspace, changes)
        if older is None:
            raise
        return _merge_onto(workspace, changes, who, older)


def _at_tip(workspace: Workspace, changes: ChangeSet, who: Submitter) -> Submission:
    tip = bytes.fromhex(workspace.tip)
    try:
        outcome = workspace.submit(changes, permit=who.write)
        return Submission("merged" if outcome.commit else "unchanged", outcome)
    except Forbidden as refusal:
        return _proposed(workspace, changes, who, tip, (), refusal)


def _merge_onto(workspace: Workspace, changes: ChangeSet, who: Submitter, base: ObjectId) -> Submission:
    try:
        outcome = workspace.run(lambda staging, tip: _staged(workspace, changes, who, base, staging, tip))
        assert isinstance(outcome, Outcome)
        return Submission("merged" if outcome.commit else "unchanged", outcome)
    except _Clash as clash:
        return _proposed(workspace, changes, who, base, clash.conflicts, None)
    except Forbidden as refusal:
        return _proposed(workspace, changes, who, base, (), refusal)


def _staged(
    workspace: Workspace, changes: ChangeSet, who: Submitter, base: ObjectId, staging: Staging, tip: ObjectId
) -> Staged[object]:
    """One commit on the tip: the changes applied to the base, merged with all later changes."""
    if done := workspace.repeated(changes.request_id):
        return Staged(done)
    store = workspace.store
    beside = Staging(store, store.tree_of(base))
    then = workspace.surroundings_at(base)
    made = Transaction(changes, then, workspace.now()).stage(beside, base)
    if made.commit is None:
        return Staged(made.answer)
    view = Unwritten(store, beside.objects)
    merged = merge_trees(view, store.tree_of(base), store.tree_of(tip), view.tree_of(made.commit), workspace.sharded)
    if merged.conflicts:
        raise _Clash(tuple(sorted({one.uri for one in merged.conflicts})))
    files = {path: data for path, data in merged.files.items() if staging.read(path) != data}
    touched = touched_by(staging, files, workspace.id, workspace.sharded)
    if who.write:
        who.write(touched, policy_in(staging.read(SETTINGS), workspace.id))
    if not files:
        return Staged(Outcome(None, warnings=("the workspace already has these values",)))
    changed = staging.write(files)
    by = signature(changes.author, workspace.now())
    commit = commit_of(staging, tip, by, changes.request_id, message_of(changes, touched.uris), workspace.seal)
    written = [uri for uri, _ in made.answer.nodes if uri in touched.uris]
    left = tuple((uri, workspace.version(workspace.path(uri)) + 1) for uri in written)  # on the tip, not on the base
    outcome = Outcome(commit.hex(), left, made.answer.created, (), made.answer.warnings, deleted=made.answer.deleted)
    return Staged(outcome, commit, changed, by, changes.request_id)


def _proposed(
    workspace: Workspace,
    changes: ChangeSet,
    who: Submitter,
    base: ObjectId,
    conflicts: tuple[Uri, ...],
    refusal: Forbidden | None,
) -> Submission:
    """Propose the changes; if that is also forbidden, raise the clearer of the two refusals."""
    if refusal is not None and who.propose is None:
        raise refusal
    try:
        proposal, outcome = proposals.propose(
            workspace, changes, base, holder=who.holder, owner=who.owner, permit=who.propose, most=who.most
        )
    except Forbidden as second:
        # Report a node that may not even be proposed; a refused write alone is not a reason.
        raise (second if second.at or refusal is None else refusal) from None
    why = refusal.message if refusal else "the same nodes were also changed here"
    return Submission("proposed", outcome, proposal, conflicts, why)


def _base(workspace: Workspace, text: str) -> ObjectId:
    try:
        return workspace.past.commit_id(text, of=bytes.fromhex(workspace.tip))
    except NotFound:
        raise Invalid(
            "the base is not in the history of this workspace",
            at="base",
            next="Give a commit from an answer of this workspace, or omit the base.",
        ) from None


def expecting(workspace: Workspace, changes: ChangeSet, base: ObjectId) -> ChangeSet:
    """The changes with expected versions taken from a base: a submitter who gives a base has seen the content there."""
    then = workspace.surroundings_at(base)

    def seen(edit: Edit) -> Edit:
        replaces = isinstance(edit, Upsert) and (edit.content is not None or edit.detail is not None)
        if isinstance(edit, Upsert) and replaces and edit.expect_version is None:
            return replace(edit, expect_version=then.version_at_base(workspace.path(then.resolve(edit.uri))))
        return edit

    return replace(changes, edits=tuple(map(seen, changes.edits)))


def _exists_already(workspace: Workspace, changes: ChangeSet) -> bool:
    """Whether a node that should be new already exists, so that searching older commits does not help."""
    new = [one.uri for one in changes.edits if isinstance(one, Upsert) and one.expect_version == 0]
    return any(workspace.node(workspace.resolve(uri)) is not None for uri in new)


def _base_of_versions(workspace: Workspace, changes: ChangeSet) -> ObjectId | None:
    """The newest commit at which every expected node has its expected version; None if there is no such commit."""
    expected = {
        workspace.history.files_of(workspace.resolve(edit.uri)): edit.expect_version
        for edit in changes.edits
        if isinstance(edit, Upsert | Delete) and edit.expect_version
    }
    tip = bytes.fromhex(workspace.tip)
    candidates: list[ObjectId] = []
    for files, version in expected.items():
        entries = workspace.past.log(tip, files, limit=VERSIONS_LOOKED_AT)
        if 0 < version <= len(entries):
            candidates.append(entries[len(entries) - version].commit.id)
    for candidate in sorted(set(candidates), key=lambda id: -workspace.store.commit(id).committer.time):
        then = workspace.surroundings_at(candidate)
        try:
            if all(then.version(files[0]) == version for files, version in expected.items()):
                return candidate
        except KgdError:
            continue
    return None
