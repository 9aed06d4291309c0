"""Task lists: name and status of a workspace's tasks, kept in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgd.memories.tasks import status_of
from kgd.model.uri import Uri
from kgd.workspace.changed_nodes import Changed

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

SCHEME = "task"
_ORDER = {"in-progress": 0, "pending": 1, "completed": 3, "cancelled": 4}
"""Active tasks come first; an unknown status sorts before finished tasks."""
_UNKNOWN = 2


@dataclass(frozen=True, slots=True)
class Line:
    """One task of a list. `get` returns its objective."""

    uri: Uri
    type: str
    name: str
    status: str
    summary: str


class Board:
    """The tasks of one workspace, by `Board.of`. Thread-safe.

    The first call reads each task once; later calls read only changed tasks.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._lock = workspace, threading.Lock()
        self._lines: dict[Uri, Line] = {}
        self._is_loaded = False
        self._changed = Changed(workspace, SCHEME)

    @classmethod
    def of(cls, workspace: Workspace) -> Board:
        """The board of a workspace. Its answers include every acknowledged write."""
        return workspace.beside(cls, cls)

    def lines(self, status: str | None = None, *, sees: Callable[[Uri], bool] | None = None) -> list[Line]:
        """In-progress tasks first, then pending, then finished ones; each by name, then by URI. Costs O(tasks)."""
        with self._lock:
            self._refresh()
            found = [one for one in self._lines.values() if status in (None, one.status)]
        return sorted((one for one in found if sees is None or sees(one.uri)), key=_place)

    def line(self, uri: Uri) -> Line | None:
        with self._lock:
            self._refresh()
            return self._lines.get(uri)

    def types(self) -> set[str]:
        """Types of the nodes with a task URI: `task`, unless a user set another."""
        with self._lock:
            self._refresh()
            return {one.type for one in self._lines.values()}

    def _refresh(self) -> None:
        changed = self._changed.take()
        if not self._is_loaded:
            changed.update(self._workspace.graph.uris(scheme=SCHEME))
            self._is_loaded = True
        for uri in changed:
            self._lines.pop(uri, None)
            if line := self._read(uri):
                self._lines[uri] = line

    def _read(self, uri: Uri) -> Line | None:
        node = self._workspace.readable(uri)
        return Line(uri, node.type, node.title, status_of(node), node.summary) if node else None


def _place(line: Line) -> tuple[int, str, Uri]:
    return _ORDER.get(line.status, _UNKNOWN), line.name, line.uri
