"""Lines of code in a partial clone: no object is fetched over the network, and no question fails for want of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.surfaces.conftest import Ask, ask, daemon, git, make_code, session

__all__ = ["ask", "daemon", "session"]

KEPT, RENAMED = "src/checkout.py", "src/auth/session.py"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A clone without file contents, except all versions of one file."""
    origin = make_code(tmp_path / "hosted/shop")
    git(origin, "mv", RENAMED, "src/auth/tokens.py")
    (origin / "src/auth/tokens.py").write_text("def sign(token):\n    return token\n\n\ndef other():\n    pass\n")
    (origin / KEPT).write_text("from src.auth import tokens\n")
    git(origin, "commit", "-qam", "Rename sessions to tokens\n\nThe word session meant two things.")
    git(origin, "config", "uploadpack.allowFilter", "true")
    git(origin, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(tmp_path, "clone", "-q", "--filter=blob:none", "--no-checkout", f"file://{origin}", "shop")
    root = tmp_path / "shop"
    for commit in ("HEAD", "HEAD~1"):
        git(root, "cat-file", "blob", f"{commit}:{KEPT}")
    (root / "src/auth").mkdir(parents=True)
    (root / KEPT).write_text("from src.auth import tokens\n")
    return root


def absent(code: Path) -> set[str]:
    """The objects that the clone does not have."""
    return {line for line in git(code, "rev-list", "--objects", "--all", "--missing=print").splitlines() if "?" in line}


def test_a_line_has_its_commit_even_if_git_cannot_read_all_of_that_commit(ask: Ask, code: Path) -> None:
    [line] = ask.context(paths=f"{KEPT}:1")["lines"]
    assert line["what"] == "Rename sessions to tokens"


def test_lines_of_a_file_that_the_clone_lacks_are_not_fetched(ask: Ask, code: Path) -> None:
    before = absent(code)
    (code / "src/auth/tokens.py").write_text("def sign(token):\n    return token\n")
    ask.context(paths="src/auth/tokens.py:1")
    assert before
    assert absent(code) == before
