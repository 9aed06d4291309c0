"""A home of its own for each test, with a rehearsal daemon that is never left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.client import start
from kgd.config import Home
from kgd.daemon.process import holder
from tests.daemon.rehearsal import RehearsalHome

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RehearsalHome]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    made = RehearsalHome.at(str(tmp_path / "home"))
    yield made
    end_daemon(made)


def end_daemon(home: Home) -> None:
    """Kill the home's daemon, if it runs, and wait for its end."""
    deadline = time.monotonic() + 60
    while start.running(home) and time.monotonic() < deadline:
        with contextlib.suppress(ProcessLookupError, KeyError):
            os.kill(int(str(holder(home.lock)["pid"])), signal.SIGKILL)
        time.sleep(0.01)
