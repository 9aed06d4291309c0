"""People with plain git: clones of one workspace, a `kgd` and a `git-merge-kgd` on the PATH, and no daemon."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kgd.codec.settings import first_files
from kgd.git.store import ObjectStore
from kgd.workspace.merging.histories import merged_tree
from tests.builders import WS, uri

ROOT = Path(__file__).resolve().parent.parent.parent
_KGD = """\
#!/bin/sh
exec '{python}' -P -m kgd.cli "$@"
"""
_STRATEGY = """\
#!/bin/sh
exec '{python}' -P -c 'import sys; from kgd.hooks.strategy import main; sys.exit(main())' "$@"
"""


class Person:
    """One clone and the person who works in it."""

    def __init__(self, tree: Path, environment: dict[str, str] | None = None) -> None:
        self.tree, self._environment = tree, environment or {}

    def run(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "GIT_EDITOR": "true", **self._environment}
        return subprocess.run(
            words, cwd=self.tree, env=environment, input=stdin, capture_output=True, text=True, check=False
        )

    def git(self, *words: str) -> str:
        done = self.run("git", *words)
        assert done.returncode == 0, f"git {words}: {done.stdout}{done.stderr}"
        return done.stdout

    def kgd(self, *words: str) -> str:
        done = self.run("kgd", *words)
        assert done.returncode == 0, f"kgd {words}: {done.stdout}{done.stderr}"
        return done.stdout

    def file(self, name: str) -> Path:
        return self.tree / "nodes" / "concept" / f"{name}.yaml"

    def write(self, name: str, /, **fields: str) -> None:
        self.file(name).parent.mkdir(parents=True, exist_ok=True)
        self.file(name).write_text(node_text(name, **fields))

    def commit(self, message: str = "change") -> str:
        """Everything there is, past all hooks: for tests of something else."""
        self.git("add", "-A")
        self.git("-c", "core.hooksPath=/dev/null", "commit", "-qm", message)
        return self.head()

    def head(self) -> str:
        return self.git("rev-parse", "HEAD").strip()

    def tree_id(self) -> str:
        return self.git("rev-parse", "HEAD^{tree}").strip()

    def is_clean(self) -> bool:
        return self.git("status", "--porcelain") == ""

    @property
    def git_dir(self) -> Path:
        return self.tree / self.git("rev-parse", "--git-dir").strip()


def node_text(name: str, /, **fields: str) -> str:
    return f"uri: {uri(name)}\n" + "".join(f"{key}: {value}\n" for key, value in fields.items())


def daemons_tree(person: Person, ours: str, theirs: str) -> str:
    """The tree that the daemon makes of two commits, by the function that it merges commits with."""
    store = ObjectStore(person.git_dir)
    one, two = (bytes.fromhex(person.git("rev-parse", name).strip()) for name in (ours, theirs))
    return merged_tree(store, (one, two), frozenset()).id.hex()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the PATH with both programs, as an installation puts them there."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in (("kgd", _KGD), ("git-merge-kgd", _STRATEGY)):
        (folder / name).write_text(text.format(python=sys.executable))
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return folder


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bare repository with a workspace of four nodes; git's own sample hooks are left out."""
    folder = tmp_path_factory.mktemp("template")
    maker = Person(
        folder / "maker",
        {
            "GIT_AUTHOR_NAME": "Ann",
            "GIT_AUTHOR_EMAIL": "a@b",
            "GIT_COMMITTER_NAME": "Ann",
            "GIT_COMMITTER_EMAIL": "a@b",
            "GIT_CONFIG_GLOBAL": "/dev/null",
        },
    )
    maker.tree.mkdir()
    maker.git("init", "-q", "-b", "main")
    for name, data in first_files(WS).items():
        (maker.tree / name).write_bytes(data)
    for name in ("x", "y", "app/z"):
        maker.write(name, name=name, summary="one", content="first")
    maker.write("infra/dns", name="dns", summary="one")
    maker.commit("first")
    maker.git("clone", "-q", "--bare", "--template=", str(maker.tree), str(folder / "up.git"))
    (folder / "up.git" / "hooks").mkdir()
    (folder / "up.git" / "info").mkdir()
    Person(folder / "up.git").git("remote", "remove", "origin")
    return folder / "up.git"


@pytest.fixture
def upstream(tmp_path: Path, programs: Path, template: Path) -> Path:
    """The server's copy of the workspace: a bare directory without kgd."""
    shutil.copytree(template, tmp_path / "up.git")
    return tmp_path / "up.git"


def clone(source: Path | str, into: Path) -> Person:
    subprocess.run(["git", "clone", "-q", "--template=", str(source), str(into)], check=True, capture_output=True)
    return Person(into)


@pytest.fixture
def ann(upstream: Path, tmp_path: Path) -> Person:
    """She has installed kgd into her clone."""
    person = clone(upstream, tmp_path / "ann")
    person.kgd("install")
    return person


@pytest.fixture
def bob(upstream: Path, tmp_path: Path) -> Person:
    """He has plain git and nothing else."""
    return clone(upstream, tmp_path / "bob")
