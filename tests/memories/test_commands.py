"""Memories on the command line: stored with their detail, found by tags, read and edited as files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kgd.cli.commands import EXIT_CODES
from tests.cli.conftest import Kgd, kgd, module_home
from tests.cli.conftest import code as cli_code

__all__ = ["code", "kgd", "module_home"]
code = cli_code


@pytest.mark.slow
def test_a_decision_is_written_down_with_its_detail_and_found_by_its_tags(kgd: Kgd, tmp_path: Path) -> None:
    kgd("up")
    notes = tmp_path / "notes.md"
    notes.write_text("# Why\n\nMany writers at once.\n")
    said = "Chose PostgreSQL over SQLite for concurrent write support"
    (made,) = kgd.json("remember", said, "--type", "decision", "--detail", str(notes))["created"]
    found = kgd.json("recall", "--tags", "postgresql", "--tags", "sqlite")["hits"]
    assert [hit["uri"] for hit in found] == [made]
    shown = kgd("show", made)
    assert said in shown
    assert "Many writers at once." in shown
    assert "Many writers" not in kgd("recall", "--tags", "postgresql")
    late = kgd.run("put", made, "--detail", "-", stdin="another reason")
    assert late.returncode == EXIT_CODES["CONFLICT"][0]
    assert "--expect-version" in late.stderr
    kgd("put", made, "--detail", "-", "--expect-version", "1", stdin="another reason")
    assert json.loads(kgd("get", made, "--json"))["nodes"][0]["detail"]["text"] == "another reason"
    assert kgd.run("put", made, "--detail", str(tmp_path / "gone.md")).returncode == EXIT_CODES["VALIDATION_ERROR"][0]
