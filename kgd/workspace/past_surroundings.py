"""This file is where a change is judged by an older commit instead of the tip: what it was made against.

Versions and what was served under them are known for the tip; for a file that has changed since, they are counted anew.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from kgd.git.objects import ObjectId
from kgd.graph.edges import Edge
from kgd.model.node import Node
from kgd.model.uri import Uri
from kgd.workspace import memory_files
from kgd.workspace.merge_files import decoded
from kgd.workspace.naming import Naming
from kgd.workspace.outcome import InvalidFile

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace


class PastSurroundings:
    """The surroundings of a change (`kgd.workspace.draft.Surroundings`) at a commit of the past."""

    def __init__(self, workspace: Workspace, base: ObjectId) -> None:
        self._workspace, self._present, self._base = workspace, workspace.around, base
        self._store = store = workspace.past.nodes()
        self._then, self._now = store.tree_of(base), store.tree_of(bytes.fromhex(workspace.tip))
        self._graph = workspace.history.graph_at(base.hex())
        self.workspace, self.sharded = workspace.id, workspace.sharded

    def resolve(self, uri: Uri) -> Uri:
        return self._graph.resolve(uri)

    def in_overlay(self, uri: Uri) -> bool:
        return self._present.in_overlay(uri)

    def twin(self, uri: Uri) -> Uri | None:
        return self._present.twin(uri)

    def version(self, path: str) -> int:
        if self._is_as_now(path):
            return self._present.version(path)
        return len(self._workspace.past.log(self._base, self._files(path), limit=100_000))

    def version_at_base(self, path: str) -> int:
        """The version a file had then; 0 where it was not there."""
        return self.version(path) if self._store.entry(self._then, path) else 0

    def served_blob(self, path: str, version: int) -> bytes | None:
        return self._present.served_blob(path, version)

    def parts_of(self, uri: Uri) -> Collection[str] | None:
        return None

    def incoming(self, uri: Uri) -> Sequence[Edge]:
        return self._present.incoming(uri)

    def invalid_file(self, path: str) -> InvalidFile | None:
        return self._present.invalid_file(path) if self._is_as_now(path) else None

    def naming(self) -> Collection[str]:
        return Naming(self._workspace.store).paths(self._then)

    def knows_workspace(self, workspace: str) -> bool:
        return self._present.knows_workspace(workspace)

    def _files(self, path: str) -> tuple[str, ...]:
        """A node's file, and that of its detail as it was called then."""
        blob = self._store.entry(self._then, path)
        node = decoded(path, self._store.read(blob)) if blob else None
        file = memory_files.file_of(node) if isinstance(node, Node) else None
        return (path, file) if file else (path,)

    def _is_as_now(self, path: str) -> bool:
        store = self._store
        return all(store.entry(self._then, file) == store.entry(self._now, file) for file in self._files(path))
