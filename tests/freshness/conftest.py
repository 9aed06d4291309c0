"""A workspace over a small code repository, shared by tests of staleness and of the surfaces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.conftest import Ask, code, daemon, git, session, ws
from tests.surfaces.conftest import ask as ask
from tests.waiting import until

__all__ = ["ask", "code", "daemon", "session", "ws"]

SESSION = "src/auth/session.py"


def commit(code: Path, path: str, text: str, message: str = "code changed") -> str:
    """Write a file of the code and commit it; the commit."""
    (code / path).parent.mkdir(parents=True, exist_ok=True)
    (code / path).write_text(text)
    git(code, "add", "-A")
    git(code, "commit", "-q", "-m", message)
    return git(code, "rev-parse", "HEAD").strip()


def stale(ask: Ask) -> list[str]:
    return [node["uri"] for node in ask.stale()["nodes"]]


@pytest.fixture
def mark(ask: Ask) -> Callable[[str], Any]:
    """The mark of a node as `get` answers it, or None."""
    return lambda uri: ask.get(uris=uri)["nodes"][0].get("unverified")


def becomes_stale(ask: Ask, uri: str) -> dict[str, Any]:
    """Waits for the watch to see the file; returns the node's entry then."""
    until(lambda: uri in stale(ask), say=lambda: ask.stale())
    return next(node for node in ask.stale()["nodes"] if node["uri"] == uri)
