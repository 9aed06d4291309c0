"""A workspace `shop` whose clock a test moves on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.git.layout import locate
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import ask, code, session, ws

__all__ = ["ask", "code", "session", "ws"]


class Clock:
    """The clock of commits and ages."""

    def __init__(self) -> None:
        self.now = time.time() - 1_000 * 86_400

    def __call__(self) -> float:
        return self.now

    def days(self, number: int) -> None:
        self.now += number * 86_400


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def daemon(tmp_path: Path, clock: Clock) -> Iterator[Daemon]:
    home = Home.at(str(tmp_path / "home"))
    home.prepare()
    opening = partial(Workspace.open, clock=clock)
    daemon = Daemon(home, since="2026-11-21T12:00:00Z", locate=locate, open_workspace=opening)
    yield daemon
    daemon.close()
