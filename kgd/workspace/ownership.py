"""Ownership of a workspace: a lock file that dies with its process."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path

from kgd.errors import Unavailable


class Ownership:
    """Held from construction to `release`, or to the end of the process.

    On a read-only disk (`can_write` is False) nothing can be written, so a missing lock file is no obstacle.

    Raises:
        Unavailable: Another process holds it; the message names its pid.
    """

    def __init__(self, derived_dir: Path) -> None:
        self._file, self.can_write = -1, True
        self._lock = lock = derived_dir / "lock"
        try:
            derived_dir.mkdir(mode=0o700, exist_ok=True)  # never the repository itself: it may be being deleted
            self._file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
                raise Unavailable(f"the workspace cannot be opened: {error.strerror}", at=str(lock)) from error
            self.can_write = False
            with contextlib.suppress(OSError):
                self._file = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
        if self._file >= 0:
            self._take(derived_dir)

    def is_in_place(self) -> bool:
        """Whether the lock file is still in its place: False after its folder was moved or removed."""
        if self._file < 0:
            return True
        try:
            return os.path.samestat(os.fstat(self._file), os.stat(self._lock))
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def _take(self, derived_dir: Path) -> None:
        if not self._locked():
            holder = os.pread(self._file, 64, 0).decode("ascii", "replace").strip() or "unknown"
            self.release()
            raise Unavailable(
                f"another kgd (pid {holder}) has this workspace open",
                at=str(derived_dir.parent),
                next="Use that daemon's home (KGD_HOME), or stop it with `kgd down`.",
            )
        with contextlib.suppress(OSError):  # a full disk hides the pid, but the lock holds
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
                fcntl.flock(self._file, fcntl.LOCK_UN)  # a forked child has the lock open too
            os.close(self._file)
            self._file = -1
