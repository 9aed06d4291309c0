from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from kgd.git import creation
from kgd.git.layout import Layout
from tests.git.support import FIRST_FILES, Pen, git


@pytest.fixture(scope="session")
def code_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once: starting git four times costs more than most tests."""
    tree = tmp_path_factory.mktemp("template") / "code"
    tree.mkdir()
    git(tree, "init", "-q", "-b", "main")
    (tree / "main.py").write_text("print(1)\n")
    git(tree, "add", ".")
    git(tree, "-c", "user.name=Ann", "-c", "user.email=ann@example.org", "commit", "-qm", "code")
    return tree


@pytest.fixture
def code(code_template: Path, tmp_path: Path) -> Path:
    """A code repository with one commit."""
    return Path(shutil.copytree(code_template, tmp_path / "code", symlinks=True))


@pytest.fixture
def workspace(code: Path) -> Layout:
    return creation.create_in_code_repository(code, "demo", FIRST_FILES)


@pytest.fixture
def pen(workspace: Layout) -> Pen:
    return Pen(workspace)
