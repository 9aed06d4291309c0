"""Fixtures: a workspace with a daemon in this process, or a user's machine with real processes."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.e2e.conftest import home, machine, shop
from tests.server_memory.script import Asked
from tests.surfaces.conftest import ask, code, daemon, session, ws

__all__ = ["ask", "code", "daemon", "home", "machine", "session", "shop", "ws"]

MEMORY = [sys.executable, "-P", "-m", "kgd.cli", "mcp", "--tools", "only:server-memory"]


def kgds(directory: Path) -> Asked:
    """kgd instead of the official server, as a client starts it there."""
    return Asked(MEMORY, directory)
