"""This file is where a change is judged by the tip, as it is served."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from kgd.graph.edges import Edge
from kgd.model.uri import Uri
from kgd.workspace.naming import Naming
from kgd.workspace.outcome import InvalidFile
from kgd.workspace.served import Served

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace


class PresentSurroundings:
    """The surroundings of a change (`kgd.workspace.draft.Surroundings`) at the tip."""

    def __init__(self, workspace: Workspace, served: Served) -> None:
        self._workspace, self._served, self._naming = workspace, served, Naming(workspace.store)
        self.workspace, self.sharded = workspace.id, workspace.sharded

    def resolve(self, uri: Uri) -> Uri:
        return self._served.graph.resolve(uri)

    def in_overlay(self, uri: Uri) -> bool:
        return self._workspace.in_overlay(uri)

    def twin(self, uri: Uri) -> Uri | None:
        return self._served.graph.twin(uri)

    def version(self, path: str) -> int:
        return self._workspace.version(path)

    def served_blob(self, path: str, version: int) -> bytes | None:
        return self._workspace.sent.blob(path, version)

    def parts_of(self, uri: Uri) -> Collection[str]:
        """The parts that may hold the node; what is not served is in none of those that can be read."""
        at = self._workspace.part_of(uri)
        return (at,) if at else ()

    def incoming(self, uri: Uri) -> Sequence[Edge]:
        return self._served.graph.into(uri)

    def invalid_file(self, path: str) -> InvalidFile | None:
        return self._served.invalid_file(path)

    def naming(self) -> Collection[str]:
        """Paths of the nodes that may name a memory, as the tip has them. For the writer's thread."""
        return self._naming.paths(self._workspace.store.tree_of(bytes.fromhex(self._workspace.tip)))

    def knows_workspace(self, workspace: str) -> bool:
        return self._workspace.is_registered(workspace)
