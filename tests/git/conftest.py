from __future__ import annotations

from pathlib import Path

import pytest

from kgd.git import layout
from kgd.git.layout import Layout
from tests.git.support import FIRST_FILES, Pen, git


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A code repository with one commit."""
    tree = tmp_path / "code"
    tree.mkdir()
    git(tree, "init", "-q", "-b", "main")
    (tree / "main.py").write_text("print(1)\n")
    git(tree, "add", ".")
    git(tree, "commit", "-qm", "code")
    return tree


@pytest.fixture
def workspace(code: Path) -> Layout:
    return layout.create_in_code_repository(code, "demo", FIRST_FILES)


@pytest.fixture
def pen(workspace: Layout) -> Pen:
    return Pen(workspace)
