"""`kgd task add`: a task from one command line is an ordinary task."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kgd.errors import Invalid, KgdError, NotFound, Stale
from kgd.memories.tasks import parsed
from kgd.model.uri import Uri
from kgd.tools import call
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.tasks.conftest import Ask, got, put_task


def test_a_task_has_the_sections_that_were_given_and_the_address_that_put_makes(ask: Ask, ws: Workspace) -> None:
    put_task(ask, "before", sections=None)
    added = ask.add_task(
        name=" Once ",
        objective="Book each event once.",
        accept=["no doubles", "quick\nenough"],
        depends=["before"],
        files=["src/checkout.py", "./src/auth/", "src/new/*.py", "docs/My File.md"],
        tags=["payments"],
    )
    assert added["id"] == "task://shop/Once"
    assert (
        got(ask, "Once")["sections"]
        == added["sections"]
        == [
            {"title": "Objective", "content": "Book each event once."},
            {"title": "Acceptance Criteria", "content": "- no doubles\n- quick enough"},
            {
                "title": "Context Files",
                "content": "- `src/checkout.py`\n- `src/auth/`\n- `src/new/*.py`\n- `docs/My File.md`",
            },
        ]
    )
    node = ws.node(Uri(added["id"]))
    assert node is not None
    assert (node.tags, node.summary) == (("payments",), "Book each event once.")
    assert parsed(node).files == ("src/checkout.py", "src/auth/", "src/new/*.py", "docs/My File.md")
    assert parsed(node).depends_on == ("task://shop/before",)
    ask.put(changes=[{"op": "upsert", "type": "task", "name": "Once", "tags": ["same"]}])
    assert got(ask, "Once")["task"]["tags"] == ["payments", "same"]


def test_files_may_be_relative_to_the_current_directory_and_are_stored_relative_to_the_repository(
    session: Session, code: Path
) -> None:
    below = replace(session, cwd=code / "src" / "auth")
    files = [
        "keys.py",
        "../checkout.py",
        str(code / "README.md"),
        "src/auth/session.py",
        "file://shop/logo.bin",
        "later.py",
    ]
    sections = call(below, "add_task", {"name": "t", "files": files})["sections"]
    assert sections[0]["content"].splitlines() == [
        "- `src/auth/keys.py`",
        "- `src/checkout.py`",
        "- `README.md`",
        "- `src/auth/session.py`",
        "- `logo.bin`",
        "- `later.py`",
    ]


def test_an_invalid_task_is_refused_and_nothing_is_written(ask: Ask, ws: Workspace) -> None:
    put_task(ask, "taken")
    tip = ws.tip
    wrong: list[tuple[dict[str, object], type[KgdError], str]] = [
        ({"name": "taken"}, Stale, "of this name already exists"),
        ({"name": " "}, Invalid, "needs a name"),
        ({"name": "a\nb"}, Invalid, "line ends"),
        ({"name": "x", "depends": ["nobody"]}, NotFound, r"depends\[0\]"),
        ({"name": "x", "files": ["ok.py", "/etc/passwd"]}, Invalid, r"outside the code tree \(files\[1\]\)"),
        ({"name": "x", "files": ["../../other.py"]}, Invalid, "outside the code tree"),
    ]
    for arguments, error, says in wrong:
        with pytest.raises(error, match=says):
            ask.add_task(**arguments)
    assert ask.add_task(name="tried", dry_run=True)["dry_run"]
    assert ws.tip == tip
