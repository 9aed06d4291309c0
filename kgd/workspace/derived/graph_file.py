"""The graph's snapshot file: written in idle moments and on request, then mapped in place of the changes that it
contains."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import NamedTuple

from kgd.errors import KgdError, Unavailable
from kgd.git.store import ObjectStore
from kgd.graph import later_changes
from kgd.graph.array_builder import Frozen
from kgd.graph.arrays import Arrays
from kgd.index import graph_snapshot
from kgd.workspace.repository import give_memory_back
from kgd.workspace.tip.served import Served

log = logging.getLogger(__name__)

SNAPSHOT_AFTER = 500
"""Number of changed nodes after which the file is rewritten in an idle moment."""


class GraphMoment(NamedTuple):
    """The graph at one moment: a snapshot file and the changes since. Trees are in hex."""

    file: Path
    tree: str
    """The root tree that the file describes."""
    now: str
    """The root tree of the graph with the changes."""
    graph: Frozen


class GraphFile:
    """The snapshot of one served graph. Safe for threads."""

    def __init__(self, served: Served, path: Path) -> None:
        self._served, self.path = served, path
        self._lock = threading.Lock()
        self._arrays: Arrays | None = None
        self._tree = ""
        self._closing = False
        self.unsaved = 0
        """Number of changed nodes since the file was written."""

    def restore(self, store: ObjectStore) -> bool:
        """Serve the graph of the file; False if it cannot be used."""
        saved = graph_snapshot.read(self.path)
        if saved is None or not store.exists(bytes.fromhex(saved.tree)):
            return False
        try:
            arrays = Arrays(saved.arrays)
            self._served.restore(bytes.fromhex(saved.tree), arrays, saved.care)
        except (KgdError, KeyError, TypeError, ValueError):
            log.warning("the snapshot could not be used")
            self._served.reset()
            return False
        self._arrays, self._tree = arrays, saved.tree
        return True

    def moment(self, *, anew: bool) -> GraphMoment:
        """The graph as a file and a few changes. The file is written first if there are many changes, if there is no
        file, or if `anew` is set.

        Raises:
            Unavailable: The file cannot be written.
        """
        with self._lock:
            for must_write in (anew, True, True):
                if must_write:
                    self._write_or_refuse()
                now, frozen = self._served.freeze()
                if frozen.layers.arrays is self._arrays and later_changes.are_few(frozen.layers):
                    return GraphMoment(self.path, self._tree, now, frozen)
        raise Unavailable("the graph changes faster than its snapshot can be written", at=str(self.path))

    def save(self, *, closing: bool = False) -> None:
        """Write the file if the graph has changed. A failure costs only time at startup: it is logged and not
        raised."""
        with self._lock:
            self._closing = closing
            if not self.unsaved:
                return
            try:
                self._write()
            except Exception as error:  # the follower's thread survives it
                log.warning(
                    "the snapshot could not be written",
                    exc_info=not isinstance(error, OSError),
                    extra={"reason": str(error)[:300]},
                )

    def _write_or_refuse(self) -> None:
        try:
            self._write()
        except OSError as error:
            reason = error.strerror or str(error)
            raise Unavailable(f"the snapshot cannot be written: {reason}", at=str(self.path)) from error

    def _write(self) -> None:
        tree, frozen, care = self._served.export()
        graph_snapshot.write(self.path, tree, care, frozen.parts())
        self._arrays = None
        written = None if self._closing else graph_snapshot.read(self.path)
        if written is not None and written.tree == tree:
            arrays = Arrays(written.arrays)
            if self._served.graph.rest_on(frozen, arrays):
                self._arrays, self._tree = arrays, tree
            del frozen
            if self.unsaved >= SNAPSHOT_AFTER:
                give_memory_back()
        self.unsaved = 0
