"""A state file of kgd with unexpected content never makes a call fail: it is set aside and starts empty."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kgd.agents.install import Notes
from kgd.daemon.daemon import Daemon
from kgd.daemon.process import holder
from kgd.git import files
from kgd.git.layout import locate
from kgd.tools.proposals import own_nodes
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask, upsert

JOB = {
    "id": "j1",
    "source": "notes.md",
    "kind": "document",
    "uri": "doc://shop/notes",
    "author": ["Ann Person", "ann@example.org", "tests"],
    "began": 1.0,
    "state": "done",
    "ended": 2.0,
    "done": 1,
    "total": 1,
    "counts": {"new": 1},
    "uris": ["doc://shop/notes"],
    "trouble": ["x"],
    "more_trouble": 0,
    "failure": "",
}
STATE = {
    "approved-Ann-Person.json": {"concept://shop/a": ["0" * 40]},
    "questions.json": [{"text": "where do ships wait", "client": "tests", "at": 1, "count": 1}],
    "jobs.json": {"jobs": [JOB], "roots": {"docs": "/docs"}},
    "submitted/infra.json": {"roots": {"concept://shop/a": 1.0}, "nodes": {"concept://shop/a": "0" * 40}},
    "bases": {"bases": {"nodes/concept/a.yaml": None}, "taken": {"x": [None, None]}, "tip": "0" * 40},
    "checkpoint": {"refs/kgd/head": "0" * 40},
    "aside/1/plan": {"before": "0" * 40, "after": "0" * 40, "files": [["x", None, None, []]], "lock": 0, "boot": ""},
}
"""A sound document for each state file in the folder of derived data."""
SHAPES: list[Any] = [None, True, 7, float("inf"), "x", "\0", [], [1], [[]], {}, {"a": None}, {"\ud800": 1}]


def deep(value: Any, put: Any, level: int) -> Any:
    """Replace every value at one level of a document."""
    if level == 0 or not isinstance(value, dict | list):
        return put
    if isinstance(value, dict):
        return {key: deep(one, put, level - 1) for key, one in value.items()}
    return [deep(one, put, level - 1) for one in value]


DOCUMENTS: list[Callable[[Any], bytes]] = [
    lambda _: b"",
    lambda _: b"\xff{",
    lambda _: b"[" * 100_000,
    *(
        lambda sound, put=put, level=level: json.dumps(deep(sound, put, level)).encode()
        for put in SHAPES
        for level in range(4)
    ),
]


def use(ask: Ask, workspace: Workspace) -> None:
    """Call each operation that reads a state file, and those that write it."""
    assert [author["nodes"] for author in ask.review(since="yesterday")["authors"]]
    ask.review(approve=["a"], since="yesterday")
    ask.questions()
    ask.search(query="zeppelin mooring")
    ask.ingest()
    own_nodes.noted(workspace, "infra")
    ask.put(changes=upsert("a", summary="again"))


@pytest.mark.slow
def test_each_state_file_may_have_any_content(ask: Ask, ws: Workspace, session: Session, daemon: Daemon) -> None:
    ask.put(changes=upsert("a", name="A"))
    folder, home = ws.derived_dir, daemon.home
    daemon.close()
    for document in DOCUMENTS:
        for name, sound in STATE.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(document(sound))
        daemon = Daemon(home, since="2026-11-21T12:00:00Z", locate=locate, open_workspace=Workspace.open)
        use(Ask(replace(session, daemon=daemon)), daemon.workspace("shop"))
        daemon.close()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_of_the_home_may_have_any_content(document: Callable[[Any], bytes], tmp_path: Path) -> None:
    notes, lock = tmp_path / "agents.json", tmp_path / "daemon.lock"
    notes.write_bytes(document({"entries": {"/x": ["hook"]}, "folders": ["/y"]}))
    lock.write_bytes(document({"pid": 1, "version": "1", "since": "now"}))
    assert isinstance(Notes.read(notes), Notes)
    assert isinstance(holder(str(lock)), dict)


def test_a_damaged_state_file_is_reported_once_and_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "state.json"
    file.write_text("{")
    with caplog.at_level(logging.WARNING, logger="kgd.state"):
        assert [files.read_state(file, dict), files.read_state(file, dict)] == [None, None]
    (record,) = caplog.records
    assert record.__dict__["path"] == f"{file}.damaged"
    assert (tmp_path / "state.json.damaged").read_text() == "{"


def test_a_state_file_that_was_rewritten_meanwhile_is_not_set_aside(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text("{}")

    def overtaken(document: Any) -> None:
        files.replace(file, b'{"sound": 1}')
        raise KeyError(document)

    assert files.read_state(file, overtaken) is None
    assert files.read_state(file, dict) == {"sound": 1}


def test_a_folder_at_the_path_of_a_state_file_is_set_aside(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    (file / "inside").mkdir(parents=True)
    assert files.read_state(file, dict) is None
    assert (tmp_path / "state.json.damaged/inside").is_dir()
