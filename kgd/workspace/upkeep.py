"""Background upkeep of one repository: rolls up packs, lists commits, and releases memory after a burst."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable

from kgd.errors import KgdError
from kgd.git import commit_graph, rollup
from kgd.git.store import ObjectStore
from kgd.workspace.answers import Stage
from kgd.workspace.given_back import give_memory_back

CLOSE_WITHIN = 2.0
"""Seconds that closing waits for the end of an interrupted roll-up, which leaves all packs unchanged."""

LOOK_SECONDS = 60.0
"""Seconds between checks of the packs without changes: the user's gc removes packs too."""

LOOK_FLUSHES = 5
"""Number of flushes between checks while changes are written, since a flush may be large. A check takes 2 ms."""

QUIET_SECONDS, QUIET_LOOKS = 2.0, 15
"""Interval and number of memory releases after the last flush, since indexing and publication continue. A release takes
10 ms, so there is none during a burst of changes."""

log = logging.getLogger(__name__)


class Upkeep:
    """Rolls up the packs of one repository whenever a level may be full, and keeps its commit-graph, until `close`."""

    def __init__(self, store: ObjectStore, clock: Callable[[], float]) -> None:
        self._store, self._clock = store, clock
        self._flushes, self._graphs = 0, True
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._stage = Stage("upkeep")
        self._thread = threading.Thread(target=self._run, name="kgd-upkeep", daemon=True)
        self._thread.start()
        self._wake.set()

    def note_flush(self) -> None:
        """A pack was written."""
        self._flushes += 1
        if self._flushes % LOOK_FLUSHES == 0:
            self._wake.set()

    def health(self) -> Stage:
        return self._stage

    def close(self) -> None:
        self._stopping.set()
        self._wake.set()
        self._thread.join(CLOSE_WITHIN)

    def _run(self) -> None:
        left = seen = 0
        while not self._stopping.is_set():
            self._wake.wait(QUIET_SECONDS if left else LOOK_SECONDS)
            self._wake.clear()
            before, seen = seen, self._flushes
            is_quiet = before == seen
            try:
                git_dir = self._store.git_dir
                rollup.settle(self._store.pack_dir)
                if rollup.due(self._store.pack_dir):
                    failed = rollup.maintain(git_dir, self._stopping).failed
                    self._stage = Stage("upkeep", "degraded" if failed else "ok", self._clock(), failed[:200])
                if self._graphs and commit_graph.is_due(git_dir):
                    self._graphs = commit_graph.renew(git_dir, self._stopping)
                if self._stopping.is_set():
                    return
                self._store.renew(anew=is_quiet and left > 0)
            except (KgdError, OSError) as error:
                log.exception("packs could not be rolled up")
                self._stage = Stage("upkeep", "degraded", self._stage.last_success, f"{error}"[:200])
            if not is_quiet:
                left = QUIET_LOOKS
            elif left:
                left -= 1
                if not left:  # it stops all threads, for as long as the heap is large
                    gc.collect()
                give_memory_back()
