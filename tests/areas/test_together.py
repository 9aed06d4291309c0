"""Two people work on one area without seeing each other, and nothing is lost or disputed when they meet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sync.conftest import ann, bob, hub, person
from tests.sync.people import Person

__all__ = ["ann", "bob", "hub", "person"]
TASK = "https://tracker.example/"


def update(who: Person, kind: str, id: str, version: int, task: str, **fields: Any) -> dict[str, Any]:
    given = {"operation": "update", "entityType": kind, "id": id, "version": version, "lastTaskId": TASK + task}
    return dict(who.call("manage_graph", **given, **fields)["data"][kind])


def create(who: Person, kind: str, name: str, **fields: Any) -> str:
    given = {"operation": "create", "entityType": kind, "name": name, "createdByTaskId": TASK + "0"}
    return str(who.call("manage_graph", **given, **fields)["data"][kind]["id"])


def log(who: Person, kind: str, id: str, summary: str) -> None:
    who.call("manage_changelog", operation="append", parentType=kind, parentId=id, taskId=TASK + "1", summary=summary)


def got(who: Person, kind: str, id: str) -> dict[str, Any]:
    return dict(who.call("query_graph", operation="get", entityType=kind, id=id)["data"][kind])


@pytest.mark.slow
@pytest.mark.requirement("A3")
@pytest.mark.requirement("A8")
def test_two_people_append_to_one_area_and_its_changelog(
    ann: Person, bob: Person, hub: Path, person: Callable[..., Person]
) -> None:
    bus = create(ann, "atom", "Bus", paths='["bus/**"]', knowledge="Carries events.")
    empty = create(ann, "molecule", "Empty")
    other = create(ann, "atom", "Other", paths='["other/**"]')
    ann.share(hub)
    ann.sync()
    bob.share(hub)
    bob.sync()
    for who, word in ((ann, "ann"), (bob, "bob")):
        update(
            who,
            "atom",
            bus,
            1,
            word,
            knowledge=f"{word} was here.",
            knowledgeMode="append",
            paths=f'["bus/**", "{word}/**"]',
        )
        update(who, "molecule", empty, 1, word, knowledge=f"{word} began it.", knowledgeMode="append")
        log(who, "atom", bus, f"by {word}")
    update(ann, "atom", other, 1, "x", relatedAtoms=[{"atomId": bus, "reason": "for ann"}])
    update(bob, "atom", other, 1, "y", relatedAtoms=[{"atomId": bus, "reason": "for ann"}], knowledge="Other.")
    for who in (ann, bob, ann):
        who.sync()

    assert ann.tip == bob.tip
    assert ann.call("conflicts")["conflicts"] == []
    for who in (ann, bob):
        atom, molecule = got(who, "atom", bus), got(who, "molecule", empty)
        assert atom["knowledge"].startswith("Carries events.\n\n---[")
        for word in ("ann", "bob"):
            assert f"task:{TASK}{word}]---\n{word} was here." in atom["knowledge"]
            assert f"task:{TASK}{word}]---\n{word} began it." in molecule["knowledge"]
        assert set(atom["paths"]) == {"bus/**", "ann/**", "bob/**"}
        assert {entry["summary"] for entry in atom["changelog"]} == {"by ann", "by bob"}
        assert atom["lastTaskId"] == f"{TASK}bob"
        found = who.call("query_graph", operation="context", paths="ann/x.py,bob/y.py")["data"]
        assert found["orphanAtoms"][0]["matchedPaths"] == ["ann/x.py", "bob/y.py"]
    assert got(bob, "atom", other)["knowledge"] == "Other."
