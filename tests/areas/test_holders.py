"""Whoever holds a token works on the areas of their paths, and the others are as if they were not there."""

from __future__ import annotations

from typing import Any

import pytest

from kgd.errors import Forbidden, KgdError, NotFound
from kgd.model.access import Principal, Scope
from kgd.tools import TOOLS
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.areas.conftest import Ask

TASK = "https://tracker.example/1"


def held(session: Session, verbs: str, *paths: str) -> Ask:
    principal = Principal("tok00001", "agent", "agent", (Scope.of("shop", verbs.split(","), paths),))
    return Ask(Session(session.daemon, client="claude", principal=principal))


@pytest.fixture
def areas(ask: Ask) -> Ask:
    ask.put(
        changes=[
            {"op": "upsert", "uri": "molecule://shop/secret/domain", "name": "Domain", "content": "zebra"},
            {
                "op": "upsert",
                "uri": "atom://shop/pay/bus",
                "name": "Bus",
                "data": {"paths": ["bus/**"], "moleculeId": "molecule://shop/secret/domain"},
                "relations": [{"type": "related_to", "target": "atom://shop/secret/x", "data": {"reason": "zebra"}}],
            },
            {"op": "upsert", "uri": "atom://shop/secret/x", "name": "X", "content": "zebra", "data": {"paths": ["**"]}},
            {"op": "upsert", "uri": "task://shop/secret/t", "name": "T"},
            {"op": "upsert", "uri": TASK},
        ]
    )
    return ask


def test_a_holder_sees_the_areas_of_their_paths_alone(areas: Ask, session: Session) -> None:
    assert all(TOOLS[name].scope for name in ("query_graph", "manage_graph", "manage_changelog"))
    mine = held(session, "read", "/pay/**")
    found = mine.query_graph(operation="context", paths="bus/a.py,other.py")["data"]
    assert found["molecules"] == []
    assert [(one["name"], one["relatedAtoms"]) for one in found["orphanAtoms"]] == [("Bus", [])]
    assert found["unmatchedPaths"] == ["other.py"]
    got = mine.query_graph(operation="get", entityType="atom", id="pay/bus")["data"]["atom"]
    assert (got["moleculeId"], got["relatedAtoms"]) == (None, [])
    for extra in ({}, {"query": "zebra"}, {"orphansOnly": True}):
        listed = mine.query_graph(operation="search", entityType="atom", **extra)["data"]
        assert [one["id"] for one in listed["atoms"]] == ([] if "query" in extra else ["atom://shop/pay/bus"])
        assert listed["total"] == len(listed["atoms"])
    for id in ("secret/x", "secret/nothing"):
        with pytest.raises(Forbidden):
            mine.query_graph(operation="get", entityType="atom", id=id)
        with pytest.raises(Forbidden):
            mine.manage_changelog(operation="search", parentType="atom", parentId=id)
    assert "zebra" not in str(found) + str(got)


def test_a_holder_writes_to_the_areas_of_their_paths_alone(areas: Ask, session: Session, ws: Workspace) -> None:
    mine = held(session, "read,write", "/pay/**", "/https/**")
    update = {"operation": "update", "entityType": "atom", "id": "pay/bus", "version": 1, "lastTaskId": TASK}
    assert mine.manage_graph(**update, knowledge="Known.")["data"]["atom"]["version"] == 2
    log = {"operation": "append", "parentType": "atom", "taskId": TASK, "summary": "why"}
    mine.manage_changelog(**log, parentId="pay/bus")
    tip = ws.tip
    refused: list[tuple[type[KgdError], str, dict[str, Any]]] = [
        (Forbidden, "manage_graph", {**update, "id": "secret/x"}),
        (Forbidden, "manage_graph", {**update, "id": "secret/nothing"}),
        (Forbidden, "manage_graph", {**update, "version": 2, "moleculeId": "molecule://shop/secret/domain"}),
        (Forbidden, "manage_graph", {**update, "version": 2, "lastTaskId": "secret/t"}),
        (Forbidden, "manage_graph", {**update, "version": 2, "lastTaskId": "secret/nothing"}),
        (NotFound, "manage_graph", {**update, "id": "pay/nothing"}),
        (
            Forbidden,
            "manage_graph",
            {"operation": "create", "entityType": "atom", "name": "Top", "paths": ["a"], "createdByTaskId": TASK},
        ),
        (
            Forbidden,
            "manage_graph",
            {"operation": "delete", "entityType": "molecule", "id": "secret/domain", "version": 1},
        ),
        (Forbidden, "manage_changelog", {**log, "parentId": "secret/x"}),
        (Forbidden, "manage_changelog", {**log, "parentId": "secret/nothing"}),
    ]
    for kind, tool, arguments in refused:
        with pytest.raises(kind):
            getattr(mine, tool)(**arguments)
    assert ws.tip == tip
    reader = held(session, "read", "/pay/**", "/https/**")
    with pytest.raises(Forbidden):
        reader.manage_graph(**{**update, "version": 2})
