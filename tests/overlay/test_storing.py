"""A tree that colleagues do not have, as edits that store it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgd.codec.documents import decode, encode
from kgd.model.change import Upsert
from kgd.model.node import Node
from kgd.overlay.overlay import store_changes
from tests.overlay.support import folder, nodes, repository, scanned


def as_node(edit: Upsert) -> Node:
    return Node(edit.uri, summary=edit.summary or "", data=edit.data, relations=edit.relations)


@pytest.mark.requirement("E10")
def test_every_node_is_stored_once_with_its_facts_members_first(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", {f"d{n % 3}/e/f{n}.py": "x\n" for n in range(20)})
    overlay = scanned(root)
    batches = list(store_changes(overlay, batch=7))
    assert all(len(batch) == 7 for batch in batches[:-1])
    edits = [edit for batch in batches for edit in batch]
    served = nodes(overlay)
    assert {edit.uri for edit in edits} == served.keys()
    assert len(edits) == len(served)
    stored = set()
    for edit in edits:
        assert all(relation.target in stored for relation in edit.relations)
        assert edit.data == served[edit.uri].data
        assert edit.relations == served[edit.uri].relations
        stored.add(edit.uri)


def test_the_same_tree_gives_the_same_edits(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", {"b": "", "a/c": "", "a/b": ""})
    assert list(store_changes(scanned(root))) == list(store_changes(scanned(root)))


@pytest.mark.slow
def test_every_node_fits_into_its_file(tmp_path: Path) -> None:
    root = repository(tmp_path / "r", {})
    (root / "hub").mkdir()
    for number in range(1000):
        (root / "hub" / f"{number:04d}-{'x' * 210}\n").touch()
    overlay = scanned(root)
    hub = next(e for batch in store_changes(overlay) for e in batch if e.uri == folder("hub"))
    assert hub.data["file_count"] == 1000
    assert len(hub.relations) + hub.data["contains_left_out"] == 1000
    body = encode(as_node(hub))
    assert len(body) < 256 << 10
    assert decode(body) == as_node(hub)


def test_nothing_is_stored_of_a_tree_that_is_not_there(tmp_path: Path) -> None:
    assert list(store_changes(scanned(tmp_path / "nowhere"))) == []
