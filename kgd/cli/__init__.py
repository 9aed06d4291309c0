"""The command line: reads options, calls the daemon, and prints. The rules of the graph are elsewhere."""

from __future__ import annotations

import os
import sys


def main() -> int:
    """The program `kgd`. A host starts `kgd mcp` for every conversation, so that command imports little else."""
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
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:  # closed by the caller, as with `>&-`
            setattr(sys, stream, open(os.devnull, "w"))  # noqa: SIM115
    from kgd.cli.main import run

    return run(sys.argv[1:])
