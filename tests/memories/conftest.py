"""A workspace of its own for each test, and a session over one with a code tree."""

from __future__ import annotations

from tests.surfaces.conftest import ask, code, daemon, session
from tests.workspace.conftest import reopen, ws

__all__ = ["ask", "code", "daemon", "reopen", "session", "ws"]
