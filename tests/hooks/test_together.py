"""A daemon and plain git on one work tree: merges on the command line are accepted unchanged."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kgd.client.connection import Connection
from kgd.config import Home
from kgd.workspace.workspace import Workspace
from tests.builders import ANN, change, upsert, uri
from tests.daemon.conftest import end_daemon
from tests.hooks.conftest import Person, clone, daemons_tree
from tests.workspace.people import Desk, code_layout, eventually

pytestmark = pytest.mark.slow


@pytest.mark.requirement("B8")
def test_a_workspace_on_the_codes_remote_is_pulled_by_git_and_accepted_by_the_daemon(
    tmp_path: Path, programs: Path
) -> None:
    layout = code_layout(tmp_path / "shop")
    remote = tmp_path / "shop.git"
    Person(tmp_path).git("clone", "-q", "--bare", str(layout.code_tree), str(remote))
    ws = Workspace.open(layout)
    try:
        desk, ann = Desk(ws), Person(layout.work_tree)
        ws.submit(change(upsert("auth", summary="one"), upsert("keys", summary="one")))
        desk.published()
        ann.kgd("install")
        ann.git("push", "-q", str(remote), "kgd")
        bob = Person(tmp_path / "bob")
        Person(tmp_path).git("clone", "-q", "--branch", "kgd", "--single-branch", str(remote), str(bob.tree))
        bob.write("auth", summary="one", content="learned by Bob")
        bob.git("rm", "-q", "nodes/concept/keys.yaml")
        bob.commit()
        bob.git("push", "-q")
        ws.submit(change(upsert("auth", summary="two"), upsert("keys", summary="two"), author=ANN))
        desk.published()
        ours = ann.head()
        eventually(lambda: ann.run("git", "pull", "-q", "--no-edit", str(remote), "kgd").returncode == 0)
        desk.published()
        assert ws.tip == ann.head()
        assert ann.tree_id() == daemons_tree(ann, "HEAD^1", "HEAD^2")
        desk.serves("auth", "content", "learned by Bob")
        desk.serves("auth", "summary", "two")
        desk.serves("keys", "summary", "two")
        assert ws.conflict_count == 1
        assert ours in ann.git("rev-list", "HEAD")
        assert not ws.invalid_files()
        assert ws.node(uri("keys")) is not None
    finally:
        ws.close()


def test_a_hook_tells_the_daemon_of_the_repository_it_has_open_and_of_no_other(
    tmp_path: Path, programs: Path, template: Path
) -> None:
    home = Home.find()
    ann = clone(template, tmp_path / "ann")
    try:
        ann.kgd("up", "--standalone", "--quiet")
        ann.kgd("install")
        with Connection(home, start=False) as daemon:
            assert daemon.call("notice", {"git_dir": str(ann.git_dir)}) == {"noticed": True}
            assert daemon.call("notice", {"git_dir": str(tmp_path)}) == {"noticed": False}
        ann.write("x", name="by hand")
        ann.git("commit", "-qam", "by hand")
        eventually(lambda: "by hand" in ann.kgd("get", "x"))
    finally:
        end_daemon(home)


def test_a_hook_that_finds_no_daemon_says_nothing_and_starts_none(ann: Person) -> None:
    done = ann.run(sys.executable, "-P", "-m", "kgd.cli", "hook", "post-commit")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert not Path(Home.find().socket).exists()
