"""A workspace `shop` over a small code repository, and the tools called by name; `plain` is one without a daemon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.workspace.workspace import Workspace
from tests.builders import new_layout
from tests.surfaces.conftest import ask, code, daemon, session, ws

__all__ = ["ask", "code", "daemon", "plain", "session", "ws"]


@pytest.fixture
def plain(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace.open(new_layout(tmp_path / "knowledge"), publish=False)
    yield workspace
    workspace.close()
