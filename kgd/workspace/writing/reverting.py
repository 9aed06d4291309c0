"""Reverts: applying the opposite of a commit, and naming it in the message."""

from __future__ import annotations

from dataclasses import replace

from kgd.codec import documents, memories, paths
from kgd.errors import Invalid
from kgd.git.objects import ObjectId, trailers
from kgd.git.store import ObjectStore
from kgd.model.change import ChangeSet, Revert
from kgd.model.merge import merge
from kgd.workspace.history.commits import Past
from kgd.workspace.history.history import ACCEPT, UNDO
from kgd.workspace.merging.files import merge_file
from kgd.workspace.writing.draft import Draft


def revert(edit: Revert, draft: Draft) -> None:
    """Merge the opposite of a commit into the draft; later changes are kept.

    For an accepted proposal, that is the opposite of everything it brought in.

    Raises:
        Invalid: The commit is another merge or the first commit, which have no opposite.
        NotFound: There is no such commit.
    """
    past = draft.around.past
    commit = past.commit(past.commit_id(edit.commit))
    is_accepted = len(commit.parents) == 2 and dict(trailers(commit.message)).get("Kgd-Op") == ACCEPT
    if len(commit.parents) != 1 and not is_accepted:
        what = "a merge" if commit.parents else "the first commit"
        raise Invalid(f"{what} cannot be reverted", at=edit.commit[:60], next="Revert the changes it brought in.")
    store = past.nodes()
    for path, old, new in store.diff(store.tree_of(commit.parents[0]), commit.tree):
        if edit.only and past.about(path, new or old, store) not in edit.only:
            continue
        if paths.is_node_path(path):
            _revert_node(path, old, new, draft, store)
            continue
        before, after = (store.read(blob) if blob else None for blob in (old, new))
        if memories.is_path(path):
            _revert_memory(path, before, after, draft)
        elif draft.read_file(path) == after:
            draft.files[path] = before
        else:
            draft.warnings.append(f"{path} has changed since and was not reverted")


def _revert_node(path: str, old: ObjectId | None, new: ObjectId | None, draft: Draft, store: ObjectStore) -> None:
    before, after = (documents.decode(store.read(blob), at=path) if blob else None for blob in (old, new))
    uri = (before or after).uri  # type: ignore[union-attr]
    merged = merge(after, draft.node(uri), before)
    if merged.node is None:
        draft.remove(uri)
    else:
        draft.put(merged.node)
    if merged.conflict:
        draft.record(merged.conflict)
        draft.warnings.append(f"{uri} has changed since: both versions are kept as a conflict")


def _revert_memory(path: str, before: bytes | None, after: bytes | None, draft: Draft) -> None:
    merged = merge_file(path, after, draft.read_file(path), before)
    draft.files |= {path: merged.data, **merged.beside}
    for conflict in merged.conflicts:
        draft.record(conflict)
        draft.warnings.append(f"{path} has changed since: both versions are kept as a conflict")


def named_in_message(changes: ChangeSet, past: Past) -> ChangeSet:
    """The ChangeSet with a message that names the commits it reverts, for people and for `undo`; there is at least one.

    Raises:
        NotFound: There is no such commit.
    """
    named = dict.fromkeys(edit.commit for edit in changes.edits if isinstance(edit, Revert))
    commits = [past.commit(past.commit_id(one)) for one in named]
    subject = changes.message.strip() or f"revert: {commits[0].subject[:80]}"
    edits = tuple(
        replace(edit, commit=past.commit_id(edit.commit).hex()) if isinstance(edit, Revert) else edit
        for edit in changes.edits
    )
    partly = {edit.commit for edit in edits if isinstance(edit, Revert) and edit.only}
    ids = [commit.id.hex() for commit in commits]
    body = "\n".join(f"Reverts {'a part of ' if id in partly else ''}{id}" for id in ids)
    has_own_operation = len(edits) > len(commits) or changes.operation == UNDO
    operation = changes.operation if has_own_operation else "revert"
    return replace(changes, message=f"{subject}\n\n{body}", edits=edits, operation=operation)
