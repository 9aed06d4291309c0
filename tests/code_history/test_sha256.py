"""Code in a repository with SHA-256: its history, lines and stale facts are those of any other."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgd.freshness.freshness import Freshness
from tests.surfaces.conftest import Ask, ask, daemon, git, session

__all__ = ["ask", "daemon", "session"]

PATH = "src/pay.py"


@pytest.fixture
def code(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    (root / "src").mkdir(parents=True)
    git(tmp_path, "init", "-q", "--object-format=sha256", "shop")
    git(root, "config", "user.name", "Ann Person")
    commit(root, "def pay():\n    return 1\n", "Pay once")
    return root


def commit(root: Path, text: str, message: str) -> None:
    (root / PATH).write_text(text)
    git(root, "add", "-A")
    git(root, "commit", "-qm", message)


@pytest.mark.slow
def test_lines_and_recent_changes_have_their_commits(ask: Ask, code: Path) -> None:
    commit(code, "def pay():\n    return 2\n", "Pay twice")
    answer = ask.context(paths=[f"{PATH}:1-2"])
    assert [line["what"] for line in answer["lines"]] == ["Pay once", "Pay twice"]
    assert [change["what"] for change in answer["changes"]] == ["Pay twice", "Pay once"]


def test_a_fact_becomes_stale_with_the_commit_that_changed_its_code(ask: Ask, code: Path) -> None:
    ask.remember(text="Payment is free.", cites=[PATH, f"{PATH}#pay"])
    commit(code, "def pay():\n    return 2\n", "Pay twice")
    Freshness.of(ask.session.daemon.workspace("shop")).files_changed([PATH])
    [node] = ask.stale()["nodes"]
    assert git(code, "rev-parse", "HEAD")[:10] in node["unverified"]["reason"]


def test_the_author_of_changes_is_the_one_that_git_would_name(ask: Ask, code: Path) -> None:
    config = ask.session.daemon.workspace("shop").layout.git_dir / "config"
    config.write_text(config.read_text().partition("[user]")[0])
    assert ask.session.author(ask.session.daemon.workspace("shop")).name == "Ann Person"
