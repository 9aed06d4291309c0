"""This file is where a workspace's tasks are kept in memory: name and status, to be listed without reading them all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kgd.memories.tasks import status_of
from kgd.model.uri import Uri
from kgd.workspace.changed import Changed

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

SCHEME = "task"
_ORDER = {"in-progress": 0, "pending": 1, "completed": 3, "cancelled": 4}
"""What is worked on comes first; a status that kgd does not know stands before what is over."""
_UNKNOWN = 2


@dataclass(frozen=True, slots=True)
class Line:
    """A task as a list shows it. `objective` is not among it: that is one `get` away."""

    uri: Uri
    type: str
    name: str
    status: str
    summary: str


class Board:
    """The tasks of one workspace; `Board.of`. Safe for any number of threads.

    The first question reads each task once; from then on only those that changed are read again.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._lock = workspace, threading.Lock()
        self._lines: dict[Uri, Line] = {}
        self._is_loaded = False
        self._changed = Changed(workspace, SCHEME)

    @classmethod
    def of(cls, workspace: Workspace) -> Board:
        """The workspace's tasks, up to date with everything that was acknowledged."""
        return workspace.beside(cls, cls)

    def lines(self, status: str | None = None, *, sees: Callable[[Uri], bool] | None = None) -> list[Line]:
        """In progress first, then pending, then what is over; those of one status by name, then by URI. O(tasks)."""
        with self._lock:
            self._refresh()
            found = [one for one in self._lines.values() if status in (None, one.status)]
        return sorted((one for one in found if sees is None or sees(one.uri)), key=_place)

    def line(self, uri: Uri) -> Line | None:
        with self._lock:
            self._refresh()
            return self._lines.get(uri)

    def types(self) -> set[str]:
        """What the nodes are called that are tasks by their address: `task`, unless somebody chose otherwise."""
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
