"""Undo and revert of a person's own work: files saved by hand, and a branch that they rewrote with git."""

from __future__ import annotations

import pytest

from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask, git, upsert
from tests.waiting import until


@pytest.fixture
def told(ask: Ask, ws: Workspace) -> Ask:
    ask.put(changes=upsert("a", summary="one"), message="first")
    ask.put(changes=upsert("b", summary="two"), message="second")
    until(lambda: ws.is_settled and not git(ws.layout.work_tree, "--no-optional-locks", "status", "--porcelain"))
    return ask


def names(ask: Ask) -> set[str]:
    return {str(node["uri"]).rpartition("/")[2] for node in ask.get(uris=["a", "b"])["nodes"]}


def test_undo_within_a_moment_of_a_save_undoes_the_save(told: Ask, ws: Workspace) -> None:
    file = ws.layout.work_tree / "nodes/concept/a.yaml"
    file.write_text(file.read_text().replace("one", "by hand"))
    assert told.undo()["reverted"]["message"] == "edit concept://shop/a by hand"
    assert told.get(uris="a")["nodes"][0]["summary"] == "one"
    assert names(told) == {"a", "b"}
    assert not told.conflicts()["conflicts"]
