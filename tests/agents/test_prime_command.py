"""The command `kgd prime`: what a person reads, what a start hook wants, and never a failure."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Kgd, code, kgd, module_home

__all__ = ["code", "kgd", "module_home"]


def test_it_prints_markdown_and_the_format_of_each_hook(kgd: Kgd) -> None:
    kgd("remember", "Never retry a charge", "--type", "gotcha")
    assert "# kgd: team knowledge in `shop`" in kgd("prime")
    shared = json.loads(kgd("prime", "--hook"))
    assert shared["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    assert "Never retry a charge" in shared["hookSpecificOutput"]["additionalContext"]
    assert "Never retry a charge" in json.loads(kgd("prime", "--hook", "cursor"))["additional_context"]
    assert kgd.json("prime")["known"]


def test_outside_a_workspace_it_is_one_line_and_no_failure(kgd: Kgd, tmp_path: Path) -> None:
    kgd.directory = tmp_path
    done = kgd.run("prime")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "kgd: this directory has no workspace; `kgd up` creates one in a code repository"
    ]
    for shape in ([], ["cursor"]):
        done = kgd.run("prime", "--hook", *shape)
        assert (done.returncode, done.stdout) == (0, "")


def test_where_there_is_no_workspace_no_daemon_is_started(kgd: Kgd, tmp_path: Path) -> None:
    kgd.directory = tmp_path
    done = kgd.run("prime", KGD_HOME=str(tmp_path / "home"))
    assert done.returncode == 0
    assert not (tmp_path / "home").exists()


def test_a_session_starts_despite_any_error(kgd: Kgd, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("no folder")
    done = kgd.run("prime", "--hook", KGD_HOME=str(tmp_path / "home"))
    assert (done.returncode, done.stdout) == (0, "")
