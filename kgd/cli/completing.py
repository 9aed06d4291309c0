"""Values for shell completion, from a running daemon: ``kgd complete KIND TEXT [WORKSPACE [DIRECTORY]]``.

Prints nothing if no daemon runs or the daemon is busy. The completion scripts call it for each press of Tab.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from kgd.client.connection import Connection
from kgd.config import Home
from kgd.errors import KgdError

SECONDS = 0.5
"""Seconds after which completion gives up."""


def run(words: Sequence[str]) -> int:
    """Print the values, one per line. Errors are silent: they would disturb the line that the user is typing."""
    kind, text, workspace, directory = (*words, "", "", "", "")[:4]
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    asked = {"kind": kind, "text": text} | ({"workspace": workspace} if workspace else {})
    try:
        with Connection(Home.find(), start=False, cwd=os.path.abspath(directory) if directory else None) as connection:
            values = connection.call("complete", asked)["values"]
    except (KgdError, OSError):
        return 0
    sys.stdout.write("".join(f"{value}\n" for value in values if value.isprintable()))
    return 0
