"""The debug log of a daemon, and its profile."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.client.connection import Connection
from kgd.config import Home
from kgd.daemon.process import Profile
from tests.daemon.conftest import end_daemon
from tests.waiting import until


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Home]:
    """A home for real daemons."""
    made = Home.at(str(tmp_path / "home"))
    yield made
    end_daemon(made)


def down(home: Home) -> None:
    with Connection(home, start=False) as connection:
        connection.call("status", {})
        connection.call("down", {})


@pytest.mark.slow
def test_serve_logs_debug_messages_and_writes_a_profile(real: Home, tmp_path: Path) -> None:
    stacks = tmp_path / "stacks.txt"
    command = [*real.daemon_command(), "--foreground", "--debug", "--profile", str(stacks)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as daemon:
        until(lambda: "ready" in _log(real))
        down(real)
        assert daemon.wait(60) == 0
    assert re.search(r" DEBUG kgd.calls: call call=status", _log(real))
    assert all(re.fullmatch(r"[^;]+(;\S+)+ \d+", line) for line in stacks.read_text().splitlines())
    assert "serve/__main__.py:" in stacks.read_text()


@pytest.mark.slow
def test_the_environment_sets_the_log_level_of_a_daemon_in_the_background(
    real: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KGD_LOG", "debug")
    with Connection(real) as connection:
        connection.call("status", {})
    assert " DEBUG " in _log(real)


def test_a_folder_for_the_profile_is_refused_at_the_start(real: Home, tmp_path: Path) -> None:
    done = subprocess.run([*real.daemon_command(), "--profile", tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "the profile cannot be written: Is a directory (--profile)" in done.stderr


def test_an_unknown_log_level_is_refused(real: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KGD_LOG", "loud")
    done = subprocess.run(real.daemon_command(), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "'loud' is not a log level" in done.stderr


def test_a_profile_counts_the_stacks_of_busy_threads_only(tmp_path: Path) -> None:
    ended = threading.Event()
    idle = threading.Thread(target=ended.wait, name="idle")
    idle.start()
    profile = Profile(tmp_path / "stacks.txt")
    profile.start()
    _spin(seconds=0.2)
    profile.stop()
    ended.set()
    found = (tmp_path / "stacks.txt").read_text()
    assert re.search(r"^MainThread;.*test_debugging.py:_spin \d+$", found, re.M)
    assert "idle;" not in found


def _spin(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(1_000))


def _log(home: Home) -> str:
    return Path(home.log).read_text() if Path(home.log).exists() else ""
