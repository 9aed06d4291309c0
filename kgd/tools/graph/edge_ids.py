"""An index of edges by id. An id is a hash of the edge's ends and type and does not show its place."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kgd.model.node import edge_id
from kgd.model.uri import Uri
from kgd.workspace.changed_nodes import Changed

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

KEY = 16
"""Hex digits of an id that the index keeps; the edge itself is compared in full."""


class EdgeIds:
    """The sources of all edges by id. The first look-up costs O(edges); later ones cost the changes since the last.

    Deleted edges stay in the index, so each result is checked in the graph.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._sources: dict[int, Uri] | None = None
        self._lock = threading.Lock()
        self._changed = Changed(workspace)

    @classmethod
    def of(cls, workspace: Workspace) -> EdgeIds:
        return workspace.beside(cls, cls)

    def ends(self, id: str) -> tuple[Uri, Uri, str] | None:
        """Source, target and type of the edge with this id; None if there is none."""
        key = _key(id)
        if key is None:
            return None
        with self._lock:
            changed = self._changed.take()
            if self._sources is None:
                self._sources = {}
                self._add(self._workspace.graph.uris())
            else:
                self._add(changed)
            source = self._sources.get(key)
        if source is None:
            return None
        leaving = self._workspace.graph.out(source)
        return next(((source, e.target, e.type) for e in leaving if edge_id(source, e.target, e.type) == id), None)

    def _add(self, uris: Iterable[Uri]) -> None:
        assert self._sources is not None
        graph = self._workspace.graph
        for uri in uris:
            for edge in graph.out(uri):
                key = _key(edge_id(uri, edge.target, edge.type))
                if key is not None:
                    self._sources[key] = uri


def _key(id: str) -> int | None:
    try:
        return int(id.removeprefix("edge-")[:KEY], 16) if id.startswith("edge-") else None
    except ValueError:
        return None
