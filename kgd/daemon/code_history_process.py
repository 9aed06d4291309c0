"""The process that reads a long history of code into its index, at idle priority. It ends with its standard input."""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from pathlib import Path

from kgd.code_history.history import CodeHistory
from kgd.workspace import child_process

MEMORY = 2 << 30
"""Limit of the address space in bytes."""
NICE = 19


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
