"""State files: kgd's own JSON files on this machine.

A damaged file never makes a call fail: it is reported once in the log, renamed and treated as missing.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from kgd.errors import MALFORMED, KgdError

ASIDE = ".damaged"
"""Suffix of a damaged file that was set aside. It replaces an earlier one."""

_Value = TypeVar("_Value")

log = logging.getLogger("kgd.state")


def read(path: Path, parse: Callable[[Any], _Value], *, read_only: bool = False) -> _Value | None:
    """Read a JSON file, and return the result of `parse`; None if the file is missing or cannot be used.

    Args:
        parse: Converts the document; raises one of `MALFORMED`, or KgdError, if the document has another shape.
        read_only: Leave a damaged file in its place.
    """
    try:
        with path.open("rb") as file:  # open until the end, so that a new file cannot get its inode number
            try:
                return parse(json.loads(file.read()))
            except (KgdError, *MALFORMED) as error:
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):  # another writer may have replaced it
                    _report(path, error, read_only)
    except IsADirectoryError as error:
        _report(path, error, read_only)
    except OSError:
        pass
    return None


def _report(path: Path, error: Exception, read_only: bool) -> None:
    aside = path if read_only else path.with_name(path.name + ASIDE)
    try:
        if not read_only:
            os.replace(path, aside)
    except OSError:  # as on a read-only disk
        aside = path
    reason = f"{type(error).__name__}: {error}"[:200]
    log.warning("a damaged state file is ignored", extra={"path": str(aside), "reason": reason})
