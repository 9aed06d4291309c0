"""This file is where workspaces that the registry knows by a git remote alone are kept, as read-only clones.

A clone is fetched once in the background, vetted like everything from outside, and put in place whole. From then on it
is a workspace whose one remote is only pulled from; nobody writes to it here, and it has no work tree.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from kgd.config.registry import Entry
from kgd.errors import KgdError, Unavailable
from kgd.git import layout as layouts
from kgd.git.layout import OWN_BRANCH, Layout
from kgd.git.remote import Network
from kgd.git.url import parse
from kgd.sync.cloning import clone

PAUSE, LONGEST_PAUSE = 2.0, 300.0
"""Seconds from a fetch that failed to the next one that somebody's asking may begin; doubled each time."""
CLOSE_SECONDS = 3.0

log = logging.getLogger("kgd.clones")


class Fetching(Unavailable):
    """A clone that is being fetched for the first time; it will be there by itself."""


class Clones:
    """The clones of one home. Safe for threads.

    Args:
        network: How the remote of an entry is spoken to; told what ends it early.
    """

    def __init__(self, folder: Path, network: Callable[[Entry, threading.Event], Network]) -> None:
        self._folder, self._network = folder, network
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._running: dict[Path, threading.Thread] = {}
        self._failed: dict[Path, _Failure] = {}

    def layout(self, entry: Entry) -> Layout:
        """The clone of an entry that has a remote and no path; begins to fetch it where it is not there. Never waits.

        Raises:
            Fetching: It is on its way.
            Unavailable: The last attempt failed; says why. Asking again later begins another.
        """
        place = self.place(entry)
        if (place / ".git").exists() and (there := layouts.locate(place)) is not None:
            return there
        with self._lock:
            failure = self._failed.get(place)
            if failure is not None and time.monotonic() < failure.until:
                raise Unavailable(f"it could not be fetched: {failure.error.message}", at=entry.remote,
                                  next=failure.error.next)  # fmt: skip
            if place not in self._running and not self._stop.is_set():
                thread = threading.Thread(target=self._run, args=(entry, place), name="kgd-clone", daemon=True)
                self._running[place] = thread
                thread.start()
        raise Fetching(f"workspace '{entry.id}' is being fetched", at=entry.remote, next="Ask again in a moment.")

    def problems(self) -> list[str]:
        """Clones that could not be fetched, one sentence each."""
        with self._lock:
            return sorted(f"{place.name}: {failure.error}" for place, failure in self._failed.items())

    def close(self) -> None:
        """End what is under way; a git program is killed. Nothing half is left in place."""
        self._stop.set()
        with self._lock:
            running = list(self._running.values())
        for thread in running:
            thread.join(CLOSE_SECONDS)

    def place(self, entry: Entry) -> Path:
        """A folder for each address and ref, so that an entry which comes to mean another one gets another clone."""
        known = hashlib.sha256(f"{entry.remote}\0{entry.ref}".encode()).hexdigest()[:10]
        return self._folder / f"{entry.id}-{known}"

    def _run(self, entry: Entry, place: Path) -> None:
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            layout = Layout(place / ".git", place, None, OWN_BRANCH)
            clone(layout, parse(entry.remote), self._network(entry, self._stop), entry, direction="pull")
            log.info("cloned", extra={"workspace": entry.id, "path": str(place)})
            failed = None
        except (KgdError, OSError) as error:
            failed = error if isinstance(error, KgdError) else Unavailable(f"the disk said: {error.strerror}")
            log.warning("a clone failed", extra={"workspace": entry.id, "reason": str(failed)})
        with self._lock:
            del self._running[place]
            if failed is None:
                self._failed.pop(place, None)
            else:
                before = self._failed.get(place)
                pause = min(LONGEST_PAUSE, before.pause * 2) if before else PAUSE
                self._failed[place] = _Failure(failed, pause, time.monotonic() + pause)


class _Failure:
    def __init__(self, error: KgdError, pause: float, until: float) -> None:
        self.error, self.pause, self.until = error, pause, until
