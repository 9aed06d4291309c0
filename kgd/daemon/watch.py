"""Folder watches. An event is a hint that a file changed; only a scan is reliable.

Hints are collected for a moment and delivered in one call. A full scan compensates for events that the kernel drops or
never reports: at once after an overflow, and periodically.
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

# A folder that is created while its parent is listed is seen twice by watchdog, which then warns and names all others.
warnings.filterwarnings("ignore", message="Callback with id", category=RuntimeWarning)

# Without this filter, watchdog also asks for open and close events. Its own walk of a large tree then fills the queue
# until it overflows, and the walk starts again; with some thousand folders, one core stays busy permanently.
EVENTS: list[type[FileSystemEvent]] = [
    FileCreatedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileDeletedEvent,
    DirCreatedEvent,
    DirMovedEvent,
    DirDeletedEvent,
]

START_SECONDS = 0.3
"""Seconds for which the opening of a workspace waits for its watches: 40,000 folders take a second or more."""
QUIET_SECONDS = 0.03
"""Seconds that a hint waits for more hints; in a burst, up to `LONGEST_SECONDS`, so that a checkout is one change."""
LONGEST_SECONDS = 0.4
PATHS_LIMIT = 2_000
"""Number of changed paths above which everything is scanned."""
DEGRADED_SECONDS = 5.0
INSTEAD = "folders are scanned every 5 seconds, or less often if that takes long"
REST = 4
"""After a call that used some CPU time, the next hints wait this many times as long: a build that writes files all the
time must not keep the daemon busy with a large tree."""
LONGEST_REST, LONGEST_INTERVAL = 2.0, 300.0
TOP_FOLDERS_LIMIT = 64

OnChange = Callable[[frozenset[str] | None], object]
"""Called with the changed absolute paths, or None to scan everything. Runs on the watch's thread and may block."""

log = logging.getLogger("kgd.watch")


class Folder(NamedTuple):
    """A folder to watch. `skip` names direct subfolders to ignore."""

    path: Path
    recursive: bool = True
    skip: frozenset[str] = frozenset()


class Watch(FileSystemEventHandler):
    """Watches folders until it is closed.

    `degraded` is empty, or one sentence with the problem and its remedy; the folders are then scanned every five
    seconds, or less often if that takes long.

    Args:
        rescan_seconds: The shortest time between two periodic scans. After a scan that took long, the next one waits up
            to five minutes, so that the two watches of a workspace take at most one per cent of a core; a
            `degraded` watch takes up to ten.
        scan_seconds: CPU time of the last scan, if `on_change` only starts it.
    """

    def __init__(
        self,
        folders: Iterable[Folder],
        on_change: OnChange,
        *,
        rescan_seconds: float = 30.0,
        scan_seconds: Callable[[], float] = lambda: 0.0,
        quiet_seconds: float = QUIET_SECONDS,
    ) -> None:
        self.degraded = ""
        self._folders, self._on_change = list(folders), on_change
        self._rescan_seconds, self._scan_seconds, self._quiet_seconds = rescan_seconds, scan_seconds, quiet_seconds
        self._lock = threading.Condition()
        self._changed: set[str] = set()
        self._everything = False
        self._first = self._last = self._rested = 0.0
        self._closed = False
        self._observer: BaseObserver | None = None
        """None if there is no inotify instance or no thread for it."""
        self._split: dict[str, Folder] = {}
        """Folders whose members are watched separately, because some are skipped."""
        self._members: dict[str, ObservedWatch] = {}
        self._thread = threading.Thread(target=self._deliver, name="kgd-watch", daemon=True)
        self._starting = threading.Thread(target=self._watch_folders, name="kgd-watching", daemon=True)

    def start(self) -> None:
        """Start watching; a failure sets `degraded` and is not raised. Many folders are watched a moment later."""
        self._thread.start()
        _overflows.watches.add(self)
        try:
            self._starting.start()
            self._starting.join(START_SECONDS)
        except RuntimeError as error:
            self._degrade(error)

    def _watch_folders(self) -> None:
        begun = time.monotonic()
        try:
            observer = Observer()  # takes an inotify instance, of which each user has only a few
            observer.start()
            self._observer = observer
            for folder in self._folders:
                self._schedule(folder)
        except (OSError, RuntimeError) as error:  # a thread that cannot be started is a RuntimeError
            self._degrade(error)
        if time.monotonic() - begun > START_SECONDS:
            self.hint(None)  # the first scan may have come before the watches

    def close(self) -> None:
        """Stop watching, once a running call of `on_change` has ended."""
        _overflows.watches.discard(self)
        with self._lock:
            self._closed = True
            self._lock.notify_all()
        if self._starting.is_alive():
            self._starting.join(timeout=5)
        if self._observer and self._observer.is_alive():
            self._observer.stop()
            self._observer.join(timeout=5)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout=30)

    def hint(self, path: str | None) -> None:
        """Note a changed path, or everything."""
        now = time.monotonic()
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
                # The folder was removed and created again, for example by two checkouts. Its old watch has ended but
                # would prevent a new one.
                with contextlib.suppress(KeyError):  # removed by `close`
                    self._started.unschedule(before)
            self._members[path] = self._observe(path, recursive=True)
        except FileNotFoundError:
            pass  # removed again, which also caused an event
        except (OSError, RuntimeError) as error:
            self._degrade(error)
        self.hint(None)  # files may have been created in it before the watch started

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
                f"too many folders for the kernel's limit; {INSTEAD}. "
                "Raise it with: sudo sysctl fs.inotify.max_user_watches=524288"
            )
        elif code == errno.EMFILE:
            self.degraded = (
                f"changes cannot be watched (no free inotify instance); {INSTEAD}. "
                "Raise the limit with: sudo sysctl fs.inotify.max_user_instances=512"
            )
        else:
            self.degraded = f"changes cannot be watched ({reason}); {INSTEAD}"
        log.warning("watching is degraded", extra={"reason": reason})
        self.hint(None)

    def _deliver(self) -> None:
        """Until `close`: wait until hints stop arriving, or for the next periodic scan, and call `on_change`."""
        due = time.monotonic() + self._interval()
        while self._wait(due):
            changed = self._taken()
            began = time.thread_time()  # a scan may wait for another, which costs nothing
            try:
                self._on_change(changed)
            except Exception:
                log.exception("a change could not be handled")
            now, spent = time.monotonic(), time.thread_time() - began
            self._rested = now + min(LONGEST_REST, REST * spent)
            if changed is None:
                due = now + self._interval(max(self._scan_seconds(), spent))

    def _interval(self, scan_seconds: float = 0.0) -> float:
        """Seconds until the next periodic scan, after a scan that took so long."""
        least, times = (DEGRADED_SECONDS, 10) if self.degraded else (self._rescan_seconds, 200)
        return max(least, min(LONGEST_INTERVAL, times * scan_seconds))

    def _wait(self, due: float) -> bool:
        """True when there are hints to deliver, False when closed."""
        with self._lock:
            while not self._closed:
                now = time.monotonic()
                ripe = due
                if self._changed or self._everything:
                    quiet = min(LONGEST_SECONDS, self._quiet_seconds * (1 + len(self._changed) / 50))
                    ripe = min(due, max(self._rested, min(self._last + quiet, self._first + LONGEST_SECONDS)))
                if now >= ripe:
                    return True
                self._lock.wait(ripe - now)
        return False

    def _taken(self) -> frozenset[str] | None:
        """The changed paths; None to scan everything, as in the periodic scan."""
        with self._lock:
            changed = None if self._everything or not self._changed else frozenset(self._changed)
            self._changed, self._everything = set(), False
            return changed


class _Overflows(logging.Handler):
    """Starts a full scan in every watch after lost events, which watchdog reports only in its log."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.watches: set[Watch] = set()
        logging.getLogger("watchdog.observers").addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        for watch in list(self.watches):
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
