"""A person at a work tree: real git, real files, and a watcher like the daemon's."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kgd.codec.settings import first_files
from kgd.git.creation import create_in_code_repository
from kgd.git.layout import Layout
from kgd.model.change import Edit
from kgd.workspace.publishing import hand_edits, publication, publish_steps
from kgd.workspace.workspace import Workspace
from tests.builders import WS, change, uri
from tests.git.support import fsck
from tests.waiting import until

PATIENCE = 20.0


def git(where: Path, *words: str, check: bool = True, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        ["git", "-C", where, *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "GIT_EDITOR": "true", **(env or {})},
    )
    if check and done.returncode:
        raise AssertionError(f"git {words}: {done.stderr}{done.stdout}")
    return done.stdout if check else f"{done.returncode} {done.stderr.strip()}"


def code_layout(folder: Path, workspace: str = WS) -> Layout:
    """A workspace in a code repository of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "main.py").write_text("print(1)\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "code")
    layout = create_in_code_repository(folder, workspace, first_files(workspace))
    git(layout.git_dir, "config", "user.name", "Ann Person")
    git(layout.git_dir, "config", "user.email", "ann@example.org")
    return layout


def eventually(what: Callable[[], object], say: Callable[[], object] = lambda: "", patience: float = PATIENCE) -> None:
    """As `until`, with the explanation of a failure first, since nearly all of these tests give it."""
    until(what, patience, say)


def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third of the usual delays, for tests of outcomes rather than timing."""
    monkeypatch.setattr(publication, "POLL", 0.3)
    monkeypatch.setattr(publication, "DEBOUNCE", 0.1)
    monkeypatch.setattr(hand_edits, "QUIET", 0.12)
    monkeypatch.setattr(publish_steps, "STAGED_SECONDS", 0.5)


class Watcher:
    """Hints for any path, five times a second, like a file watcher under load."""

    def __init__(self, ws: Workspace) -> None:
        self._ws, self._stop = ws, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            self._ws.hint(None)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


class Desk:
    """An open and published workspace with its work tree."""

    def __init__(self, ws: Workspace) -> None:
        self.ws, self.layout, self.tree = ws, ws.layout, ws.layout.work_tree

    def file(self, name: str) -> Path:
        return self.tree / self.ws.path(uri(name))

    def save(self, name: str, text: str) -> None:
        """Truncate and write in place, then tell the watcher."""
        path = self.file(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self.ws.hint([str(path)])

    def edit(self, name: str, old: str, new: str) -> None:
        text = self.file(name).read_text()
        assert old in text
        self.save(name, text.replace(old, new))

    def git(self, *words: str, check: bool = True, env: dict[str, str] | None = None) -> str:
        return git(self.tree, *words, check=check, env=env)

    def ref(self, name: str) -> str:
        found = self.ws.store.ref(name)
        assert found is not None
        return found.hex()

    @property
    def in_step(self) -> bool:
        """Whether head, branch and served graph are at one commit; the head moves just before the graph."""
        return self.ref("refs/kgd/head") == self.ref(self.layout.branch) == self.ws.tip

    def published(self) -> None:
        """Wait until the branch is at the tip and the work tree is clean."""
        eventually(lambda: self.in_step, lambda: self.ws.health())
        eventually(lambda: self.in_step and not self.status(), lambda: (self.ws.health(), self.status()))

    def serves(self, name: str, field: str, value: object) -> None:
        eventually(
            lambda: getattr(self.ws.node(uri(name)), field, None) == value,
            lambda: (self.ws.node(uri(name)), self.ws.health(), self.ws.invalid_files()),
        )

    def status(self) -> str:
        """As `git status`, but without touching the index, so that looking is not activity."""
        return self.git("--no-optional-locks", "status", "--porcelain")

    def blocked(self, text: str) -> None:
        """Wait until publication reports this reason to wait."""
        eventually(lambda: text in self.ws.health()["publish"].blocker, lambda: self.ws.health())

    def subjects(self, *options: str) -> list[str]:
        return self.git("log", "--format=%an: %s", *options, "refs/kgd/head").splitlines()

    def fsck(self) -> list[str]:
        return fsck(self.layout.git_dir)


@contextmanager
def open_desk(layout: Layout, *edits: Edit) -> Iterator[Desk]:
    """An open workspace in which these edits are published."""
    desk = Desk(Workspace.open(layout))
    desk.ws.submit(change(*edits))
    desk.published()
    try:
        yield desk
    finally:
        desk.ws.close()


def node_text(node: str, /, **fields: str) -> str:
    return f"uri: {uri(node)}\n" + "".join(f"{key}: {value}\n" for key, value in fields.items())
