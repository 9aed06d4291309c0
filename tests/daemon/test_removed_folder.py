"""The folder of derived data is removed under a running daemon: work continues and is published."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.git.support import fsck
from tests.sync.people import Person, git
from tests.waiting import until


@pytest.fixture
def ann(tmp_path: Path) -> Iterator[Person]:
    person = Person(tmp_path / "ann")
    person.put("before", summary="s")
    person.published()
    yield person
    person.close()


def remove_derived(person: Person) -> None:
    shutil.rmtree(person.tree / ".git/kgd")


def test_writes_and_publication_go_on(ann: Person) -> None:
    remove_derived(ann)
    ann.put("after", summary="s")
    ann.published()
    assert (ann.tree / "nodes/concept/after.yaml").exists()
    assert ann.call("status")["degraded"] == []
    assert fsck(ann.tree / ".git") == []


def test_an_idle_daemon_opens_the_workspace_again(ann: Person) -> None:
    remove_derived(ann)
    until(lambda: (ann.tree / ".git/kgd/lock").exists())
    file = ann.tree / "nodes/concept/before.yaml"
    file.write_text(file.read_text().replace("summary: s", "summary: by hand"))
    until(lambda: ann.summary("before") == "by hand")


def test_a_request_is_not_carried_out_again(ann: Person) -> None:
    ann.put("log", summary="s")
    change = [{"op": "append", "uri": "concept://infra/log", "text": "once"}]
    ann.call("put", changes=change, request_id="r")
    remove_derived(ann)
    ann.call("put", changes=change, request_id="r")
    assert (ann.node("log") or {})["content"].count("once") == 1


def test_a_repository_that_was_deleted_is_not_written_again(tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    git(code, "init", "-q")
    person = Person(tmp_path / "ann", tree=code, standalone=False)
    try:
        workspace = person.workspace
        layout, displaced = workspace.layout, threading.Event()
        workspace.on_displaced(displaced.set)
        for part in sorted(layout.git_dir.iterdir(), key=lambda one: one.name == "kgd"):  # HEAD first, the lock last
            shutil.rmtree(part) if part.is_dir() else part.unlink()
        workspace.hint()
        assert displaced.wait(60)
        until(lambda: not any("_open_anew" in thread.name for thread in threading.enumerate()))
        # A cache may be written at the very end; `kgd up` clears it away.
        assert {one.name for one in layout.git_dir.iterdir()} <= {"kgd"}
        assert not (layout.derived_dir / "lock").exists()
    finally:
        person.close()
