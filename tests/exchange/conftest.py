"""A workspace over a small code repository, and the tools called by name."""

from __future__ import annotations

from tests.surfaces.conftest import ask, code, daemon, session, ws

__all__ = ["ask", "code", "daemon", "session", "ws"]
