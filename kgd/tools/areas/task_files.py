"""Tasks by the files and folders that they list, for the facts about an area."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from kgd.areas.patterns import normalise
from kgd.memories.tasks import parsed
from kgd.model.uri import Uri
from kgd.workspace.served import Changed
from kgd.workspace.workspace import Workspace

SCHEME = "task"


class TaskFiles:
    """The tasks of one workspace by listed path, by `TaskFiles.of`. Thread-safe.

    The first call reads each task once; later calls read only changed tasks.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._lock = workspace, threading.Lock()
        self._tasks: dict[str, dict[Uri, None]] = {}
        self._paths: dict[Uri, tuple[str, ...]] = {}
        self._changed = Changed(workspace, SCHEME)

    @classmethod
    def of(cls, workspace: Workspace) -> TaskFiles:
        """The tasks of a workspace. Its answers include every acknowledged write."""
        return workspace.beside(cls, cls)

    def listing(self, paths: Sequence[str]) -> dict[str, list[Uri]]:
        """The tasks that list a path, for each of the paths with tasks; the path of a folder ends in a slash. O(1) for
        each path."""
        with self._lock:
            self._refresh()
            return {path: sorted(found) for path in paths if (found := self._tasks.get(path))}

    def _refresh(self) -> None:
        for uri in self._changed.unread():
            for path in self._paths.pop(uri, ()):
                del self._tasks[path][uri]
                if not self._tasks[path]:
                    del self._tasks[path]
            if (node := self._workspace.readable(uri)) is None:
                continue
            listed = (normalise(one, None, workspace=self._workspace.id) for one in parsed(node).files)
            self._paths[uri] = tuple(dict.fromkeys(filter(None, listed)))
            for path in self._paths[uri]:
                self._tasks.setdefault(path, {})[uri] = None
