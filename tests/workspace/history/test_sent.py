"""Content that was read under a version: remembered for the newest answers, in little memory."""

from __future__ import annotations

import tracemalloc

import pytest

from kgd.model.uri import Uri
from kgd.workspace import served
from kgd.workspace.workspace import Workspace
from tests.builders import change, upsert

A, B, C = (Uri(f"concept://ws/{name}") for name in "abc")


def read(ws: Workspace, uri: Uri, version: int) -> str | None:
    node = ws.history.node_read(uri, version)
    return node.summary if node else None


def write(ws: Workspace, uri: Uri, summary: str) -> int:
    """The version that its author is answered with."""
    done = ws.submit(change(upsert(uri, summary=summary)))
    ws.sent.note_written(done.commit or "", done.nodes)
    return dict(done.nodes)[uri]


@pytest.mark.slow
def test_each_version_that_an_author_was_answered_with_is_remembered(ws: Workspace) -> None:
    versions = [write(ws, A, f"{number}") for number in range(300)]
    assert [read(ws, A, version) for version in versions] == [f"{number}" for number in range(300)]
    assert read(ws, A, 301) is None
    assert read(ws, A, 1 << 70) is None


def test_the_nodes_that_were_answered_longest_ago_are_forgotten(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "SENT_KEPT", 3)
    write(ws, A, "a")
    write(ws, B, "b")
    write(ws, A, "later")
    write(ws, C, "c")
    remembered = {uri: [read(ws, uri, version) for version in (1, 2)] for uri in (A, B, C)}
    assert remembered == {A: ["a", "later"], B: [None, None], C: ["c", None]}


def test_the_oldest_versions_of_a_node_are_forgotten(ws: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served, "SENT_KEPT_OF_ONE", 2)
    for number in range(4):
        write(ws, A, f"{number}")
    assert [read(ws, A, version) for version in (1, 2, 3, 4)] == [None, None, "2", "3"]


@pytest.mark.slow
def test_the_answers_to_twenty_thousand_writes_take_less_than_two_megabytes(ws: Workspace) -> None:
    nodes = [Uri(f"concept://ws/n{number}") for number in range(1_000)]
    tracemalloc.start()
    try:
        for number in range(20_000):
            ws.sent.note_written(f"{number:040x}", [(nodes[number % 1_000], 1_000 + number // 1_000)])
        assert tracemalloc.get_traced_memory()[0] < 2_000_000
    finally:
        tracemalloc.stop()
