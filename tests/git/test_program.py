from __future__ import annotations

import shutil
import stat
import time
from pathlib import Path

import pytest

from kgd.errors import Limit, Unavailable
from kgd.git import program
from kgd.git.layout import Layout
from kgd.git.program import GitFailed
from tests.git.support import Pen, git


def trap(path: Path, fired: Path) -> str:
    """A program that leaves a trace when something runs it."""
    path.write_text(f"#!/bin/sh\necho {path.name} >> {fired}\nexec cat\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_nothing_configured_by_a_repository_or_user_is_run(
    pen: Pen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """git runs hooks, filters, fsmonitors, pagers and external diffs; libgit2 none of them (F12)."""
    fired, git_dir = tmp_path / "fired", pen.layout.git_dir
    config = git_dir / "config"
    lines = [
        f"[core]\n\tfsmonitor = {trap(tmp_path / 'fsmonitor', fired)}\n\tpager = {trap(tmp_path / 'pager', fired)}\n",
        f"\thooksPath = {tmp_path / 'hooks'}\n[diff]\n\texternal = {trap(tmp_path / 'external', fired)}\n",
        f'[diff "evil"]\n\tcommand = {trap(tmp_path / "diff", fired)}\n\ttextconv = {trap(tmp_path / "conv", fired)}\n',
        f'[filter "evil"]\n\tclean = {trap(tmp_path / "clean", fired)}\n',
    ]
    config.write_text(config.read_text() + "".join(lines))
    (tmp_path / "hooks").mkdir()
    for hook in ("pre-auto-gc", "post-index-change", "reference-transaction"):
        trap(tmp_path / "hooks" / hook, fired)
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", trap(tmp_path / "environment", fired))
    monkeypatch.setenv("GIT_PAGER", trap(tmp_path / "environment2", fired))
    (git_dir / "info/attributes").write_text("* diff=evil filter=evil\n")
    pen.write({"nodes/a.yaml": b"1\n"})
    tip = pen.write({"nodes/a.yaml": b"2\n"})
    git(git_dir, "log", "-p", "--ext-diff", "-2", "refs/kgd/head")
    assert fired.exists(), "the trap works"
    fired.unlink()
    program.run(git_dir, ["log", "-p", "--no-ext-diff", "--no-textconv", tip.hex()])
    program.run(git_dir, ["log", "--raw", tip.hex()])
    program.run(git_dir, ["repack", "-adq"])
    program.run(git_dir, ["update-ref", "refs/kgd/x", tip.hex()])
    assert not fired.exists()


def test_the_environment_of_the_caller_does_not_reach_it(pen: Pen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "user.name")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "leaked")
    listed = program.run(pen.layout.git_dir, ["config", "--list"]).decode()
    assert "leaked" not in listed
    assert "user.email" not in listed, "nor does the person's own configuration"
    person = program.run(pen.layout.git_dir, ["config", "--list"], environment={"HOME": "/", "GIT_DIR": "/x"}).decode()
    assert "gc.auto=0" in person


def test_an_error_quotes_git(workspace: Layout) -> None:
    with pytest.raises(GitFailed) as caught:
        program.run(workspace.git_dir, ["rev-parse", "--verify", "nothing"])
    assert caught.value.code == 128
    assert "Needed a single revision" in caught.value.said


def test_a_program_that_hangs_is_killed_with_its_children(workspace: Layout) -> None:
    started = time.monotonic()
    with pytest.raises(Unavailable, match="within"):
        program.run(workspace.git_dir, ["-c", "alias.hang=!sleep 600 & sleep 600", "hang"], deadline=0.3)
    assert time.monotonic() - started < 60


@pytest.mark.timeout(100)
def test_endless_output_is_cut(workspace: Layout) -> None:
    with pytest.raises(Limit):
        program.run(workspace.git_dir, ["-c", "alias.talk=!yes", "talk"], limit=1 << 20)
    with pytest.raises(Limit):
        list(program.stream(workspace.git_dir, ["-c", "alias.talk=!yes", "talk"]))
    first = next(program.stream(workspace.git_dir, ["-c", "alias.talk=!yes", "talk"], separator=b"\n"))
    assert first == b"y"


def test_large_input_and_output_do_not_block_each_other(workspace: Layout) -> None:
    data = b"line\n" * 400_000
    assert program.run(workspace.git_dir, ["stripspace"], input=data) == data


def test_a_missing_program_is_named(workspace: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
    with pytest.raises(Unavailable, match="git is not installed"):
        program.run(workspace.git_dir, ["version"])
