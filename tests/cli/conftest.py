"""A code repository and the program `kgd`, with a home and a daemon of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kgd.config import Home
from tests.daemon.conftest import ROOT, end_daemon


class Kgd:
    """The program, run in a directory."""

    def __init__(self, directory: Path, home: Home) -> None:
        self.directory, self.home = directory, home

    def run(self, *words: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-P", "-m", "kgd.cli", *words],
            cwd=self.directory,
            input=stdin,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    def __call__(self, *words: str, stdin: str = "") -> str:
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def json(self, *words: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self(*words, "--json"))
        return answer


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
    program("up", "--quiet")
    return program
