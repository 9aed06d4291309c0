"""Progress of a long call, on standard error of a terminal. Not loaded for a pipe, `--quiet` and `--json`."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

from kgd.cli.terminal import clean, has_color
from kgd.config import is_dumb_terminal

if TYPE_CHECKING:
    from kgd.cli.progress_bar import Bar

OnProgress = Callable[[int, int | None, str], None]

SILENT_SECONDS = 0.5
"""Seconds before anything is shown."""
QUIET_SECONDS = 1.0
"""Seconds without a report of progress after which the elapsed time is shown."""


@contextmanager
def shown(what: str, options: dict[str, Any]) -> Iterator[OnProgress | None]:
    """Show the progress of a command on one line, which is cleared at the end. Shows nothing without a terminal.

    Yields a function to call with done, total and a message.
    """
    if options.get("quiet") or options.get("json") or not sys.stderr.isatty() or is_dumb_terminal():
        yield None
        return
    display = _Display(f"kgd {what}")
    Thread(target=display.follow, daemon=True).start()
    try:
        yield display.report
    finally:
        display.end()


class _Display:
    """The latest report, and the line that shows it."""

    def __init__(self, what: str) -> None:
        self._doing, self._done = what, 0
        self._total: int | None = None
        self._began = self._last = time.monotonic()
        self._ended, self._lock = Event(), Lock()
        self._bar: Bar | None = None

    def report(self, done: int, total: int | None, message: str) -> None:
        with self._lock:
            message = clean(message) or self._doing
            if (done, message) != (self._done, self._doing):
                self._last = time.monotonic()
            self._done, self._total, self._doing = done, total or None, message

    def follow(self) -> None:
        """Renew the line until the end."""
        if self._ended.wait(SILENT_SECONDS):
            return
        from kgd.cli.progress_bar import Bar

        bar = self._bar = Bar(has_color(sys.stderr))
        while not self._ended.is_set():
            with self._lock:
                now = time.monotonic()
                waits = now - self._began if now - self._last >= QUIET_SECONDS else None
                bar.show(self._doing, self._done, self._total, waits)
            self._ended.wait(0.1)

    def end(self) -> None:
        with self._lock:
            self._ended.set()
            if self._bar:
                self._bar.clear()
