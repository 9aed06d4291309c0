"""Marks of nodes that open proposals change: bounded work for each request, and no merge.

A proposal changes the files that differ from its merge base; they are computed once for each of its commits. A large or
broken proposal is left out.
"""

from __future__ import annotations

import threading
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from kgd.errors import Invalid, KgdError, Limit
from kgd.git.objects import ObjectId
from kgd.git.refs import INCOMING, PROPOSALS, REJECTED, list_refs
from kgd.model.uri import Uri
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.touched_nodes import of_files

LISTED = 500
"""Largest number of open proposals that marks consider."""
COMPARED = 20
"""Largest number of proposals that one request compares with their merge bases; later requests compare others."""
LONGEST = 200
"""Largest number of characters of an author or a subject."""
LARGEST = 200
"""Largest number of changed files of a proposal that marks consider."""


@dataclass(frozen=True, slots=True)
class _Changed:
    """The nodes that a commit of a proposal changes, and the blobs of its node files; no blobs if it also changes other
    files. `author` and `subject` are the beginnings of the commit's."""

    at: int
    author: str
    subject: str
    uris: frozenset[Uri]
    blobs: Mapping[str, ObjectId | None]


_Proposal = tuple[str, ObjectId, _Changed]
"""The id of a proposal, its commit and what it changes."""


@dataclass(slots=True)
class _Known:
    """The compared proposals by commit. `failed` has the tip at which a commit could not be compared."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    changed: dict[ObjectId, _Changed] = field(default_factory=dict)
    failed: dict[ObjectId, ObjectId] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Marks:
    """The open proposals that change nodes. `left_out` is the number of proposals that were not compared."""

    workspace: Workspace
    tip: ObjectId
    found: tuple[_Proposal, ...] = ()
    left_out: int = 0

    merged: dict[ObjectId, bool] = field(default_factory=dict)
    """Whether the tip contains a proposal, once it was asked for."""

    def changed(self, among: Container[Uri]) -> set[Uri]:
        """Select the nodes that the proposals change, as in `of`. Reads each proposal once."""
        met: dict[Uri, list[_Proposal]] = {}
        for one in self.found:
            for uri in one[2].uris:
                if uri in among:
                    met.setdefault(uri, []).append(one)
        return {uri for uri, changing in met.items() if self._still_changing(uri, changing)}

    def of(self, uri: Uri) -> list[str]:
        """The ids of the proposals that change this node, oldest first.

        A proposal does not count if the tip has its version of the node's file.
        """
        changing = [one for one in self.found if uri in one[2].uris]
        return self._still_changing(uri, changing) if changing else []

    def _still_changing(self, uri: Uri, changing: Sequence[_Proposal]) -> list[str]:
        store, path = self.workspace.store, self.workspace.path(uri)
        try:
            here = store.entry(store.tree_of(self.tip), path)
            return [
                id
                for id, commit, changed in changing
                if not (path in changed.blobs and changed.blobs[path] == here) and not self._is_merged(commit)
            ]
        except KgdError:
            return [id for id, _, _ in changing]

    def _is_merged(self, commit: ObjectId) -> bool:
        if commit not in self.merged:
            self.merged[commit] = self.workspace.store.is_ancestor(commit, self.tip)
        return self.merged[commit]


def marks(workspace: Workspace) -> Marks:
    """Compare at most `COMPARED` new proposals with their merge bases. Concurrent calls wait for each other."""
    known = workspace.beside(_Known, lambda _: _Known())
    with known.lock:
        tip, every = bytes.fromhex(workspace.tip), _open(workspace)
        ids = dict(islice(every.items(), LISTED))
        known.changed = {commit: one for commit, one in known.changed.items() if commit in ids}
        known.failed = {commit: at for commit, at in known.failed.items() if commit in ids}
        new = [commit for commit in ids if commit not in known.changed and known.failed.get(commit) != tip]
        for commit in sorted(new, key=known.failed.__contains__)[:COMPARED]:
            try:
                known.changed[commit] = _compared(workspace, tip, commit)
            except KgdError:  # perhaps only now, so it is tried again at the next tip, after the others
                known.failed[commit] = tip
        found = [(ids[commit], commit, one) for commit, one in known.changed.items()]
    found.sort(key=lambda one: (one[2].at, one[0]))
    return Marks(workspace, tip, tuple(found), len(every) - len(found))


def _open(workspace: Workspace) -> dict[ObjectId, str]:
    """The ids of the open proposals by commit; reads no commits."""
    refs = list_refs(workspace.layout.git_dir)
    refused = {tip for ref, tip in refs.items() if ref.startswith(REJECTED)}
    found: dict[ObjectId, str] = {}
    for ref, tip in refs.items():
        remote, marker, name = ref.removeprefix(INCOMING).partition("/proposals/")
        if ref.startswith(PROPOSALS):
            found[tip] = f"{ref.removeprefix(PROPOSALS)}@{tip.hex()[:10]}"
        elif ref.startswith(INCOMING) and marker and tip not in refused:
            found.setdefault(tip, f"{remote}/{name}@{tip.hex()[:10]}")
    return found


def _compared(workspace: Workspace, tip: ObjectId, commit: ObjectId) -> _Changed:
    """Raises KgdError if the proposal cannot be compared, or has too many files."""
    store, own = workspace.store, workspace.store.commit(commit)
    base = store.merge_base(tip, commit)
    if base is None:
        raise Invalid("the proposal shares no history with the workspace", at=commit.hex())
    files = list(islice(store.diff(store.tree_of(base), own.tree), LARGEST + 1))
    if len(files) > LARGEST:
        raise Limit(f"a proposal of more than {LARGEST} files is not compared")
    # Without the old tree: only it would be searched for the nodes that name a changed memory.
    uris = of_files(files, store, None, workspace.id, workspace.sharded).uris
    is_plain = all(path.startswith("nodes/") for path, _, _ in files)
    subject = own.message.partition("\n")[0]
    blobs = {path: new for path, _, new in files} if is_plain else {}
    return _Changed(own.author_time, own.author_name[:LONGEST], subject[:LONGEST], uris, blobs)
