"""The command line: reads options, calls the daemon, and prints. The rules of the graph are elsewhere."""

from __future__ import annotations

import os
import sys


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
        from kgd.cli import completing

        return completing.run(sys.argv[2:])
    from kgd.cli.main import run

    return run(sys.argv[1:])


def _open_streams() -> None:
    """Open the standard streams that the caller closed, as with `>&-`; otherwise a socket gets their number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115
