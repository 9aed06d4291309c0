"""The command line: reads options, calls the daemon, and prints. The rules of the graph are elsewhere."""

from __future__ import annotations

import os
import sys

COMPLETION_SECONDS = 0.5
"""Seconds after which completion gives up."""


def main() -> int:
    """The program `kgd`. A host starts `kgd mcp` for every conversation, so that command imports little else."""
    _open_streams()
    if sys.argv[1:] == ["mcp"]:
        from kgd.client import pump
        from kgd.config import Home

        return pump.run(Home.find())
    if sys.argv[1:2] == ["merge-driver"] and len(sys.argv) > 5:  # once for each file of a rebase
        from kgd.hooks import driver

        return driver.main(sys.argv[2:])
    if sys.argv[1:2] == ["complete"]:  # once for each press of Tab
        return _complete(sys.argv[2:])
    from kgd.cli.main import run

    return run(sys.argv[1:])


def _complete(words: list[str]) -> int:
    """Print values for shell completion from a running daemon: ``kgd complete KIND TEXT [WORKSPACE [DIRECTORY]]``.

    Prints nothing if no daemon runs or the daemon is busy. Errors are silent: they would disturb the line that the user
    is typing.
    """
    import signal

    from kgd.client.connection import Connection
    from kgd.config import Home
    from kgd.errors import KgdError

    kind, text, workspace, directory = (*words, "", "", "", "")[:4]
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, COMPLETION_SECONDS)
    asked = {"kind": kind, "text": text} | ({"workspace": workspace} if workspace else {})
    try:
        with Connection(Home.find(), start=False, cwd=os.path.abspath(directory) if directory else None) as connection:
            values = connection.call("complete", asked)["values"]
    except (KgdError, OSError):
        return 0
    sys.stdout.write("".join(f"{value}\n" for value in values if value.isprintable()))
    return 0


def _open_streams() -> None:
    """Open the standard streams that the caller closed, as with `>&-`; otherwise a socket gets their number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115
