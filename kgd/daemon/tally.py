"""The tally of what a token is refused, and of writes that change nothing: one line of the audit log a minute.

The first of a kind is written at once. Those that follow within its minute are counted into its line, once a second and
when the log is read, so a flood of refusals costs neither lines nor writes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from kgd.model.token import AuditEntry

MOST_KINDS = 1_000
"""Lines in one minute; what comes beyond is counted in one line."""


class Log(Protocol):
    """The part of `kgd.daemon.tokens.HubState` that this needs."""

    def note(self, entry: AuditEntry) -> int: ...
    def renote(self, number: int, detail: str) -> None: ...


@dataclass(slots=True)
class _Line:
    number: int
    entry: AuditEntry
    count: int = 1
    written: int = 1
    at: int = 0


class Tally:
    """Counts alike entries of one minute. Safe for threads.

    Args:
        log: Where lines go; asked at each use, since it may not be open yet.
    """

    def __init__(self, log: Callable[[], Log]) -> None:
        self._log, self._lock = log, threading.Lock()
        self._minute = 0
        self._lines: dict[tuple[str, ...], _Line] = {}

    def add(self, entry: AuditEntry, kind: str) -> None:
        """Count an entry; those of one token, action, workspace and `kind` share a line, which tells of the first."""
        key = (entry.token, entry.action, entry.workspace, kind)
        with self._lock:
            if entry.at // 60 != self._minute:
                self._write()
                self._lines.clear()
                self._minute = entry.at // 60
            if key not in self._lines and len(self._lines) >= MOST_KINDS:
                key = ("", "refused", "", "")
                entry = replace(entry, token="", action="refused", workspace="", detail="refusals of many kinds")
            line = self._lines.get(key)
            if line is None:
                self._lines[key] = _Line(self._log().note(entry), entry, at=entry.at)
                return
            line.count += 1
            if entry.at > line.at:
                line.at = entry.at
                self._write_line(line)

    def flush(self) -> None:
        """Write every count that is not in the log yet."""
        with self._lock:
            self._write()

    def _write(self) -> None:
        for line in self._lines.values():
            self._write_line(line)

    def _write_line(self, line: _Line) -> None:
        if line.written < line.count:
            self._log().renote(line.number, f"{line.entry.detail} ({line.count} times)")
            line.written = line.count
