"""Background reading of the code's history: at startup, and whenever another commit is checked out.

A few commits are read in the daemon. Many commits are read by a separate process at idle priority, which writes the
same index, and ends with its standard input.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

from kgd.code_history.history import CodeHistory
from kgd.workspace import child_process

AFTER_SECONDS = 0.3
"""Seconds before the first reading, so that the call that started the daemon is answered first."""
FEW = 500
"""Largest number of commits to read in the daemon; for so few, starting a process would take longer."""
PATIENCE = 0.5
"""Seconds that a question waits for new commits to be read."""
PROGRAM = ("-m", "kgd.daemon.code_history")
MEMORY = 2 << 30
"""Limit of the process's address space in bytes."""
NICE = 19

log = logging.getLogger("kgd.history")


class HistoryReader:
    """Keeps the history of one workspace's code current, until it is closed."""

    def __init__(self, history: CodeHistory, root: Path) -> None:
        self._history, self._root = history, root
        self._changed = threading.Condition()
        self._stop = threading.Event()
        self._noted, self._done = 1, 0
        """Number of changes noted, and number of those already handled."""
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._follow, name="kgd-history", daemon=True)

    def start(self) -> None:
        self._history.refresh = self._refresh
        self._thread.start()

    def note(self) -> None:
        """Note that another commit may be checked out. Returns at once."""
        with self._changed:
            self._noted += 1
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._stop.set()
            self._changed.notify_all()
            if self._process is not None:
                self._process.kill()
        if self._thread.ident is not None:
            self._thread.join(30)
        self._history.close()

    def _refresh(self) -> None:
        """Wait briefly for the commits since the last reading, unless a long history is being read."""
        with self._changed:
            if self._process is None and not self._stop.is_set():
                self._noted += 1
                mine = self._noted
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._done >= mine or self._process is not None, PATIENCE)

    def _follow(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stop.is_set() or self._noted > 1, AFTER_SECONDS)
        while not self._stop.is_set():
            with self._changed:
                self._changed.wait_for(lambda: self._stop.is_set() or self._noted > self._done)
                noted = self._noted
            if not self._stop.is_set() and not self._history.is_current:
                self._attempt()
            with self._changed:
                self._done = noted
                self._changed.notify_all()

    def _attempt(self) -> None:
        try:
            self._read()
        except Exception as error:  # the thread survives any error; the history is read again later
            log.exception("the code's history could not be read")
            self._history.give_up(self._history.tip, f"{error}")

    def _read(self) -> None:
        if self._history.missing() <= FEW:
            self._history.update(self._stop)
            return
        tip = self._history.tip
        command = [sys.executable, *PROGRAM, str(self._root), str(self._history.file)]
        with self._changed:
            if self._stop.is_set():
                return
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/"
            )
            self._changed.notify_all()
        code = self._process.wait()
        with self._changed:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process = None
        if code and not self._stop.is_set():
            self._history.give_up(tip, f"the process that reads it ended with code {code}")


def main(arguments: list[str]) -> int:
    """`arguments`: the top of the code tree, and the index. Returns 0 if the index has the whole history."""
    with contextlib.suppress(OSError, ValueError):
        os.nice(NICE)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, AttributeError):  # git inherits it; macOS does not have this class
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    child_process.end_with_input()
    history = CodeHistory(Path(arguments[0]), Path(arguments[1]))
    history.update()
    is_whole = history.is_read
    history.close()
    return 0 if is_whole else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
