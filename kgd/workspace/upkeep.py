"""This file is where small packs are rolled up beside the work: a thread that nobody waits for."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import threading
from collections.abc import Callable

from kgd.errors import KgdError
from kgd.git import rollup
from kgd.git.store import ObjectStore
from kgd.workspace.outcome import Stage

CLOSE_WITHIN = 5.0
"""Seconds that closing waits for a roll-up under way; one that is cut off leaves all packs as they were."""

LOOK_SECONDS = 60.0
"""How often the packs are looked through without a change: a person's gc removes packs too."""

log = logging.getLogger(__name__)


class Upkeep:
    """Rolls up the packs of one repository whenever a level may be full, until `close`."""

    def __init__(self, store: ObjectStore, clock: Callable[[], float]) -> None:
        self._store, self._clock = store, clock
        self._flushes = 0
        self._wake, self._stopping = threading.Event(), False
        self._stage = Stage("upkeep")
        self._thread = threading.Thread(target=self._run, name="kgd-upkeep", daemon=True)
        self._thread.start()
        self._wake.set()

    def note_flush(self) -> None:
        """A pack was written."""
        self._flushes += 1
        if self._flushes % rollup.FANOUT == 0:
            self._wake.set()

    def health(self) -> Stage:
        return self._stage

    def close(self) -> None:
        self._stopping = True
        self._wake.set()
        self._thread.join(CLOSE_WITHIN)

    def _run(self) -> None:
        while not self._stopping:
            self._wake.wait(LOOK_SECONDS)
            self._wake.clear()
            try:
                if rollup.due(self._store.pack_dir):
                    done = rollup.maintain(self._store.git_dir)
                    state = "degraded" if done.failed else "ok"
                    self._stage = Stage("upkeep", state, self._clock(), done.failed[:200])
                    _trim_heap()
                self._store.renew()
            except (KgdError, OSError) as error:
                log.exception("packs could not be rolled up")
                self._stage = Stage("upkeep", "degraded", self._stage.last_success, f"{error}"[:200])


def _trim_heap() -> None:
    """Give the system back what a roll-up needed; glibc does so by itself only at the end of a heap."""
    with contextlib.suppress(AttributeError, OSError):  # other libraries have no such call
        ctypes.CDLL(None).malloc_trim(0)
