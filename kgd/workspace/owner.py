"""Ownership of a workspace: a lock file that dies with its process."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from pathlib import Path

from kgd.errors import Unavailable

GIVES_WAY = "gives way"
"""The mark behind the pid of a holder that releases the lock as soon as a daemon runs."""
PATIENCE = 5.0
"""Seconds to wait for such a holder."""


class Ownership:
    """Held from construction to `release`, or to the end of the process.

    On a read-only disk (`can_write` is False) nothing can be written, so a missing lock file is no obstacle.

    Args:
        gives_way: Whether this process releases the lock as soon as a daemon runs, so that others wait for it.

    Raises:
        Unavailable: Another process holds it; the message names its pid.
    """

    def __init__(self, derived_dir: Path, *, gives_way: bool = False) -> None:
        self._file, self.can_write, self._gives_way = -1, True, gives_way
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
        deadline = time.monotonic() + PATIENCE
        while not self._locked():
            holder = os.pread(self._file, 64, 0).decode("ascii", "replace").strip() or "unknown"
            if holder.endswith(GIVES_WAY) and time.monotonic() < deadline:
                time.sleep(0.01)
                continue
            self.release()
            raise _held(holder, derived_dir)
        with contextlib.suppress(OSError):  # a full disk hides the pid, but the lock holds
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, f"{os.getpid()} {GIVES_WAY if self._gives_way else ''}".strip().encode(), 0)

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


def _held(holder: str, derived_dir: Path) -> Unavailable:
    pid, _, rest = holder.partition(" ")
    if rest == GIVES_WAY:
        return Unavailable(
            f"a program (pid {pid}) has this workspace open by itself", at=str(derived_dir.parent),
            next="Start the daemon with `kgd up`: then all programs go through it.",
        )  # fmt: skip
    return Unavailable(
        f"another kgd (pid {pid}) has this workspace open", at=str(derived_dir.parent),
        next="Use that daemon's home (KGD_HOME), or stop it with `kgd down`.",
    )  # fmt: skip
