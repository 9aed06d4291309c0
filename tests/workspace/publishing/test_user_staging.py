"""A person's staged changes wait for their own commit, and a sparse checkout deletes nothing."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kgd.git.layout import Layout
from kgd.model.change import Delete
from kgd.workspace.publishing import publish_steps
from kgd.workspace.workspace import Workspace
from tests.builders import change, upsert, uri
from tests.workspace.people import Desk, code_layout, eventually, hurry, open_desk


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    monkeypatch.setattr(publish_steps, "STAGED_SECONDS", 120.0)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return code_layout(tmp_path / "code")


@pytest.fixture
def desk(layout: Layout) -> Iterator[Desk]:
    nodes = (upsert(f"{folder}/n{i}", summary="as it was") for folder in "ab" for i in range(3))
    with open_desk(layout, *nodes) as desk:
        yield desk


class Slow:
    """A program of git's (an editor or a hook) that ends once the test lets it."""

    def __init__(self, folder: Path) -> None:
        self.begun, self.go = folder / "begun", folder / "go"
        self.script = folder / "slow.sh"
        self.script.write_text(
            f"#!/bin/sh\ntouch '{self.begun}'\nwhile [ ! -e '{self.go}' ]; do sleep 0.05; done\n"
            '[ -z "$1" ] || echo "after a while" > "$1"\n'
        )
        self.script.chmod(0o755)

    def hook(self, desk: Desk, name: str) -> None:
        os.symlink(self.script, desk.layout.git_dir / "hooks" / name)

    def start(self, desk: Desk, *words: str) -> subprocess.Popen[str]:
        """Start git; returns once the program runs."""
        env = {**os.environ, "GIT_EDITOR": str(self.script)}
        command = ["git", "-C", str(desk.tree), *words]
        running = subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        eventually(self.begun.exists)
        return running

    def end(self, running: subprocess.Popen[str]) -> None:
        self.go.touch()
        said, _ = running.communicate(timeout=20)
        assert running.returncode == 0, said


@pytest.fixture
def slow(tmp_path: Path) -> Slow:
    return Slow(tmp_path)


def stage(desk: Desk, name: str, summary: str) -> None:
    desk.edit(name, "as it was", summary)
    desk.git("add", "-A")


def test_a_commit_succeeds_however_long_its_editor_is_open(desk: Desk, slow: Slow) -> None:
    stage(desk, "a/n1", "mine")
    commit = slow.start(desk, "commit", "-q")
    desk.ws.submit(change(upsert("b/n1", summary="meanwhile")))
    desk.blocked("nodes/concept/a/n1.yaml is staged by you")
    slow.end(commit)
    desk.serves("a/n1", "summary", "mine")
    desk.published()
    assert "Ann Person: after a while" in desk.subjects()
    assert not any("by hand" in subject for subject in desk.subjects())


def test_a_commit_waits_for_its_hook_even_when_staged_changes_are_released(
    desk: Desk, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish_steps, "STAGED_SECONDS", 0.0)
    slow.hook(desk, "pre-commit")
    desk.edit("a/n1", "as it was", "mine")
    desk.git("add", "-A")
    commit = slow.start(desk, "commit", "-qm", "hooked")
    desk.blocked("staged by you")
    slow.end(commit)
    desk.serves("a/n1", "summary", "mine")
    desk.published()
    assert "Ann Person: hooked" in desk.subjects()


def test_the_branch_does_not_move_under_an_amended_commit(desk: Desk, slow: Slow) -> None:
    desk.git("commit", "-q", "--allow-empty", "-m", "mine")
    desk.published()
    amend = slow.start(desk, "commit", "-q", "--amend", "--allow-empty")
    desk.ws.submit(change(upsert("b/n1", summary="meanwhile")))
    desk.blocked("a git command is running in the work tree")
    slow.end(amend)
    desk.published()
    assert "Ann Person: after a while" in desk.subjects()
    assert "meanwhile" in desk.file("b/n1").read_text()


def test_a_merge_with_a_slow_hook_is_the_persons_own_merge(desk: Desk, slow: Slow) -> None:
    desk.git("switch", "-qc", "side")
    desk.edit("a/n1", "as it was", "from the side")
    desk.git("commit", "-qam", "side")
    desk.git("switch", "-q", "kgd")
    desk.edit("a/n2", "as it was", "from the branch")
    desk.git("commit", "-qam", "branch")
    desk.published()
    slow.hook(desk, "pre-merge-commit")
    merge = slow.start(desk, "merge", "-q", "--no-edit", "side")
    desk.ws.submit(change(upsert("b/n1", summary="meanwhile")))
    desk.blocked("staged by you")
    slow.end(merge)
    desk.serves("a/n1", "summary", "from the side")
    desk.published()
    assert any(subject.startswith("Ann Person: Merge branch 'side'") for subject in desk.subjects())
    assert not any("by hand" in subject for subject in desk.subjects())
    assert desk.ws.conflicts.find() == ()


def test_staged_changes_wait_while_other_files_are_served(desk: Desk) -> None:
    stage(desk, "a/n1", "staged")
    desk.blocked("a/n1.yaml is staged by you; `git -C")
    desk.edit("a/n2", "as it was", "saved")
    desk.serves("a/n2", "summary", "saved")
    assert desk.ws.node(uri("a/n1")).summary == "as it was"  # type: ignore[union-attr]
    desk.git("reset", "-q")
    desk.serves("a/n1", "summary", "staged")
    desk.published()


def test_staged_changes_that_the_user_forgets_are_served(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    stage(desk, "a/n1", "staged")
    desk.blocked("staged by you")
    monkeypatch.setattr(publish_steps, "STAGED_SECONDS", 0.0)
    desk.serves("a/n1", "summary", "staged")
    desk.published()


def test_a_staged_change_is_committed_at_once_if_asked(desk: Desk) -> None:
    stage(desk, "a/n1", "staged")
    desk.blocked("staged by you")
    desk.ws.settle()
    assert desk.ws.node(uri("a/n1")).summary == "staged"  # type: ignore[union-attr]
    desk.published()


def cone(desk: Desk) -> None:
    desk.git("sparse-checkout", "set", "nodes/concept/a")


def patterns(desk: Desk) -> None:
    desk.git("config", "core.sparseCheckout", "true")
    (desk.layout.git_dir / "info" / "sparse-checkout").write_text("/*\n!/nodes/concept/b/\n")
    desk.git("read-tree", "-mu", "HEAD")


def flags(desk: Desk) -> None:
    files = [desk.ws.path(uri(f"b/n{i}")) for i in range(3)]
    desk.git("update-index", "--skip-worktree", *files)
    for file in files:
        (desk.tree / file).unlink()


def everything(desk: Desk) -> None:
    desk.git("sparse-checkout", "set", "--no-cone", "/*", "!/nodes/", "!/kgd.yaml")


SPARSE = pytest.mark.parametrize("choose", [cone, patterns, flags, everything])


@SPARSE
def test_a_sparse_checkout_deletes_nothing(desk: Desk, layout: Layout, choose: Callable[[Desk], None]) -> None:
    desk.git("status")  # git leaves out only files that it has compared
    choose(desk)
    assert not desk.file("b/n1").exists()
    eventually(lambda: "the checkout is sparse" in desk.ws.health()["publish"].about, lambda: desk.ws.health())
    desk.ws.submit(change(upsert("b/n1", summary="changed"), Delete(uri("b/n2"))))
    desk.published()
    desk.ws.close()
    again = Desk(Workspace.open(layout))
    again.ws.submit(change(upsert("b/n0", summary="after a restart")))
    again.published()
    assert not again.file("b/n1").exists()
    assert not any("by hand" in subject for subject in again.subjects())
    assert again.ws.node(uri("b/n1")).summary == "changed"  # type: ignore[union-attr]
    again.git("update-index", "--no-skip-worktree", again.ws.path(uri("b/n1")))
    again.git("checkout", "--", again.ws.path(uri("b/n1")))
    assert "changed" in again.file("b/n1").read_text()
    again.ws.close()


def test_a_deletion_beside_a_sparse_checkout_is_a_deletion(desk: Desk) -> None:
    desk.git("status")
    cone(desk)
    desk.file("a/n1").unlink()
    desk.ws.hint([str(desk.file("a/n1"))])
    eventually(lambda: desk.ws.node(uri("a/n1")) is None)
    desk.published()
    assert desk.ws.node(uri("b/n1"))


def test_a_branch_that_a_program_moves_without_the_index_is_published_at_once(desk: Desk) -> None:
    desk.ws.submit(change(upsert("c/n0", summary="new")))
    desk.published()
    made = desk.git("commit-tree", "-p", "HEAD", "-m", "as before", "HEAD~1^{tree}").strip()
    desk.git("update-ref", desk.layout.branch, made)
    eventually(lambda: "as before" in desk.git("log", "--format=%s", "refs/kgd/head"))
    desk.published()
    desk.ws.submit(change(upsert("d/n0", summary="later")))
    desk.published()


def test_a_soft_reset_waits_for_the_commit_that_follows_it(desk: Desk) -> None:
    desk.edit("a/n0", "as it was", "by hand")
    desk.published()
    eventually(lambda: "by hand" in desk.git("show", "HEAD:nodes/concept/a/n0.yaml"))
    desk.git("reset", "-q", "--soft", "HEAD~1")
    eventually(lambda: "is staged by you" in desk.ws.health()["publish"].blocker)
    desk.git("commit", "-qm", "in my own words")
    desk.published()
    desk.serves("a/n0", "summary", "by hand")
