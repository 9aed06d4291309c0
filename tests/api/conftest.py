"""A code repository with a workspace, and the ways in which a program meets it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kgd
from kgd.client import start
from kgd.client.connection import Connection
from kgd.config import Home
from tests.daemon.conftest import ROOT, end_daemon
from tests.surfaces.conftest import make_code
from tests.waiting import until

_made: list[Path] = []


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A home whose daemon, if a test starts one, is this very code."""
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
    """The workspace `shop`, opened by this process; whether a daemon comes is the test's business."""
    with kgd.open(code, create=True) as made:
        yield made


def start_daemon(home: Home) -> None:
    sock = start.connect(home, start.hello("call", "tests"))
    assert sock is not None
    sock.close()


def stop_daemon(home: Home) -> None:
    with Connection(home, start=False) as connection:
        connection.call("down", {})
    until(lambda: not start.running(home), 10)


Turn = Callable[[], None]
"""Called in the middle of a test: whatever then happens to the daemon must not be seen."""


@pytest.fixture(
    params=[
        "in process",
        pytest.param("daemon", marks=pytest.mark.slow),
        pytest.param("daemon comes and goes", marks=pytest.mark.slow),
    ]
)
def turn(request: pytest.FixtureRequest, home: Home) -> Turn:
    """The three ways; for the last one the daemon is started, stopped and killed in turn."""
    if request.param == "daemon":
        home.prepare()
        start_daemon(home)
    if request.param != "daemon comes and goes":
        return lambda: None
    steps = iter([start_daemon, stop_daemon, start_daemon, end_daemon])

    def move() -> None:
        step = next(steps, None)
        if step:
            step(home)

    return move
