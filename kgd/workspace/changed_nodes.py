"""Changed nodes: a set of URIs for features that keep derived state in memory.

The thread that flushes only records the URIs; the nodes are read by the next reader.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from kgd.model.uri import Uri
from kgd.workspace.workspace import Workspace


class Changed:
    """Nodes of some schemes, or of all, written or deleted since the last `take`.

    Thread-safe. Each node is recorded once, so the set cannot be larger than the workspace.
    """

    def __init__(self, workspace: Workspace, *schemes: str) -> None:
        self._starts = tuple(f"{scheme}:" for scheme in schemes) or ("",)
        self._lock, self._uris = threading.Lock(), set[Uri]()
        workspace.on_commit(self._note)

    def take(self) -> set[Uri]:
        """The changes since the last call."""
        with self._lock:
            uris, self._uris = self._uris, set()
        return uris

    def _note(self, uris: Iterable[Uri]) -> None:
        if ours := [uri for uri in uris if uri.startswith(self._starts)]:
            with self._lock:
                self._uris.update(ours)
