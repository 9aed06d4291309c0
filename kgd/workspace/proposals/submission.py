"""Submissions: changes made elsewhere against a known base, merged now or proposed.

The difference from the base is merged three-way into the tip as one commit. If the submitter may only propose, or the
tip changed the same nodes, the whole submission becomes a proposal on that base.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import policy_in
from kgd.errors import Forbidden, Invalid, KgdError, NotFound, Stale
from kgd.git.objects import ObjectId, signature
from kgd.git.staging import Staging, Unwritten
from kgd.model.access import Principal
from kgd.model.change import ChangeSet, Delete, Edit, Upsert
from kgd.model.uri import Uri
from kgd.workspace.answers import Outcome
from kgd.workspace.merging.trees import merge_trees
from kgd.workspace.proposals import proposals
from kgd.workspace.proposals.proposals import Proposal
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.touched_nodes import Permit, touched_by
from kgd.workspace.writing.transaction import Transaction, commit_of, message_of
from kgd.workspace.writing.writer import Staged

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
