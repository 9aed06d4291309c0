"""A code repository with a workspace, and the ways in which a program meets it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kgd
from kgd.client.connection import Connection
from kgd.config import Home
from tests import forked
from tests.daemon.conftest import ROOT, end_daemon
from tests.surfaces.conftest import make_code

_made: list[Path] = []


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A home whose daemon runs this code."""
    monkeypatch.setenv("KGD_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    made = Home.find()
    yield made
    end_daemon(made)


@pytest.fixture
def code(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not _made:
        _made.append(make_code(tmp_path_factory.mktemp("code") / "shop"))
    return Path(shutil.copytree(_made[0], tmp_path / "shop"))


@pytest.fixture
def ws(home: Home, code: Path) -> Iterator[kgd.Workspace]:
    """The workspace `shop`."""
    forked.daemon(home)
    with kgd.open(code, create=True) as made:
        yield made


def stop_daemon(home: Home) -> None:
    """Tell the daemon to end. The next call of a test may already start another."""
    with Connection(home, start=False) as connection:
        connection.call("down", {})


Turn = Callable[[], None]
"""Called in the middle of a test; a change of the daemon must go unnoticed."""


@pytest.fixture(params=["daemon", pytest.param("daemon comes and goes", marks=pytest.mark.slow)])
def turn(request: pytest.FixtureRequest, home: Home) -> Turn:
    """With a steady daemon, and with a daemon that is stopped, started and killed in turn."""
    if request.param == "daemon":
        return lambda: None
    steps = iter([stop_daemon, forked.daemon, end_daemon])

    def move() -> None:
        step = next(steps, None)
        if step:
            step(home)

    return move
