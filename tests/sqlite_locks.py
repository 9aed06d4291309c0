"""kgd never opens a file itself that SQLite has open in the same process.

When a process closes a file, the system drops all of its locks on that file, those of SQLite's connections included
(https://www.sqlite.org/howtocorrupt.html, section 2.2).
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

NAMES = (".sqlite", "hub.db")
opened: list[str] = []
"""Files that were opened against the rule, and by what code."""


def watch() -> None:
    """Watch this process until its end."""
    sys.addaudithook(_watch)


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not isinstance(arguments[0], str | os.PathLike) or not f"{arguments[0]}".endswith(NAMES):
        return
    if arguments[2] & os.O_EXCL:  # creates a file or fails, so it opens none that SQLite has open
        return
    frame = _caller(sys._getframe(1))
    if frame.f_globals.get("__name__", "").startswith("kgd.") and os.path.realpath(arguments[0]) in _open_files():
        opened.append(f"{arguments[0]} in {frame.f_code.co_filename}:{frame.f_lineno}")


def _caller(frame: FrameType) -> FrameType:
    """The frame that called the standard library, which opens the file."""
    while frame.f_globals.get("__name__") in ("pathlib", "io", "shutil", "tempfile") and frame.f_back:
        frame = frame.f_back
    return frame


def _open_files() -> set[str]:
    found = set[str]()
    for link in Path("/proc/self/fd").glob("*"):
        with contextlib.suppress(OSError):
            found.add(os.readlink(link))
    return found
