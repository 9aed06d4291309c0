"""Changelog entries are files of their own, written once, and stay with their node."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kgd.codec import documents
from kgd.errors import NotFound
from kgd.model.change import Delete, Log, LogEntry, Move, Upsert
from kgd.model.uri import Uri, parse
from kgd.workspace.workspace import Workspace
from tests.builders import change

ATOM = parse("atom://ws/checkout")
ID = "01JD3Q8Z7K5W9V2M4N6P8R0T1X"


def entry(parent: Uri = ATOM) -> LogEntry:
    return LogEntry(ID, parent, "task://ws/t-1", "Retries are bounded now", "2026-11-21T10:00:00.000Z")


def logs(ws: Workspace) -> dict[str, LogEntry]:
    tree = ws.store.tree_of(bytes.fromhex(ws.tip))
    return {
        path: documents.decode_entry(ws.store.read(blob))
        for path, _, blob in ws.store.files(tree)
        if path[:4] == "log/"
    }


@pytest.mark.requirement("A3")
def test_an_entry_is_a_file_and_its_node_keeps_its_version(ws: Workspace) -> None:
    ws.submit(change(Upsert(ATOM, name="Checkout")))
    outcome = ws.submit(change(Log(entry())))
    assert outcome.commit
    [(path, found)] = logs(ws).items()
    assert Path(path).name == f"{ID}.yaml"
    assert found == entry()
    version = ws.node_version(ATOM)
    assert version is not None
    assert version.count == 1


@pytest.mark.requirement("A3")
def test_there_is_no_entry_without_its_node(ws: Workspace) -> None:
    with pytest.raises(NotFound):
        ws.submit(change(Log(entry())))
    assert logs(ws) == {}


@pytest.mark.requirement("A10")
def test_entries_are_deleted_and_moved_with_their_node(ws: Workspace) -> None:
    moved = parse("atom://ws/pay/checkout")
    ws.submit(change(Upsert(ATOM, name="Checkout"), Log(entry())))
    ws.submit(change(Move(ATOM, moved)))
    assert [one.parent for one in logs(ws).values()] == [moved]
    ws.submit(change(Delete(moved)))
    assert logs(ws) == {}


def test_an_entry_keeps_keys_of_a_later_version_when_its_node_moves(ws: Workspace) -> None:
    there = parse("atom://ws/payment")
    ws.submit(change(Upsert(ATOM, name="Checkout")))
    ws.submit(change(Log(replace(entry(), others={"reviewed": ["ann"], "cost": 1.5}))))
    ws.submit(change(Move(ATOM, there)))
    [found] = logs(ws).values()
    assert found == replace(entry(there), others={"reviewed": ["ann"], "cost": 1.5})
    assert documents.decode_entry(documents.encode_entry(found)) == found
