"""The users of these tests, each with a home, a daemon and a work tree."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

from kgd import tools
from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.git.layout import locate
from kgd.graph.edges import Card
from kgd.model.uri import Uri
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.waiting import until


def git(where: Path, *words: str, check: bool = True, input: str | None = None) -> str:
    done = subprocess.run(
        ["git", "-C", str(where), *words],
        capture_output=True,
        text=True,
        check=False,
        input=input,
        errors="surrogateescape",
    )
    assert not check or done.returncode == 0, f"git {words}: {done.stderr}{done.stdout}"
    return done.stdout.strip()


def bare(at: Path) -> Path:
    """An empty bare repository, as a git server makes one."""
    subprocess.run(["git", "init", "-q", "--bare", "-b", "main", str(at)], check=True)
    return at


class Person:
    """Somebody with a daemon, and a workspace of its own in `tree` (or in the code repository there)."""

    def __init__(self, folder: Path, *, id: str = "infra", standalone: bool = True, tree: Path | None = None) -> None:
        self.folder, self.id, self.tree = folder, id, tree or folder / "knowledge"
        self.tree.mkdir(parents=True, exist_ok=True)
        self.daemon = self._start()
        self.call("up", directory=str(self.tree), standalone=standalone, id=id)

    def _start(self) -> Daemon:
        home = Home.at(str(self.folder / "home"))
        home.prepare()
        return Daemon(home, since="", locate=locate, open_workspace=Workspace.open)

    def restart(self) -> None:
        """Stop the daemon and start it again, without a call to it."""
        self.daemon.close()
        self.daemon = self._start()
        self.daemon.open_shared()

    def call(self, name: str, /, **arguments: Any) -> dict[str, Any]:
        return dict(tools.call(self.session(), name, arguments))

    def session(self) -> Session:
        return Session(self.daemon, cwd=self.tree, client="test", context_id=None)

    def sync(self, **arguments: Any) -> dict[str, Any]:
        """A round now; the answer for the only remote."""
        (one,) = self.call("sync", **arguments)["remotes"]
        return dict(one)

    def share(self, url: Path | str, name: str = "origin", **more: Any) -> dict[str, Any]:
        (one,) = self.call("remote", action="add", name=name, url=str(url), **more)["remotes"]
        return dict(one)

    def put(self, path: str, **fields: Any) -> str:
        answer = self.call("put", changes=[{"op": "upsert", "uri": f"concept://{self.id}/{path}", **fields}])
        return str(answer["commit"])

    def delete(self, *paths: str) -> None:
        self.call("put", changes=[{"op": "delete", "uri": f"concept://{self.id}/{path}"} for path in paths])

    def node(self, path: str) -> dict[str, Any] | None:
        found = self.call("get", uris=[f"concept://{self.id}/{path}"])["nodes"]
        return dict(found[0]) if found else None

    def summary(self, path: str) -> str | None:
        card = self._card(path)
        return card.summary if card else None

    def has(self, path: str) -> bool:
        return self._card(path) is not None

    def _card(self, path: str) -> Card | None:
        return self.workspace.graph.card(Uri(f"concept://{self.id}/{path}"))

    @property
    def workspace(self) -> Workspace:
        return self.daemon.workspace(self.id)

    @property
    def tip(self) -> str:
        """The commit that reads see."""
        return self.workspace.read_tip.hex()

    @property
    def work_tree(self) -> Path:
        return self.workspace.layout.work_tree

    def published(self) -> None:
        """Wait until the branch that people see is in step."""
        layout = self.workspace.layout
        until(lambda: git(layout.git_dir, "rev-parse", layout.branch) == self.tip)

    def stage(self, name: str) -> dict[str, Any]:
        (found,) = [one for one in self.call("status")["stages"] if one["name"] == name]
        return dict(found)

    def close(self) -> None:
        self.daemon.close()
