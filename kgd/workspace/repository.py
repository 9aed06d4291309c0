"""The repository of an open workspace: its settings at the tip, the lock of its owner, and its background upkeep.

The lock file dies with its process. Upkeep rolls up packs, lists commits, and releases memory after a burst.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import gc
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from kgd.codec.settings import PATH, Settings, decode_settings, policy_in, why_too_new
from kgd.errors import Unavailable
from kgd.git import pack_upkeep
from kgd.git.layout import Layout
from kgd.git.objects import ObjectId
from kgd.git.refs import HEAD
from kgd.git.store import ObjectStore
from kgd.model.access import Policy
from kgd.shared_threads import Task, Threads
from kgd.workspace.answers import Stage


def read_settings(layout: Layout, store: ObjectStore) -> Settings:
    """The settings in ``kgd.yaml`` at the tip; if a newer kgd wrote them, only the known settings.

    Raises:
        Unavailable: The tip has no settings, or there is no tip.
        KgdError: The settings cannot be read.
    """
    tip = store.ref(HEAD)
    if tip is None:
        raise Unavailable(
            f"{HEAD} is lost, and no earlier value of it is known",
            at=str(layout.git_dir),
            next="Run `git update-ref refs/kgd/head COMMIT` there, with the newest commit of another copy.",
        )
    blob = store.entry(store.tree_of(tip), PATH)
    if blob is None:
        raise Unavailable(
            "the tip has no kgd.yaml",
            at=str(layout.git_dir),
            next="Run `git update-ref refs/kgd/head refs/kgd/head@{1}` there to go back by one step.",
        )
    return decode_settings(store.read(blob), newer=True)


def why_read_only(settings: Settings) -> str:
    """The reason why the workspace is read-only; empty if it is writable."""
    why = why_too_new(settings)
    return f"it has {why}" if why else ""


def policy_at(store: ObjectStore, tip: ObjectId, workspace: str) -> Policy:
    """The rules for writing and proposing, from ``kgd.yaml`` at the tip."""
    blob = store.entry(store.tree_of(tip), PATH)
    return policy_in(store.read(blob) if blob else None, workspace)


class Ownership:
    """Held from construction to `release`, or to the end of the process.

    On a read-only disk (`can_write` is False) nothing can be written, so a missing lock file does not matter.

    Raises:
        Unavailable: Another process holds it; the message names its pid.
    """

    def __init__(self, derived_dir: Path) -> None:
        self._file, self.can_write = -1, True
        lock = derived_dir / "lock"
        self._path = os.fspath(lock)
        try:
            derived_dir.mkdir(mode=0o700, exist_ok=True)  # not its parents: the repository may be being deleted
            self._file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise Unavailable(f"the workspace cannot be opened: {error.strerror}", at=str(lock)) from error
            self.can_write = False
            with contextlib.suppress(OSError):
                self._file = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
        if self._file >= 0:
            self._take(derived_dir)
            self._known = os.fstat(self._file)

    def is_in_place(self) -> bool:
        """Whether the lock file is still at its path: False after its folder was moved or removed."""
        if self._file < 0:
            return True
        try:
            return os.path.samestat(self._known, os.stat(self._path))
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def _take(self, derived_dir: Path) -> None:
        deadline = time.monotonic() + LEFT_SECONDS
        while not self._locked():
            holder = os.pread(self._file, 64, 0).decode("ascii", "replace").strip() or "unknown"
            if _has_ended(holder) and time.monotonic() < deadline:
                time.sleep(0.02)
                continue
            self.release()
            raise Unavailable(
                f"another kgd (pid {holder}) has this workspace open",
                at=str(derived_dir.parent),
                next="Use that daemon's home (KGD_HOME), or stop it with `kgd down`.",
            )
        with contextlib.suppress(OSError):  # on a full disk the pid is missing, but the lock is held
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def _locked(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def release(self) -> None:
        if self._file >= 0:
            with contextlib.suppress(OSError):
                fcntl.flock(self._file, fcntl.LOCK_UN)  # needed because a forked child has the lock file open as well
            os.close(self._file)
            self._file = -1


def _has_ended(pid: str) -> bool:
    """Whether there is no such process."""
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (ValueError, OSError):
        return False
    return False


LEFT_SECONDS = 3.0
"""Longest wait for the lock of a process that was killed. A child that it was starting holds the lock until it runs its
program."""

CLOSE_WITHIN = 2.0
"""Seconds for which closing waits for an interrupted roll-up to end; the roll-up then leaves all packs unchanged."""

LOOK_SECONDS = 60.0
"""Seconds between checks of the packs while nothing changes, since the user's gc removes packs as well."""

LOOK_FLUSHES = 10
"""Number of flushes between checks while changes are written. A check takes 2 ms, as long as half a change."""

GRAPH_SECONDS = 600.0
"""Seconds until the next attempt if git did not write the commit-graph, as in a shallow repository or while another
process holds its lock."""

QUIET_SECONDS, QUIET_LOOKS = 2.0, 15
"""Interval and number of memory releases after the last flush, since indexing and publication continue. A release takes
10 ms, so there is none during a burst of changes."""

THREADS = Threads("kgd-upkeep", 2)
"""Runs what no caller waits for."""

log = logging.getLogger(__name__)


class Upkeep:
    """Rolls up the packs of one repository whenever a level may be full, and keeps its commit-graph, until `close`."""

    def __init__(self, store: ObjectStore, clock: Callable[[], float]) -> None:
        self._store, self._clock = store, clock
        self._flushes, self._graph_at = 0, 0.0
        """The number of flushes, and the earliest time of the next commit-graph."""
        self._seen = self._left = 0
        """The flushes at the last step, and the memory releases that are left."""
        self._stopping = threading.Event()
        self._stage = Stage("upkeep")
        self._task = Task(THREADS, self._step)
        self._task.wake()

    def note_flush(self) -> None:
        """Record that a pack was written."""
        self._flushes += 1
        if self._flushes % LOOK_FLUSHES == 0:
            self._task.wake()

    def health(self) -> Stage:
        return self._stage

    def close(self) -> None:
        self._stopping.set()
        self._task.close(CLOSE_WITHIN)

    def _step(self) -> float:
        before, self._seen = self._seen, self._flushes
        is_quiet = before == self._seen
        try:
            self._keep(anew=is_quiet and self._left > 0)
        except Exception as error:  # the next step tries again
            log.exception("packs could not be rolled up")
            self._stage = Stage("upkeep", "degraded", self._stage.last_success, f"{error}"[:200])
        if not is_quiet:
            self._left = QUIET_LOOKS
        elif self._left:
            self._left -= 1
            if not self._left:  # this stops all threads; the larger the heap, the longer
                gc.collect()
            give_memory_back()
        return QUIET_SECONDS if self._left else LOOK_SECONDS

    def _keep(self, *, anew: bool) -> None:
        git_dir = self._store.git_dir
        pack_upkeep.settle(self._store.pack_dir)
        if pack_upkeep.due(self._store.pack_dir):
            failed = pack_upkeep.maintain(git_dir, self._stopping)
            self._stage = Stage("upkeep", "degraded" if failed else "ok", self._clock(), failed[:200])
        if time.monotonic() >= self._graph_at and pack_upkeep.is_graph_due(git_dir):
            done = pack_upkeep.renew_graph(git_dir, self._stopping)
            self._graph_at = 0.0 if done else time.monotonic() + GRAPH_SECONDS
        if not self._stopping.is_set():
            self._store.renew(anew=anew)


def give_memory_back() -> None:
    """Return freed memory to the system: 15 MB after loading 100,000 nodes, 48 MB after their vectors. Takes some
    milliseconds, so call it rarely."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
