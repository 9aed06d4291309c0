"""This file is where one process says that a workspace is its own: a lock that dies with its holder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from kgd.errors import Unavailable


class Ownership:
    """Held from construction to `release`, or to the end of the process.

    Raises:
        Unavailable: Another process holds it; the message names its pid.
    """

    def __init__(self, derived_dir: Path) -> None:
        derived_dir.mkdir(mode=0o700, exist_ok=True)
        self._file = os.open(derived_dir / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 32, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._file)
            raise Unavailable(
                f"another kgd (pid {holder}) has this workspace open", at=str(derived_dir.parent),
                next="Use that daemon's home (KGD_HOME), or stop it with `kgd down`.",
            ) from None  # fmt: skip
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
