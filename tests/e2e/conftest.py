"""A user's machine: a home, the program and real processes, all gone when a test ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.config import Home
from tests import forked
from tests.cli.conftest import Kgd
from tests.daemon.conftest import ROOT, end_daemon
from tests.e2e.lean import LeanClient
from tests.waiting import until

PIP_CACHE = os.environ.get("PIP_CACHE_DIR") or str(Path.home() / ".cache/pip")
"""The user's own caches, resolved before a test changes the home, so that nothing is downloaded twice."""

KGD = [sys.executable, "-P", "-m", "kgd.cli"]


def git(where: Path, *words: str | Path, check: bool = True) -> str:
    """The output of git without optional locks: these tests compare the index byte for byte."""
    done = subprocess.run(
        ["git", "-C", where, *words],
        env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        capture_output=True,
        text=True,
        errors="surrogateescape",
        check=False,
    )
    assert not check or done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def make_repository(at: Path, files: dict[str, str] | None = None) -> Path:
    """A code repository with one commit."""
    for name, text in (files or {"src/auth/session.py": "def check():\n    return True\n", "a.txt": "a\n"}).items():
        (at / name).parent.mkdir(parents=True, exist_ok=True)
        (at / name).write_text(text)
    git(at, "init", "-q")
    git(at, "add", "-A")
    git(at, "commit", "-qm", "code")
    return at


def processes_of(home: Home) -> list[int]:
    """The processes of this home, including zombies, as far as they are visible."""
    mark, found = f"KGD_HOME={home.config}".encode(), []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        is_zombie = environment == [b""] and parent == os.getpid() and _is_zombie(entry)
        if mark in environment or is_zombie or _is_forked_for(home, entry):
            found.append(int(entry.name))
    return sorted(set(found) - {os.getpid()})


def _is_forked_for(home: Home, entry: Path) -> bool:
    """Whether this is a forked daemon of the home: its environment is that of the process that forked it."""
    try:
        files = entry.joinpath("fd").iterdir() if b"tests.forked" in (entry / "cmdline").read_bytes() else ()
        return any(str(file.readlink()).startswith(f"{home.config}/") for file in files)
    except OSError:
        return False


def _is_zombie(entry: Path) -> bool:
    return (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"


class Machine(Kgd):
    """A home of kgd and its user: ``machine("up")`` runs a command in `directory`."""

    def at(self, directory: Path) -> Machine:
        """The same user in another folder."""
        return Machine(directory, self.home)

    def client(self, name: str = "lean") -> LeanClient:
        return LeanClient([*KGD, "mcp"], self.directory, name)

    def pid(self) -> int:
        return int(self.json("status")["daemon"]["pid"])


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A home; its daemon is stopped after the test, and no process may remain."""
    made = Home.at(str(tmp_path / "home"))
    monkeypatch.setenv("KGD_HOME", made.config)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    yield made
    stopped = forked.run(["down", "--quiet"], tmp_path, os.environ)
    end_daemon(made)
    assert stopped.returncode == 0, stopped.stderr
    until(lambda: not processes_of(made))


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "shop")


@pytest.fixture
def machine(home: Home, shop: Path) -> Machine:
    """A user in a code repository `shop` without a workspace."""
    return Machine(shop, home)
