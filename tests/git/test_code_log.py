"""The history of code for some of its files: bounded, in order, and never an error."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kgd.git.discovery import Place, find_place
from kgd.git.history import Touches, head, touches


def git(directory: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(directory), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """Commits `one` to `four`; of the files in them, `a` is in one, two and four."""
    root = tmp_path / "code"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    for subject, files in (("one", "a b"), ("two: ü 'x'", "a c"), ("three", "b"), ("four", "a c")):
        for name in files.split():
            (root / "src").mkdir(exist_ok=True)
            (root / "src" / name).write_text(subject)
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", subject)
    return root


def place(code: Path) -> Place:
    found = find_place(code)
    assert found is not None
    return found


def test_the_newest_commits_of_a_file_list_all_their_changes(code: Path) -> None:
    found = touches(place(code), ["src/a"]).found
    assert [(one.subject, one.files) for one in found] == [
        ("four", ("src/a", "src/c")), ("two: ü 'x'", ("src/a", "src/c")), ("one", ("src/a", "src/b")),
    ]  # fmt: skip
    assert found[0].commit == git(code, "rev-parse", "HEAD")
    assert found[0].at == int(git(code, "log", "-1", "--format=%ct"))
    assert [one.subject for one in touches(place(code), ["src/"], commits=2).found] == ["four", "three"]
    assert touches(place(code), ["src/a[b]", ":(glob)**"]) == Touches()


def test_the_commit_that_is_checked_out_is_known_without_asking_git(code: Path, tmp_path: Path) -> None:
    wanted = git(code, "rev-parse", "HEAD")
    assert head(place(code)) == wanted
    git(code, "pack-refs", "--all")
    assert head(place(code)) == wanted
    git(code, "checkout", "-q", "HEAD~1")
    assert head(place(code)) == git(code, "rev-parse", "HEAD") != wanted
    git(code, "worktree", "add", "-q", str(tmp_path / "other"), "main")
    assert head(place(tmp_path / "other")) == wanted
    assert [one.subject for one in touches(place(tmp_path / "other"), ["src/b"]).found] == ["three", "one"]


def test_no_history_is_an_answer(tmp_path: Path, code: Path) -> None:
    git(tmp_path, "init", "-q", "empty")
    assert (head(place(tmp_path / "empty")), touches(place(tmp_path / "empty"), ["a"])) == ("", Touches())
    assert touches(place(code), []) == Touches()
    (code / ".git" / "HEAD").write_text("ref: refs/heads/../../etc/passwd\n")
    assert head(place(code)) == ""


def test_the_newest_commits_found_in_time_are_answered(code: Path) -> None:
    whole = touches(place(code), ["src/a"])
    late = touches(place(code), ["src/a"], seconds=0.001)
    assert late.found == whole.found[: len(late.found)]
    assert whole.all
    assert not late.all or late == whole
