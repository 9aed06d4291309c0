"""The first graph and versions of a large workspace, made by other processes."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kgd.model.change import Author, ChangeSet
from kgd.model.node import Relation
from kgd.workspace.derived import first_build
from kgd.workspace.workspace import Workspace
from tests.builders import change, commit_file, new_layout, upsert, uri


def filled(tmp_path: Path) -> Workspace:
    ws = Workspace.open(new_layout(tmp_path), publish=False)
    ws.submit(change(*(upsert(f"n{n}", Relation("t", uri(f"n{n + 1}"), n / 30), name=f"N {n}") for n in range(30))))
    commit_file(ws, "nodes/concept/n3.yaml", "uri: [\n")
    ws.close()
    for name in ("graph.snapshot", "versions.sqlite"):
        (ws.layout.derived_dir / name).unlink()
    return ws


@pytest.mark.slow
def test_other_processes_give_the_same_graph_and_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    old = filled(tmp_path)
    monkeypatch.setattr(first_build, "MUCH", 1)
    with caplog.at_level(logging.WARNING):
        ws = Workspace.open(old.layout, publish=False)
    assert not caplog.records
    version = ws.node_version(uri("n1"))
    assert version is not None
    assert (version.count, version.updated_by) == (1, "Ann (tests) <ann@example.org>")
    assert (old.layout.derived_dir / "graph.snapshot").exists()  # written before the workspace closes
    everything = {one: (old.graph.card(one), list(old.graph.out(one))) for one in old.graph.uris()}
    assert {one: (ws.graph.card(one), list(ws.graph.out(one))) for one in ws.graph.uris()} == everything
    assert ws.graph.broken_links() == old.graph.broken_links()
    assert [file.path for file in ws.invalid_files()] == ["nodes/concept/n3.yaml"]
    ws.close()


def test_history_gives_the_same_author_and_verifier_as_the_writes(tmp_path: Path) -> None:
    ws = Workspace.open(new_layout(tmp_path), publish=False)
    bob = Author("Bob", "bob@example.org")
    ws.submit(change(upsert("a", name="A"), upsert("b", name="B")))
    for number in range(2):
        edits = (upsert("a", summary=f"{number}"),)
        ws.submit(ChangeSet(edits, bob, "still true", operation="verify"))
    known = [ws.node_version(uri(name)) for name in "ab"]
    ws.close()
    (ws.layout.derived_dir / "versions.sqlite").unlink()
    ws = Workspace.open(ws.layout, publish=False)
    assert [ws.node_version(uri(name)) for name in "ab"] == known
    assert known[0] is not None
    assert (known[0].updated_by, known[0].author) == ("Bob <bob@example.org>", "Ann (tests) <ann@example.org>")
    ws.close()


def test_the_daemon_reads_the_graph_if_the_process_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = filled(tmp_path)
    monkeypatch.setattr(first_build, "MUCH", 1)
    monkeypatch.setattr(first_build, "PROGRAM", ("-c", "raise SystemExit(3)"))
    ws = Workspace.open(old.layout, publish=False)
    assert sorted(ws.graph.uris()) == sorted(old.graph.uris())
    ws.close()
