"""The contents of cited code at an earlier time, from few runs of git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kgd.freshness.code import FOLDER, Code, id_of
from kgd.git import program
from tests.surfaces.conftest import git


def commit(root: Path, text: str | None, at: int) -> None:
    file = root / "src/auth/late.py"
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    git(root, "add", "-A")
    clock = {"GIT_COMMITTER_DATE": f"@{at} +0000"}
    subprocess.run(["git", "-C", str(root), "commit", "-qm", "late"], check=True, env={**os.environ, **clock})


@pytest.fixture
def late(code: Path) -> Code:
    """A code tree whose file ``src/auth/late.py`` was written at 2,000,000,000, again 100 s later, and then removed."""
    for text, at in (("def a():\n    pass\n", 0), ("def a():\n    return 1\n", 100), (None, 200)):
        commit(code, text, 2_000_000_000 + at)
    found = Code(code)
    found.look()
    return found


@pytest.mark.parametrize("symbol", ["", "a"])
def test_the_content_at_a_time_comes_from_the_newest_commit_before_it(late: Code, symbol: str) -> None:
    path = "src/auth/late.py"
    first, second = (id_of(text, path, symbol)[0] for text in (b"def a():\n    pass\n", b"def a():\n    return 1\n"))
    expected = {-1: None, 0: first, 99: first, 100: second, 199: second, 200: None}
    assert {at: late.id_before(2_000_000_000 + at, path, symbol) for at in expected} == expected
    assert late.id_before(2_000_000_300, "src/auth") == FOLDER
    assert late.id_before(2_000_000_300, "src/nowhere.py") is None


def test_many_citations_of_a_file_cost_one_run_of_git_for_each_content(
    late: Code, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs: list[str] = []

    def counted(place: Any, arguments: Any, **options: Any) -> bytes:
        runs.append(arguments[len(program.LOCAL)])
        return program.run(place, arguments, **options)

    monkeypatch.setattr("kgd.freshness.code.run", counted)
    for at in range(0, 300, 10):
        for symbol in ("", "a"):
            late.id_before(2_000_000_000 + at, "src/auth/late.py", symbol)
    assert sorted(runs) == ["cat-file"] * 4 + ["log"], "each of two contents once as a file and once for the symbol"
