"""The history of the code repository: commits with their paths, in order, and never over the network."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kgd.git.code_log import commits, files, head, moved, reachable
from kgd.git.discovery import Place, find_place
from kgd.git.program import GitFailed


def git(directory: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(directory), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """Commits `one` to `four`; of the files in them, `a` is in one, two and four."""
    root = tmp_path / "code"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    for subject, names in (("one", "a b"), ("two: ü 'x'\n\nbecause", "a c"), ("three", "b"), ("four", "a c")):
        for name in names.split():
            (root / "src").mkdir(exist_ok=True)
            (root / "src" / name).write_text(subject)
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", subject)
    return root


def place(code: Path) -> Place:
    found = find_place(code)
    assert found is not None
    return found


def test_commits_are_listed_with_all_their_paths_newest_first(code: Path) -> None:
    found = list(commits(place(code), head(place(code))))
    assert [(one.message.strip(), [change.path for change in one.changes]) for one in found] == [
        ("four", ["src/a", "src/c"]),
        ("three", ["src/b"]),
        ("two: ü 'x'\n\nbecause", ["src/a", "src/c"]),
        ("one", ["src/a", "src/b"]),
    ]
    assert found[0].id == git(code, "rev-parse", "HEAD")
    assert found[0].at == int(git(code, "log", "-1", "--format=%ct"))
    assert "@" not in found[0].author


def test_commits_are_read_by_their_ids_in_the_given_order(code: Path) -> None:
    ids = reachable(place(code), "HEAD", 3)
    assert [one.id for one in commits(place(code), "HEAD", ids=ids[::-1])] == ids[::-1]
    assert [one.id for one in commits(place(code), "HEAD", limit=2)] == ids[:2]


def test_the_difference_between_two_branches_is_known(code: Path) -> None:
    old = git(code, "rev-parse", "HEAD")
    git(code, "reset", "-q", "--hard", "HEAD~1")
    git(code, "commit", "-q", "--allow-empty", "-m", "other")
    new = git(code, "rev-parse", "HEAD")
    assert moved(place(code), old, new) == ([new], [old])
    assert moved(place(code), "0" * 40, new) is None


def test_a_name_that_is_not_text_is_left_out_and_a_blank_one_is_not(code: Path) -> None:
    (code / "a\nb ü").write_text("x")
    (code / "bad\udcff").write_text("x")
    git(code, "add", "-A")
    git(code, "commit", "-q", "-m", "names")
    [newest] = commits(place(code), "HEAD", limit=1)
    assert ([change.path for change in newest.changes], newest.files) == (["a\nb ü"], 2)
    assert files(place(code), "HEAD") == ["a\nb ü", "src/a", "src/b", "src/c"]
    assert files(place(code), "HEAD", ["src/b", "src/none"]) == ["src/b"]


def test_the_commit_that_is_checked_out_is_known_without_asking_git(code: Path, tmp_path: Path) -> None:
    wanted = git(code, "rev-parse", "HEAD")
    assert head(place(code)) == wanted
    git(code, "pack-refs", "--all")
    assert head(place(code)) == wanted
    git(code, "checkout", "-q", "HEAD~1")
    assert head(place(code)) == git(code, "rev-parse", "HEAD") != wanted
    git(code, "worktree", "add", "-q", str(tmp_path / "other"), "main")
    assert head(place(tmp_path / "other")) == wanted


def test_no_history_is_an_answer(tmp_path: Path, code: Path) -> None:
    git(tmp_path, "init", "-q", "empty")
    assert head(place(tmp_path / "empty")) == ""
    (code / ".git" / "HEAD").write_text("ref: refs/heads/../../etc/passwd\n")
    assert head(place(code)) == ""


def test_a_partial_clone_fetches_nothing(code: Path, tmp_path: Path) -> None:
    git(code, "config", "uploadpack.allowFilter", "true")
    git(tmp_path, "clone", "-q", "--filter=tree:0", "--no-checkout", f"file://{code}", "partial")
    partial = place(tmp_path / "partial")
    with pytest.raises(GitFailed):
        list(commits(partial, head(partial)))
    assert git(tmp_path / "partial", "rev-list", "--objects", "--missing=print", "HEAD").count("?") > 0
