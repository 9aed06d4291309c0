"""A code repository and the program `kgd`, with a home and a daemon of their own."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from kgd.config import Home
from tests import forked
from tests.daemon.conftest import ROOT, end_daemon


class Kgd:
    """The program, run in a directory."""

    def __init__(self, directory: Path, home: Home) -> None:
        self.directory, self.home = directory, home

    def run(self, *words: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return forked.run(words, self.directory, {**os.environ, **environment}, stdin)

    def __call__(self, *words: str, stdin: str = "") -> str:
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *words: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self(*words, "--json"))
        return answer

    def on_terminal(self, *words: str, columns: int = 80, rows: int = 500, **environment: str) -> str:
        """What the program shows on a terminal."""
        with terminal(columns, rows, **environment) as (variables, theirs, shown):
            started = forked.start(words, self.directory, variables, [theirs] * 3, session=True)
        started.wait()
        return shown[0]


def on_terminal(command: Sequence[str], directory: Path, columns: int = 80, rows: int = 500, **environment: str) -> str:
    """What a program writes to a pseudo terminal, which is its standard input, output and error."""
    with terminal(columns, rows, **environment) as (variables, theirs, shown):
        process = subprocess.Popen(
            command, cwd=directory, env=variables, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
    process.wait(timeout=30)
    return shown[0]


@contextlib.contextmanager
def terminal(columns: int, rows: int, **environment: str) -> Iterator[tuple[dict[str, str], int, list[str]]]:
    """A pseudo terminal for a program that is started inside: its environment, its file, and later its output."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    usual = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    shown: list[str] = []
    yield {**usual, "TERM": "xterm-256color", **environment}, theirs, shown
    os.close(theirs)
    read = b""
    with contextlib.suppress(OSError):  # the program's end of the terminal is closed
        while data := os.read(ours, 65_536):
            read += data
    os.close(ours)
    shown.append(read.decode().replace("\r\n", "\n"))


@pytest.fixture(scope="module")
def module_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home.at(str(tmp_path_factory.mktemp("kgd") / "home"))
    yield home
    end_daemon(home)


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("code") / "shop"
    (made / "src" / "auth").mkdir(parents=True)
    (made / "src" / "auth" / "session.py").write_text("def check():\n    return True\n")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "x"]):
        subprocess.run(["git", *command], cwd=made, check=True)
    return made


@pytest.fixture
def kgd(code: Path, module_home: Home, monkeypatch: pytest.MonkeyPatch) -> Kgd:
    """One daemon serves the tests of a module; each test uses nodes of its own."""
    monkeypatch.setenv("KGD_HOME", module_home.config)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    program = Kgd(code, module_home)
    if not (code / ".git/kgd").exists():
        program("up", "--quiet")
    return program
