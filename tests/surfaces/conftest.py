"""A workspace over a small code repository, with a real daemon in this process."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.git.layout import locate
from kgd.tools import call
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace

FILES = {
    "README.md": "# Shop\n",
    "src/auth/session.py": "def sign(token):\n    return token\n",
    "src/auth/keys.py": "KEYS = {}\n",
    "src/checkout.py": "from src.auth import session\n",
    "docs/My File.md": "blanks\n",
    "logo.bin": "\0\1\2",
}


def git(directory: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(directory), *arguments], check=True, capture_output=True, text=True)
    return done.stdout


def make_code(root: Path) -> Path:
    """A code repository with `FILES` and one commit."""
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-q", "-m", "code")
    return root


_made: list[Path] = []


@pytest.fixture
def code(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path, tmp_path_factory)


def copied(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of one repository, ten times as fast as git init."""
    if not _made:  # not in a session fixture, which would see the user's home
        _made.append(make_code(tmp_path_factory.mktemp("code") / "shop"))
    return Path(shutil.copytree(_made[0], folder / "shop"))


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    daemon = new_daemon(tmp_path)
    yield daemon
    daemon.close()


def new_daemon(folder: Path) -> Daemon:
    home = Home.at(str(folder / "home"))
    home.prepare()
    return Daemon(home, since="2026-11-21T12:00:00Z", locate=locate, open_workspace=Workspace.open)


@pytest.fixture
def session(daemon: Daemon, code: Path) -> Session:
    """A caller in a directory that has a workspace `shop`."""
    return up(daemon, code)


def up(daemon: Daemon, code: Path) -> Session:
    assert code.is_absolute()  # a test's own parameter of this name would set up a workspace in any directory
    session = Session(daemon, cwd=code, client="test-client 1.0", context_id="test")
    call(session, "up")
    # libgit2 looks up the user's configuration once per process, in the home at its start.
    with open(daemon.workspace("shop").layout.git_dir / "config", "a") as config:
        config.write("[user]\n\tname = Ann Person\n\temail = ann@example.org\n")
    return session


@pytest.fixture
def ws(session: Session) -> Workspace:
    return session.daemon.workspace("shop")


class Ask:
    """Calls tools by name: ``ask.put(changes=[...])``."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def __getattr__(self, name: str) -> Any:
        return lambda **arguments: call(self.session, name, arguments)


@pytest.fixture
def ask(session: Session) -> Ask:
    return Ask(session)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Ask]]:
    """Makes workspaces for the tests of a module that only read, or write nodes that no other test of it sees."""
    daemons: list[Daemon] = []

    def make() -> Ask:
        folder = tmp_path_factory.mktemp("shared")
        daemons.append(new_daemon(folder))
        return Ask(up(daemons[-1], copied(folder, tmp_path_factory)))

    yield make
    for daemon in daemons:
        daemon.close()


def upsert(name: str, /, **fields: Any) -> dict[str, Any]:
    return {"op": "upsert", "uri": name, **fields}
