"""A call longer than a second shows progress on a terminal, and clears it at the end."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from kgd.cli import progress
from kgd.cli.progress_bar import Bar
from kgd.client.connection import Connection
from tests.cli.conftest import Kgd

SAID = re.compile(r"kgd status.*?(\d+) s so far")


class Watched:
    """A command whose standard error is a terminal, and its standard output is not."""

    def __init__(self, kgd: Kgd, *words: str) -> None:
        self.shown = ""
        self._end, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "kgd.cli", *words],
            cwd=kgd.directory,
            stderr=theirs,
            stdout=subprocess.PIPE,
            text=True,
        )
        os.close(theirs)

    def until(self, holds: Callable[[str], object], seconds: float = 20) -> bool:
        deadline = time.monotonic() + seconds
        while not holds(self.shown) and time.monotonic() < deadline:
            if select.select([self._end], [], [], 0.1)[0]:
                try:
                    self.shown += os.read(self._end, 65_536).decode()
                except OSError:  # the other end of the terminal is closed
                    break
        return bool(holds(self.shown))

    def ended(self) -> str:
        """What it printed, once it is done."""
        printed, _ = self._process.communicate(timeout=30)
        self.until(lambda _: False, 0.5)
        os.close(self._end)
        assert self._process.returncode == 0, self.shown
        return str(printed)


@pytest.mark.slow
def test_a_call_that_takes_long_says_how_long_it_has_been(kgd: Kgd) -> None:
    kgd("up", "--quiet")
    pid = kgd.json("status")["daemon"]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        waited = Watched(kgd, "status")
        assert waited.until(SAID.search)
        silent = Watched(kgd, "status", "--quiet")
    finally:
        os.kill(pid, signal.SIGCONT)
    assert "workspace" in waited.ended()
    assert waited.shown.endswith("\r\x1b[K"), "the line is wiped"
    assert silent.ended() == ""
    assert silent.shown == ""


@pytest.mark.slow
def test_a_rebuild_shows_as_many_steps_as_it_takes(kgd: Kgd) -> None:
    kgd("up", "--quiet")
    waited = Watched(kgd, "reindex")
    assert "nodes" in waited.ended()
    assert waited.shown == "" or waited.shown.endswith("\r\x1b[K")


def test_fsck_shows_which_part_it_checks(kgd: Kgd) -> None:
    kgd("up", "--quiet")
    reports: list[str] = []
    with Connection(kgd.home, cwd=str(kgd.directory)) as connection:
        connection.call("fsck", {}, lambda done, total, message: reports.append(message))
    assert reports[0] == "checking objects"


def test_progress_shows_counts_rate_and_remaining_time(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setenv("COLUMNS", "100")
    bar = Bar(has_color=False)
    clock = iter(range(100))
    monkeypatch.setattr(bar._progress, "get_time", lambda: float(next(clock)))
    for done in range(0, 3_001, 1_000):
        bar.show("reading", done, 5_000, None)
    bar.clear()
    assert "3,000 of 5,000" in shown.getvalue()
    assert re.search(r"\d+/s  \d+ s left", shown.getvalue())
    assert shown.getvalue().endswith("\r\x1b[K"), "the line is wiped"


@pytest.mark.parametrize("environment", [{"TERM": "dumb"}, {"TERM": "xterm"}])
def test_a_dumb_terminal_gets_no_progress(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    monkeypatch.setenv("TERM", environment["TERM"])
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress.shown("status", {}) as report:
        assert (report is None) == (environment["TERM"] == "dumb")
