"""The lock that allows one daemon per home; the kernel releases it when its process ends."""

from __future__ import annotations

import fcntl
import json
import os
import time

from kgd.errors import Unavailable

PATIENCE = 0.3
"""Seconds to wait for a daemon that is stopping; a second daemon must give up within one second."""


class HomeLock:
    """The exclusive right to be the daemon of one home.

    An advisory lock on an open file, which a crash or ``kill -9`` releases at once. The text in the file (pid, version,
    since) names the holder and is not trusted without the lock. A forked child shares the lock; `note` then names it.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._fd = -1

    def acquire(self, version: str, since: str, patience: float = PATIENCE) -> None:
        """Take the lock and write its holder into the file.

        Raises:
            Unavailable: Another daemon holds the lock; the message names its pid, version and start.
        """
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        deadline = time.monotonic() + patience
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    os.close(fd)
                    raise _held(self.path) from None
                time.sleep(0.02)
        self._fd = fd
        self.note(version, since)

    def note(self, version: str, since: str) -> None:
        """Write this process into the file as the holder. Call this again after a fork."""
        text = json.dumps({"pid": os.getpid(), "version": version, "since": since}).encode() + b"\n"
        os.pwrite(self._fd, text, 0)
        os.ftruncate(self._fd, len(text))

    def is_there(self) -> bool:
        """Whether the file still exists at its path. If it does not, another daemon could take a new lock."""
        try:
            return os.fstat(self._fd).st_ino == os.stat(self.path).st_ino
        except OSError:
            return False

    def release(self) -> None:
        """Release the lock, if it is held."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def holder(path: str) -> dict[str, object]:
    """pid, version and start of the last holder, which may have ended; empty if unreadable."""
    try:
        with open(path, "rb") as file:
            found = json.loads(file.read(4096))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _held(path: str) -> Unavailable:
    who = holder(path)
    return Unavailable(
        f"a kgd daemon is already running for this home: pid {who.get('pid', 'unknown')}, "
        f"version {who.get('version', 'unknown')}, since {who.get('since', 'unknown')}",
        next="Use it, or stop it with `kgd down`; a second daemon needs its own KGD_HOME.",
    )
