"""Derived data is rebuilt when necessary, and no reader sees a part of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kgd.errors import Unavailable
from kgd.graph.traverse import traverse
from kgd.index.version_cache import Versions
from kgd.model.change import Delete
from kgd.workspace.check import check
from kgd.workspace.workspace import Workspace
from tests.builders import change, to, upsert, uri
from tests.waiting import until

NODES = 600


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


def test_versions_and_requests_stay_correct_while_the_database_is_behind_and_unusable(
    reopen: Callable[[], Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    ws = reopen()
    ws.submit(change(upsert("lease", name="Lease"), request="first"))
    ws.close()
    [file] = ws.layout.derived_dir.glob("index.sqlite")
    lagging = file.read_bytes()
    ws = reopen()
    done = ws.submit(change(upsert("lease", summary="renewed"), request="second"))
    ws.close()
    file.write_bytes(lagging)
    (ws.layout.derived_dir / "index.sum").unlink()

    def refused(*_: object, **__: object) -> None:
        raise Unavailable("the index cannot be used just now (SQLITE_FULL)")

    monkeypatch.setattr(Versions, "head", refused)
    monkeypatch.setattr(Versions, "replace", refused)
    ws = reopen()
    version = ws.node_version(uri("lease"))
    assert version is not None
    assert (version.count, version.updated_commit) == (2, done.commit)
    again = ws.submit(change(upsert("lease", summary="renewed"), request="second"))
    assert (again.commit, again.repeated) == (done.commit, True)
    until(lambda: any("SQLITE_FULL" in line for line in ws.degraded()))
    monkeypatch.undo()


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
