"""This file is where what commits changed is kept in mind for whoever keeps something of a workspace in memory.

The writer's thread only notes which nodes they were; they are read by whoever asks next.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from kgd.model.uri import Uri
from kgd.workspace.workspace import Workspace


class Changed:
    """Nodes of some schemes, or of all where none is named, that were written or deleted since somebody last took them.

    For any number of threads. It holds each node once, so it is never larger than what it is about, however long
    nobody asks.
    """

    def __init__(self, workspace: Workspace, *schemes: str) -> None:
        self._starts = tuple(f"{scheme}:" for scheme in schemes) or ("",)
        self._lock, self._uris = threading.Lock(), set[Uri]()
        workspace.on_commit(self._note)

    def take(self) -> set[Uri]:
        """What changed since the last call."""
        with self._lock:
            uris, self._uris = self._uris, set()
        return uris

    def _note(self, uris: Iterable[Uri]) -> None:
        if ours := [uri for uri in uris if uri.startswith(self._starts)]:
            with self._lock:
                self._uris.update(ours)
