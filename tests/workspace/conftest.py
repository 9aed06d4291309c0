"""A fresh workspace for each test, closed at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kgd.workspace.workspace import Workspace
from tests.builders import new_layout


@pytest.fixture
def reopen(tmp_path: Path) -> Iterator[Callable[[], Workspace]]:
    """Open the test's workspace; a second call closes it first, like a restart of the daemon."""
    layout = new_layout(tmp_path / "knowledge")
    opened: list[Workspace] = []

    def open() -> Workspace:
        if opened:
            opened.pop().close()
        opened.append(Workspace.open(layout, publish=False))
        return opened[0]

    yield open
    if opened:
        opened.pop().close()


@pytest.fixture
def ws(reopen: Callable[[], Workspace]) -> Workspace:
    return reopen()
