"""Long output in the user's pager, if standard output is a terminal."""

from __future__ import annotations

import io
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

from kgd.config import pager

NOT_RUNNABLE = (126, 127)
"""Exit codes of a shell that could not run the command."""
_UNKNOWN = (80, 0)
"""The size if the terminal does not report one."""


class _Page(io.StringIO):
    """The collected output, which is formatted as for a terminal."""

    def isatty(self) -> bool:
        return True


@contextmanager
def paged(is_on: bool) -> Iterator[None]:
    """Show the output of the block in the pager if it has more lines than the terminal.

    This has no effect in a pipe, or on a terminal that does not report its height.
    """
    command, environment = pager()
    if not is_on or not command or not sys.stdout.isatty():
        yield
        return
    page = _Page()
    try:
        with redirect_stdout(page):
            yield
    finally:
        text, rows = page.getvalue(), shutil.get_terminal_size(_UNKNOWN).lines
        if not rows or text.count("\n") < rows or not _show(command, environment, text):
            sys.stdout.write(text)


def _show(command: str, environment: dict[str, str], text: str) -> bool:
    """Whether the pager ran. Ctrl-C belongs to the pager meanwhile."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        done = subprocess.run(command, shell=True, input=text.encode(errors="replace"), env=environment, check=False)
    finally:
        signal.signal(signal.SIGINT, before)
    return done.returncode not in NOT_RUNNABLE
