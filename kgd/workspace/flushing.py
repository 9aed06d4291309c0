"""The background flush of what publications placed: one thread per work tree, one `syncfs` for all that was placed."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from kgd.git.files import sync_file_system

AFTER = 0.5
"""Seconds from a publication to its flush: those that follow at once share it."""
SHARE = 10
"""The pause is also so many times what the last flush took, so that a slow disk is not kept busy by flushes."""

log = logging.getLogger(__name__)


class Flusher:
    """Flushes file systems soon after it is asked to, until `close`.

    Args:
        folders: Those written to; one flush serves all on one file system.
        flushed: Called in the flusher's thread after each flush.
    """

    def __init__(self, folders: list[Path], flushed: Callable[[], object]) -> None:
        self._folders, self._flushed = folders, flushed
        self._wanted = self.until = float("-inf")
        """By the monotonic clock: up to when a flush is wanted, and when the last one that succeeded began."""
        self.failure = ""
        """Why the last flush failed; empty when it succeeded."""
        self._wake, self._stopping = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="kgd-flush", daemon=True)
        self._thread.start()

    def ask(self, at: float) -> None:
        """Have all flushed that was written up to `at`, by the monotonic clock. Returns at once."""
        if at > self._wanted:
            self._wanted = at
            self._wake.set()

    def flush(self) -> None:
        """Flush now. A failure is kept in `failure`."""
        began = time.monotonic()
        try:
            for folder in {os.stat(folder).st_dev: folder for folder in self._folders}.values():
                sync_file_system(folder)
        except OSError as error:
            self.failure = f"what was published could not be flushed to the disk: {error.strerror}"
            log.warning("flush failed", extra={"reason": self.failure})
        else:
            self.until, self.failure = began, ""

    def close(self) -> None:
        """End the thread. Nothing is flushed any more but by `flush`."""
        self._stopping.set()
        self._wake.set()
        self._thread.join()

    def _run(self) -> None:
        pause = 0.0
        while self._wake.wait():
            self._wake.clear()
            while self._wanted > self.until:
                if self._stopping.wait(max(AFTER, pause)):
                    return
                began = time.monotonic()
                self.flush()
                pause = SHARE * (time.monotonic() - began)
                self._flushed()
            if self._stopping.is_set():
                return
