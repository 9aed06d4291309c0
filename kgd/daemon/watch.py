"""This file is where folders are watched. An event is a hint that something changed; a look through them is the truth.

Hints are gathered for a moment and handed on in one call. Whatever the kernel drops, refuses or never reports is made
good by looking through everything: at once after an overflow, and from time to time in any case.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver, ObservedWatch

# It meets a new folder twice where it is made while its parent is listed, and says so with the names of all others.
warnings.filterwarnings("ignore", message="Callback with id", category=RuntimeWarning)

# Without this filter watchdog asks for open and close events too; its own walk of a large tree then feeds the queue
# until it overflows, and the walk begins again: a core burnt for ever from some thousand folders on.
EVENTS: list[type[FileSystemEvent]] = [
    FileCreatedEvent, FileModifiedEvent, FileMovedEvent, FileDeletedEvent,
    DirCreatedEvent, DirMovedEvent, DirDeletedEvent,
]  # fmt: skip

QUIET_SECONDS = 0.03
"""A hint waits this long for its neighbours; in a burst up to `LONGEST_SECONDS`, since a checkout is one change."""
LONGEST_SECONDS = 0.4
PATHS_LIMIT = 2_000
"""More changed paths than that are handed on as "look through everything"."""
DEGRADED_SECONDS = 5.0
TOP_FOLDERS_LIMIT = 64

OnChange = Callable[[frozenset[str] | None], object]
"""Told the absolute paths that changed, or None: look through everything. On the watch's own thread; it may block."""

log = logging.getLogger("kgd.watch")


class Folder(NamedTuple):
    """A folder to watch. `skip` names folders directly in it that are of no interest, however large they are."""

    path: Path
    recursive: bool = True
    skip: frozenset[str] = frozenset()


class Watch(FileSystemEventHandler):
    """Watches folders until it is closed.

    `degraded` is empty, or one sentence that says what does not work and what to do; the folders are then looked
    through every five seconds instead.
    """

    def __init__(
        self, folders: Iterable[Folder], on_change: OnChange, *, rescan_seconds: float = 30.0,
        quiet_seconds: float = QUIET_SECONDS, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self.degraded = ""
        self._folders, self._on_change = list(folders), on_change
        self._rescan_seconds, self._quiet_seconds, self._clock = rescan_seconds, quiet_seconds, clock
        self._lock = threading.Condition()
        self._changed: set[str] = set()
        self._everything = False
        self._first = self._last = 0.0
        self._closed = False
        self._observer: BaseObserver | None = None
        """None where the kernel gave no inotify instance, or the system no thread."""
        self._split: dict[str, Folder] = {}
        """Folders whose members are watched one by one, because some are to be skipped."""
        self._members: dict[str, ObservedWatch] = {}
        self._thread = threading.Thread(target=self._hand_on, name="kgd-watch", daemon=True)

    def start(self) -> None:
        """Begin. Watching that fails is no error: it is `degraded`."""
        self._thread.start()
        _overflows.add(self)
        try:
            observer = Observer()  # takes an inotify instance, of which a user has few
            observer.start()
            self._observer = observer
            for folder in self._folders:
                self._schedule(folder)
        except (OSError, RuntimeError) as error:  # a thread that cannot be started is a RuntimeError
            self._degrade(error)

    def close(self) -> None:
        """Stop watching. A call of `on_change` that is under way is waited for."""
        _overflows.discard(self)
        with self._lock:
            self._closed = True
            self._lock.notify_all()
        if self._observer and self._observer.is_alive():
            self._observer.stop()
            self._observer.join(timeout=5)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout=30)

    def hint(self, path: str | None) -> None:
        """Note a changed path, or everything."""
        now = self._clock()
        with self._lock:
            if not self._changed and not self._everything:
                self._first = now
            self._last = now
            if path is None or len(self._changed) >= PATHS_LIMIT:
                self._everything = True
            else:
                self._changed.add(path)
            self._lock.notify_all()

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Called by watchdog."""
        for path in (os.fsdecode(event.src_path), os.fsdecode(event.dest_path or "")):
            if path and not self._is_skipped(path):
                self.hint(path)
                above = os.path.dirname(path)
                if above in self._split and isinstance(event, DirCreatedEvent | DirMovedEvent):
                    self._schedule_member(self._split[above], path)

    def _schedule(self, folder: Folder) -> None:
        if not folder.path.is_dir():
            return
        members = _members(folder) if folder.recursive and folder.skip else None
        if members is None or len(members) > TOP_FOLDERS_LIMIT:
            self._observe(str(folder.path), recursive=folder.recursive)
            return
        self._split[str(folder.path)] = folder
        self._observe(str(folder.path), recursive=False)
        for path in members:
            self._schedule_member(folder, path)

    def _schedule_member(self, folder: Folder, path: str) -> None:
        if os.path.basename(path) in folder.skip or not _is_real_folder(path):
            return
        try:
            if before := self._members.pop(path, None):
                # A folder of this name was there before and went: what watched it has ended, but still stands in the
                # place of a new one. A branch that lacks the folder is checked out, and then the first one again.
                with contextlib.suppress(KeyError):  # closing took it away
                    self._started.unschedule(before)
            self._members[path] = self._observe(path, recursive=True)
        except FileNotFoundError:
            pass  # gone again; its going was an event too
        except (OSError, RuntimeError) as error:
            self._degrade(error)
        self.hint(None)  # what came into it before it was watched

    def _observe(self, path: str, *, recursive: bool) -> ObservedWatch:
        return self._started.schedule(self, path, recursive=recursive, event_filter=EVENTS)

    @property
    def _started(self) -> BaseObserver:
        assert self._observer
        return self._observer

    def _is_skipped(self, path: str) -> bool:
        for folder in self._folders:
            if folder.skip and path.startswith(f"{folder.path}/"):
                return path[len(str(folder.path)) + 1 :].partition("/")[0] in folder.skip
        return False

    def _degrade(self, error: OSError | RuntimeError) -> None:
        code, reason = getattr(error, "errno", None), getattr(error, "strerror", None) or str(error)
        if code == errno.ENOSPC:
            self.degraded = (
                "too many folders for the kernel's limit; they are looked through every 5 seconds instead. "
                "Raise it with: sudo sysctl fs.inotify.max_user_watches=524288"
            )
        elif code == errno.EMFILE:
            self.degraded = (
                "changes cannot be watched (no free inotify instance); folders are looked through every 5 seconds. "
                "Raise the limit with: sudo sysctl fs.inotify.max_user_instances=512"
            )
        else:
            self.degraded = f"changes cannot be watched ({reason}); folders are looked through every 5 seconds"
        log.warning("watching is degraded", extra={"reason": reason})
        self.hint(None)

    def _hand_on(self) -> None:
        """Until closed: wait for quiet after a hint, or until everything is due to be looked through again."""
        due = self._clock() + self._interval()
        while self._wait(due):
            changed = self._taken()
            began = self._clock()
            try:
                self._on_change(changed)
            except Exception:
                log.exception("a hint was not taken")
            if changed is None:
                # Looking through a large tree may take long; half of the time is left to others.
                due = self._clock() + max(self._interval(), self._clock() - began)

    def _interval(self) -> float:
        return DEGRADED_SECONDS if self.degraded else self._rescan_seconds

    def _wait(self, due: float) -> bool:
        """True when something is to be handed on, False when closed."""
        with self._lock:
            while not self._closed:
                now = self._clock()
                ripe = due
                if self._changed or self._everything:
                    quiet = min(LONGEST_SECONDS, self._quiet_seconds * (1 + len(self._changed) / 50))
                    ripe = min(due, self._last + quiet, self._first + LONGEST_SECONDS)
                if now >= ripe:
                    return True
                self._lock.wait(ripe - now)
        return False

    def _taken(self) -> frozenset[str] | None:
        """The paths to hand on; None for everything, also when it was time that ran out."""
        with self._lock:
            changed = None if self._everything or not self._changed else frozenset(self._changed)
            self._changed, self._everything = set(), False
            return changed


class _Overflows(logging.Handler):
    """watchdog tells of lost events in its log alone; every watch then looks through everything."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._watches: set[Watch] = set()
        logging.getLogger("watchdog.observers").addHandler(self)

    def add(self, watch: Watch) -> None:
        self._watches.add(watch)

    def discard(self, watch: Watch) -> None:
        self._watches.discard(watch)

    def emit(self, record: logging.LogRecord) -> None:
        for watch in list(self._watches):
            watch.hint(None)


_overflows = _Overflows()


def _members(folder: Folder) -> list[str]:
    try:
        with os.scandir(folder.path) as entries:
            return [e.path for e in entries if e.is_dir(follow_symlinks=False) and e.name not in folder.skip]
    except OSError:
        return []


def _is_real_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False
