"""Derived data is rebuilt when necessary, and no reader sees a part of it."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing

import pytest

from kgd.errors import Unavailable
from kgd.graph.traverse import traverse
from kgd.index.database import LOG_KEPT, Database
from kgd.index.version_cache import VersionFile
from kgd.model.change import Delete
from kgd.workspace.check import check
from kgd.workspace.derived import derived
from kgd.workspace.workspace import Workspace
from tests.builders import change, to, upsert, uri
from tests.waiting import until

NODES = 600


@pytest.mark.slow
def test_a_search_during_the_rebuild_after_a_start_finds_everything(reopen: Callable[[], Workspace]) -> None:
    ws = reopen()
    ws.submit(change(*(upsert(f"note-{n}", name="Lease of the clock") for n in range(NODES))))
    ws.close()
    for file in ws.layout.derived_dir.glob("index.sqlite*"):
        file.unlink()
    ws = reopen()
    assert ws.node_version(uri("note-0"))
    assert len(ws.text().search("lease", limit=NODES + 1)) == NODES


def test_a_version_looked_up_before_a_change_is_not_cached_after_it(reopen: Callable[[], Workspace]) -> None:
    ws = reopen()
    for count in range(1, 6):
        before = ws.node_version(uri("lease"))
        assert (before.count if before else 0) == count - 1
        answer = ws.submit(change(upsert("lease", name=f"Lease {count}")))
        assert dict(answer.nodes) == {uri("lease"): count}
        assert ws.graph.card(uri("lease")).name == f"Lease {count}"  # type: ignore[union-attr]
        ws.text().search("lease")  # the database has it now, and memory need not
        after = ws.node_version(uri("lease"))
        assert after is not None
        assert (after.count, after.updated_commit) == (count, answer.commit)


def test_the_versions_of_all_nodes_of_a_change_are_looked_up_with_one_query(
    reopen: Callable[[], Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = [f"note-{number}" for number in range(20)]
    ws = reopen()
    ws.submit(change(*(upsert(note, name="Lease") for note in notes)))
    ws.close()
    ws = reopen()
    assert ws.node_version(uri("note-0"))

    def refused(*_: object) -> None:
        raise AssertionError("this version was looked up alone")

    monkeypatch.setattr(VersionFile, "version", refused)
    answer = ws.submit(change(*(upsert(note, summary="renewed") for note in notes)))
    assert dict(answer.nodes) == {uri(note): 2 for note in notes}


def test_versions_and_requests_stay_correct_while_the_database_is_behind_and_unusable(
    reopen: Callable[[], Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    ws = reopen()
    ws.submit(change(upsert("lease", name="Lease"), request="first"))
    ws.close()
    [file] = ws.layout.derived_dir.glob("versions.sqlite")
    lagging = file.read_bytes()
    ws = reopen()
    done = ws.submit(change(upsert("lease", summary="renewed"), request="second"))
    ws.close()
    file.write_bytes(lagging)
    (ws.layout.derived_dir / "index.sum").unlink()

    def refused(*_: object, **__: object) -> None:
        raise Unavailable("the index cannot be used just now (SQLITE_FULL)")

    monkeypatch.setattr(VersionFile, "head", refused)
    monkeypatch.setattr(VersionFile, "replace", refused)
    ws = reopen()
    version = ws.node_version(uri("lease"))
    assert version is not None
    assert (version.count, version.updated_commit) == (2, done.commit)
    again = ws.submit(change(upsert("lease", summary="renewed"), request="second"))
    assert (again.commit, again.repeated) == (done.commit, True)
    until(lambda: any("SQLITE_FULL" in line for line in ws.degraded()))
    monkeypatch.undo()


def test_a_snapshot_that_cannot_be_made_stops_no_search(
    reopen: Callable[[], Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derived, "IDLE", 0.05)
    monkeypatch.setattr(derived, "SNAPSHOT_AFTER", 1)
    failed = threading.Event()

    def fails(*_: object) -> None:
        failed.set()
        raise MemoryError

    monkeypatch.setattr(derived, "write_snapshot", fails)
    ws = reopen()
    ws.submit(change(upsert("lease", content="A kumquat.\n")))
    assert failed.wait(60)
    ws.submit(change(upsert("later", content="A zebra.\n")))
    assert [hit.uri for hit in ws.text().search("zebra")] == [uri("later")]
    assert list(ws.degraded()) == []


@pytest.mark.slow
def test_a_graph_that_is_mapped_in_an_idle_moment_answers_and_changes_as_before(
    reopen: Callable[[], Workspace],
) -> None:
    ws = reopen()
    file = ws.layout.derived_dir / "graph.snapshot"
    ws.submit(change(*(upsert(f"note-{n}", to(f"note-{n + 1}")) for n in range(NODES))))
    before = sorted(ws.graph.graph.edges)
    until(file.exists)
    until(lambda: len(ws.graph.rows()[0]) > NODES)
    assert sorted(ws.graph.graph.edges) == before
    assert [node.uri for node in traverse(ws.sources(), uri("note-0")).nodes] == [uri("note-0"), uri("note-1")]
    ws.submit(change(Delete(uri("note-1"))))
    assert [link.target for link in ws.graph.broken_links()] == [uri("note-1"), uri(f"note-{NODES}")]
    for path in ws.layout.derived_dir.glob("graph.*"):
        path.unlink()  # which a process with the file mapped survives
    assert list(check(ws)) == []
    ws = reopen()
    assert [link.target for link in ws.graph.broken_links()] == [uri("note-1"), uri(f"note-{NODES}")]


@pytest.mark.slow
def test_the_logs_of_much_work_are_emptied_in_an_idle_moment(reopen: Callable[[], Workspace]) -> None:
    ws = reopen()
    ws.meaning.follow()
    ws.submit(change(*(upsert(f"note-{n}", name=f"Lease {n}", content=f"Word {n}") for n in range(3 * NODES))))
    assert ws.meaning.catch_up(60)

    def logs() -> list[int]:
        return [file.stat().st_size for file in ws.layout.derived_dir.glob("*.sqlite-wal")]

    assert max(logs()) > LOG_KEPT
    until(lambda: max(logs()) <= LOG_KEPT, say=logs)


@pytest.mark.slow
def test_a_log_that_was_in_use_in_the_idle_moment_is_emptied_later(
    reopen: Callable[[], Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(derived, "IDLE", 0.05)
    tried, trim = list[bool](), Database.trim

    def counting(self: Database) -> bool:
        is_trimmed = trim(self)
        if self.path.name == "index.sqlite":
            tried.append(is_trimmed)
        return is_trimmed

    monkeypatch.setattr(Database, "trim", counting)
    ws = reopen()
    ws.submit(change(upsert("first")))
    ws.text()
    with closing(sqlite3.connect(ws.derived_dir / "index.sqlite")) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM docs").fetchone()
        ws.submit(change(*(upsert(f"note-{n}", name=f"Lease {n}", content=f"Word {n}") for n in range(3 * NODES))))
        until(lambda: False in tried)
    until(lambda: tried[-1], say=lambda: tried)


def test_another_process_that_closes_the_index_does_not_delete_the_log_in_use(reopen: Callable[[], Workspace]) -> None:
    reopen().submit(change(upsert("a", summary="a lease")))
    ws = reopen()  # after a clean stop, the file is compared with its checksum
    ws.text()
    log = ws.derived_dir / "index.sqlite-wal"
    before = log.stat().st_ino
    other = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); db.execute('SELECT * FROM meta').fetchall()"
    subprocess.run([sys.executable, "-c", f"{other}; db.close()", ws.derived_dir / "index.sqlite"], check=True)
    assert log.stat().st_ino == before
