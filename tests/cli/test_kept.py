"""Files of a person are never deleted, and derived data is rebuilt."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from tests.cli.conftest import Kgd


def script(path: Path, body: str) -> str:
    path.write_text("#!/bin/sh\n" + body)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.mark.slow
def test_reindexing_brings_the_names_of_the_code_tree_back(kgd: Kgd) -> None:
    assert "session.py" in kgd("search", "session")
    kgd("reindex")
    assert "session.py" in kgd("search", "session")


def test_an_edit_that_could_not_be_saved_is_kept(kgd: Kgd, tmp_path: Path) -> None:
    kgd("put", "kept", "--summary", "before")
    broken = script(tmp_path / "broken", 'echo "summary: [my long thoughts" >> "$1"\n')
    done = kgd.run("edit", "kept", EDITOR=broken)
    assert done.returncode != 0
    (path,) = re.findall(r"kept in (\S+)", done.stderr)
    assert "my long thoughts" in Path(path).read_text()
    Path(path).unlink()


def test_a_comparison_is_understood_with_a_blank_too(kgd: Kgd) -> None:
    kgd("put", "compared", "--summary", "one")
    kgd("put", "compared", "--summary", "two")
    assert kgd("diff", "HEAD~1", "HEAD") == kgd("diff", "HEAD~1..HEAD")
    assert "two" in kgd("diff", "HEAD~1", "HEAD")


def test_a_link_to_a_mistyped_file_says_that_the_tree_has_no_such_file(kgd: Kgd) -> None:
    kgd("put", "linking", "--summary", "s")
    assert "not in the code tree" in kgd("link", "linking", "./src/auth/sesion.py")


def test_the_past_does_not_call_files_broken_that_the_tree_has(kgd: Kgd) -> None:
    kgd("put", "past", "--summary", "s")
    kgd("link", "past", "./src/auth/session.py")
    assert kgd.json("traverse", "past", "--as-of", "HEAD")["broken_links"] == []


def test_a_file_of_ones_own_in_the_work_tree_outlives_uninstalling_and_does_not_stand_in_the_way(kgd: Kgd) -> None:
    kgd("put", "lasting", "--summary", "s")
    note = kgd.directory / ".kgd" / "notes.txt"
    note.write_text("mine\n")
    said = kgd("uninstall")
    assert f"{kgd.directory}/.kgd has files" in said
    kgd("up", "--quiet")
    assert note.read_text() == "mine\n"
    assert kgd.json("get", "lasting")["nodes"][0]["summary"] == "s"
    note.unlink()
