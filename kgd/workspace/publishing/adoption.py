"""Adoption: a person's saved files and their own commits become part of the workspace.

Each function makes a job for the writer. A person's work is merged three-way against its base; a disagreement becomes a
conflict record, and neither side is lost.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kgd.codec import bulk, documents, paths
from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import decode_settings, why_too_new
from kgd.errors import Forbidden, Invalid, KgdError, Unavailable
from kgd.git.layout import Layout
from kgd.git.objects import FOLDER, PLAIN, ObjectId, Signature, signature
from kgd.git.rewriting import refuse_forgotten
from kgd.git.staging import KGD, Staging
from kgd.git.store import ObjectStore
from kgd.model.change import Author, ChangeSet
from kgd.model.node import MEMORY_TYPES, Node
from kgd.model.uri import Uri, collision_key
from kgd.workspace.history.pushers import SignedHistory
from kgd.workspace.memory_files import Home, follow_commits, follow_memory, follow_node
from kgd.workspace.merging.files import merge_file, record_files
from kgd.workspace.merging.histories import COLLISIONS, merge_commits, new_twins, of_merge
from kgd.workspace.merging.trees import merge_trees
from kgd.workspace.parts import FILE_LIMIT, READABLE, Folder, node_in
from kgd.workspace.publishing.hand_edits import HandEdit
from kgd.workspace.publishing.work_tree import OWNED_FOLDERS
from kgd.workspace.writing.admission import check, twin_of
from kgd.workspace.writing.draft import conflict_records, is_resource
from kgd.workspace.writing.signing import CommitSigning
from kgd.workspace.writing.transaction import message_of
from kgd.workspace.writing.writer import Staged

COMMITS = 100_000
"""Largest number of a person's new commits whose signatures are checked at once."""

_OF_MEMORIES = tuple(f"nodes/{scheme}/" for scheme in sorted(MEMORY_TYPES))
"""The usual folders of nodes with a memory; changes to other nodes cost nothing here."""


class Job(Protocol):
    def __call__(self, staging: Staging, tip: ObjectId, /) -> Staged[object]: ...


class Host(Protocol):
    """The interface of the workspace that publication needs."""

    layout: Layout
    workspace: str
    sharded: frozenset[str]
    signing: CommitSigning

    @property
    def store(self) -> ObjectStore: ...
    @property
    def tip(self) -> str: ...
    def run(self, job: Job, *, alone: bool = False) -> object: ...
    def tell_uncommitted(self) -> None: ...
    def in_overlay(self, uri: Uri) -> bool: ...
    def twin(self, uri: Uri) -> Uri | None: ...
    def resolve(self, uri: Uri) -> Uri: ...


@dataclass(slots=True)
class Committed:
    """The committed edits, and the reasons why others were refused."""

    edits: list[HandEdit] = field(default_factory=list)
    refused: list[tuple[str, KgdError]] = field(default_factory=list)
    conflicts: int = 0


def commit_edits(host: Host, edits: Sequence[HandEdit], author: Author, now: int) -> Job:
    """Make one commit by this person with all the edits. A refused file does not stop the others."""

    def job(staging: Staging, tip: ObjectId) -> Staged[object]:
        taken, uris = Committed(), set[Uri]()
        changed: dict[str, ObjectId | None] = {}
        gone, made = {edit.path for edit in edits if edit.data is None}, dict[str, Uri]()
        for edit in edits:
            try:
                _refuse_twin(host, staging, edit, gone, made)
                files = _merged(host, staging, edit, taken, uris)
                changed.update(staging.write({p: data for p, data in files.items() if staging.read(p) != data}))
            except KgdError as error:
                taken.refused.append((edit.path, error))
            else:
                taken.edits.append(edit)
        if not changed:
            return Staged(taken)
        settled = [path for path, blob in changed.items() if blob is None and path.startswith("conflicts/")]
        changes = ChangeSet((), author, f"edit {_some(sorted(uris) or sorted(changed))} by hand", operation="hand-edit")
        return _committed(taken, staging, tip, now, changes, changed, uris, settled)

    return job


def _committed(
    answer: object,
    staging: Staging,
    tip: ObjectId,
    now: int,
    changes: ChangeSet,
    changed: dict[str, ObjectId | None],
    uris: Collection[Uri],
    settled: Collection[str] = (),
) -> Staged[object]:
    """Stage one commit on the tip with the files that were written."""
    by = signature(changes.author, now)
    commit = staging.commit(staging.write_tree(), [tip], by, message_of(changes, uris, settled))
    return Staged(answer, commit, changed, by)


def adopt(host: Host, known: ObjectId | None, branch: ObjectId, author: Author, now: int) -> Job:
    """Merge the person's branch into the tip: by a fast-forward or one merge commit, if there is anything to merge.

    `known` is the commit of the branch when it was last in step. If the person has rewritten the branch since (reset,
    amend, a rebase that drops commits), a plain commit removes the dropped changes here as well; history keeps them,
    and a revert restores them (docs/decisions/0004-rewritten-branch.md). The job must run alone. It returns whether the
    tip moved.

    Raises:
        KgdError: The branch contains content that is not valid in a workspace; nothing was merged.
    """
    store = host.store
    _look_through(host, branch)

    def job(staging: Staging, tip: ObjectId) -> Staged[object]:
        rewritten = known is not None and not store.is_ancestor(known, branch)
        if rewritten:
            assert known is not None
            return _follow_rewrite(host, staging, tip, branch, known, signature(author, now))
        return _joined(host, staging, tip, branch)

    return job


def merge(host: Host, other: ObjectId) -> Job:
    """Merge `other` into the tip: by a fast-forward or one merge commit, if there is anything to merge. The job must
    run alone.

    The merge commit is a function of its two parents, so every replica makes the same commit. `other` must be vetted
    and in the repository. The job returns whether the tip moved.

    Raises:
        Unavailable: `other` has an unknown format or unknown merge rules; the tip stays.
    """
    blob = host.store.entry(host.store.tree_of(other), SETTINGS)
    if blob and (why := why_too_new(decode_settings(host.store.read(blob, FILE_LIMIT), newer=True))):
        raise Unavailable(
            f"the commits to merge have {why}", at=SETTINGS, next="Install a newer kgd; nothing was merged."
        )
    return lambda staging, tip: _joined(host, staging, tip, other)


def _joined(host: Host, staging: Staging, tip: ObjectId, other: ObjectId) -> Staged[object]:
    store = host.store
    if store.is_ancestor(other, tip):
        return Staged(False)
    if store.is_ancestor(tip, other):
        return Staged(True, _fast_forward(host, staging, tip, other), None)
    return Staged(True, merge_commit(store, staging, tip, other, host.sharded), None)


def _fast_forward(host: Host, staging: Staging, tip: ObjectId, other: ObjectId) -> ObjectId:
    """Move to `other`, or to a commit on top of it that records colliding names and is the same on every replica."""
    store = host.store
    staging.reset(store.tree_of(other))
    found = new_twins(store, tip, other, host.sharded)
    if not found:
        return other
    staging.write(record_files(found, host.sharded))
    when = store.commit(other).committer.time
    return staging.commit(staging.write_tree(), [other], Signature(*KGD, when), COLLISIONS, pure=True)


def merge_commit(
    store: ObjectStore, staging: Staging, tip: ObjectId, other: ObjectId, sharded: frozenset[str]
) -> ObjectId:
    """Stage the merge commit of two tips on the tree of `tip`. Its id is the same for both sides.

    Raises:
        Unavailable, Damaged: As `merge_commits`; nothing was staged.
    """
    staging.write(merge_commits(store, tip, other, sharded).files)
    parents, by, message = of_merge(store, (tip, other))
    return staging.commit(staging.write_tree(), parents, by, message, pure=True)


def _look_through(host: Host, branch: ObjectId) -> None:
    """Refuse content that is not valid in a workspace, before a ref points to it: otherwise the workspace could not be
    opened."""
    store, name = host.store, host.layout.branch.removeprefix("refs/heads/")
    try:
        tip = bytes.fromhex(host.tip)
        store.check_history(branch, [tip, *store.merge_bases(tip, branch)])
        check_signatures(host, tip, branch)
        refuse_forgotten(store, tip, branch)
        _check_top(host, store.tree_of(branch))
    except (Unavailable, Forbidden):
        raise  # a newer format is not an error, and an unsigned commit has a next step of its own
    except KgdError as error:
        error.next = (
            f"Nothing on '{name}' is merged until another commit fixes that; "
            f"`{host.layout.git_command} update-ref refs/heads/{name} refs/kgd/head` drops the branch's commits."
        )
        raise


def check_signatures(host: Host, tip: ObjectId, branch: ObjectId) -> None:
    """Check that the new commits of a branch are signed, if the settings at the tip require it. Raises Forbidden."""
    history = SignedHistory(host.store, tip, host.sharded)
    if history.requires(tip):
        history.check_new(host.store.commits_between([tip], branch, limit=COMMITS), tip, branch)


def _check_top(host: Host, tree: ObjectId) -> None:
    """Check that kgd's folders are folders, and that the settings belong to this workspace."""
    top = host.store.tree(tree)
    for folder in OWNED_FOLDERS:
        if (found := top.get(folder.encode())) and found[0] != FOLDER:
            raise Invalid("this must be a folder", at=folder)
    mode, id = top.get(SETTINGS.encode(), (b"", b""))
    if not mode.startswith(PLAIN):
        raise Invalid("the branch lacks this plain file, which every workspace must have", at=SETTINGS)
    home = Home(host.workspace, host.sharded, lambda path: None)  # the settings are checked alone
    check(SETTINGS, host.store.read(id, FILE_LIMIT), None, home)


def restore_skipped(
    host: Host, path: str, base: bytes | None, ours: bytes | None, theirs: bytes | None, now: int
) -> Job:
    """Repair the tip after a person committed a file based on `base` although `ours` was already published.

    Their commit seems to revert the changes in between. This restores those changes, unless the person changed the same
    content.
    """

    def job(staging: Staging, tip: ObjectId) -> Staged[object]:
        taken, uris = Committed(), set[Uri]()
        wanted = merge_file(path, base, ours, theirs)
        edit = HandEdit(path, wanted.data, theirs)
        files = _merged(host, staging, edit, taken, uris)
        files.update(record_files(wanted.conflicts, host.sharded))
        files = {path: data for path, data in files.items() if staging.read(path) != data}
        if not files:
            return Staged(taken)
        changes = ChangeSet((), Author(*KGD), f"keep both edits of {path}", operation="merge")
        return _committed(taken, staging, tip, now, changes, staging.write(files), uris)

    return job


def _refuse_twin(host: Host, staging: Staging, edit: HandEdit, gone: Collection[str], made: dict[str, Uri]) -> None:
    """Refuse a new file if some file systems cannot distinguish its name from the name of another node's file."""
    node = node_in(edit.path, edit.data) if edit.path.startswith("nodes/") and edit.base is None else None
    if node is None:
        return
    first = made.setdefault(collision_key(node.uri), node.uri)
    twin = first if first != node.uri else host.twin(node.uri)
    path = paths.path_of(twin, host.sharded) if twin else ""
    if twin and path not in gone and staging.blob_at(path) is not None:
        raise twin_of(node.uri, twin, f"{edit.path}:1")


def _merged(host: Host, staging: Staging, edit: HandEdit, taken: Committed, uris: set[Uri]) -> dict[str, bytes | None]:
    """The files that change with an edit, merged with the tip."""
    current = staging.read(edit.path)
    if paths.is_part_path(edit.path) and (of_part := _merged_part(host, staging, edit, taken, uris)) is not None:
        return of_part
    merged = merge_file(edit.path, edit.base, current, edit.data)
    files: dict[str, bytes | None] = {edit.path: merged.data, **merged.beside}
    taken.conflicts += len(merged.conflicts)
    files.update(record_files(merged.conflicts, host.sharded))
    around = _around(host, staging)
    if paths.is_memory_path(edit.path):
        more, owner = follow_memory(around, edit.path, edit.base, merged.data)
        uris |= {owner} if owner else set()
        return {**files, **more}
    if not edit.path.startswith("nodes/"):
        return files
    before, after = node_in(edit.path, current), node_in(edit.path, merged.data)
    present = after or before
    if present:
        uris.add(present.uri)
    if merged.data is None and before:
        files.update(dict.fromkeys(conflict_records(staging, before.uri, host.sharded)))
    if after:
        files.update(_new_resources(host, staging, before, after))
    files.update(follow_node(around, before, after, uris))
    return files


def _merged_part(
    host: Host, staging: Staging, edit: HandEdit, taken: Committed, uris: set[Uri]
) -> dict[str, bytes | None] | None:
    """The files that change with an edit to a part: each node is merged at its current place. None if the part can only
    be merged as bytes."""
    try:
        base, mine = ({} if data is None else bulk.split(data, at=edit.path).nodes for data in (edit.base, edit.data))
    except KgdError:
        return None
    folder = Folder(edit.path.rpartition("/")[0], staging, lambda uri: None, host.workspace)
    files: dict[str, bytes | None] = {}
    nodes, goals = dict[Uri, bytes | None](), dict[Uri, str]()
    as_is = staging.read(edit.path) == edit.base
    for uri in sorted(uri for uri in {*base, *mine} if base.get(uri) != mine.get(uri)):
        path, at = paths.path_of(uri, host.sharded), folder.find(uri)
        current = folder.part(at).entries.nodes[uri] if at else staging.read(path)
        merged = merge_file(path, base.get(uri), current, mine.get(uri))
        nodes[uri] = merged.data
        taken.conflicts += len(merged.conflicts)
        files |= {**merged.beside, **record_files(merged.conflicts, host.sharded)}
        uris.add(uri)
        if uri not in base:
            goals[uri] = edit.path
            files |= {path: None} if staging.blob_at(path) else {}
        if merged.data is None:
            files.update(dict.fromkeys(conflict_records(staging, uri, host.sharded)))
        elif after := node_in(path, merged.data):
            files.update(_new_resources(host, staging, node_in(path, current), after))
        as_is = as_is and merged.data == mine.get(uri) and at in (None, edit.path)
    if as_is:  # exactly the person's bytes
        return files | {edit.path: edit.data}
    folder.fill(nodes, goals, READABLE)
    return files | folder.files()


def sync_memories(host: Host, before: ObjectId, after: ObjectId, now: int) -> Job:
    """Make nodes and memories agree again after a person's commits were adopted; `before` and `after` are trees."""
    store = host.store

    def job(staging: Staging, tip: ObjectId) -> Staged[object]:
        changed: dict[str, ObjectId | None] = {}
        versions = {
            path: (store.read(old) if old else None, store.read(new) if new else None)
            for path, old, new in store.diff(before, after)
            if paths.is_memory_path(path) or path.startswith(_OF_MEMORIES)
        }
        uris = follow_commits(_around(host, staging), versions, lambda files: changed.update(staging.write(files)))
        if not changed:
            return Staged(None)
        subject = f"bring {_some(sorted(uris) or sorted(changed))} and its file in step"
        changes = ChangeSet((), Author(*KGD), subject, operation="hand-edit")
        return _committed(None, staging, tip, now, changes, changed, uris)

    return job


def _around(host: Host, staging: Staging) -> Home:
    return Home(host.workspace, host.sharded, staging.read, staging.names, host.resolve)


def _follow_rewrite(
    host: Host, staging: Staging, tip: ObjectId, branch: ObjectId, base: ObjectId, by: Signature
) -> Staged[object]:
    """Apply the changes of a person's rewritten branch since `base` (docs/decisions/0004-rewritten-branch.md)."""
    store = host.store
    theirs = store.tree_of(branch)
    merged = merge_trees(store, store.tree_of(base), store.tree_of(tip), theirs, host.sharded)
    name = host.layout.branch.removeprefix("refs/heads/")
    is_rewound = store.is_ancestor(branch, tip)
    if is_rewound and not merged.files:
        return Staged(False)
    dropped = merged.files if is_rewound else _dropped(store, merged.files, store.merge_bases(tip, branch), theirs)
    if not is_rewound:
        staging.write({path: data for path, data in merged.files.items() if path not in dropped})
        message = _by_hand(by, f"merge {name}", "merge")
        # The branch comes first, so that its commits are newer than the replaced commits of the same second.
        tip = staging.commit(staging.write_tree(), (branch, tip), by, message)
    if dropped:
        staging.write(dropped)
        message = _by_hand(by, f"reset '{name}' to {branch.hex()[:10]}", "hand-edit")
        tip = staging.commit(staging.write_tree(), [tip], by, message)
    return Staged(True, tip, None)  # commits from elsewhere change versions too, so these are counted from history


def _dropped(
    store: ObjectStore, files: Mapping[str, bytes | None], bases: Sequence[ObjectId], theirs: ObjectId
) -> dict[str, bytes | None]:
    """The changes that no new commit of the rewritten branch makes. A merge would hide them from the history, because
    its files are those of the branch; they get a plain commit, which can be reverted."""
    if len(bases) != 1:
        return dict(files)
    since = {path for path, _, _ in store.diff(store.tree_of(bases[0]), theirs)}
    return {path: data for path, data in files.items() if path not in since}


def _by_hand(by: Signature, subject: str, operation: str) -> str:
    return message_of(ChangeSet((), Author(by.name, by.email), subject, operation=operation), ())


def _new_resources(host: Host, staging: Staging, before: Node | None, after: Node) -> dict[str, bytes | None]:
    """Create the resources that new relations lead to (rule E8)."""
    known = {relation.key for relation in before.relations} if before else set()
    made: dict[str, bytes | None] = {}
    for relation in after.relations:
        if relation.key not in known and is_resource(relation.target, host.workspace):
            path = paths.path_of(relation.target, host.sharded)
            if staging.blob_at(path) is None and relation.target != after.uri and not host.in_overlay(relation.target):
                made[path] = documents.encode(Node(relation.target))
    return made


def _some(names: list[str]) -> str:
    return names[0][:90] + (f" and {len(names) - 1} more" if len(names) > 1 else "")
