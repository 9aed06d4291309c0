"""A token holder sees and completes the tasks in scope, and learns nothing of others."""

from __future__ import annotations

from typing import Any

import pytest

from kgd.errors import Forbidden, NotFound
from kgd.model.access import Principal, Scope
from kgd.tools import TOOLSETS, chosen
from kgd.tools.hubs import token_calls
from kgd.tools.session import Session
from tests.tasks.conftest import Ask

LEARNED = {"Gotchas": "Stripe retries for three days", "Handoff Notes": "see the handlers"}


@pytest.fixture
def holder(session: Session) -> Session:
    scope = Scope.of("shop", ["read", "write"], ["/payments/**", "/src/**"])
    principal = Principal("tok00001", "billing-agent", "agent", (scope,))
    return Session(session.daemon, client="claude", principal=principal)


def as_holder(holder: Session, tool: str, **arguments: Any) -> dict[str, Any]:
    return dict(TOOLSETS["tasks"][tool].call(holder, arguments)["data"])


@pytest.fixture
def tasks(ask: Ask) -> Ask:
    ask.put(
        changes=[
            {
                "op": "upsert",
                "uri": "task://shop/payments/fix",
                "name": "Fix",
                "data": {"sections": {"Objective": "webhooks", "Context Files": "src/checkout.py"}},
                "relations": [{"type": "depends_on", "target": "task://shop/secret/plan"}],
            },
            {"op": "upsert", "uri": "task://shop/secret/plan", "name": "Plan the webhooks"},
            {"op": "upsert", "uri": "atom://shop/secret", "name": "Secret", "data": {"paths": ["src/**"]}},
        ]
    )
    return ask


def test_a_holder_completes_a_readable_task_and_its_lessons_lie_beside_it(tasks: Ask, holder: Session) -> None:
    shown = as_holder(holder, "query_container", operation="get", id="payments/fix", includeGraphContext=True)
    assert shown["task"]["dependsOn"] == []
    assert shown["graphContext"] == {"molecules": [], "orphanAtoms": [], "unmatchedPaths": ["src/checkout.py"]}
    as_holder(holder, "advance", id="payments/fix", version=1)
    done = as_holder(holder, "advance", id="payments/fix", version=2, sections=LEARNED)
    (one,) = done["recorded"]
    assert one["id"].startswith("gotcha://shop/payments/stripe-retries")
    (task,) = tasks.get(uris=["task://shop/payments/fix"])["nodes"]
    assert ("depends_on", "task://shop/secret/plan") in [(one["type"], one["target"]) for one in task["relations"]]


def test_unreadable_tasks_look_like_missing_tasks(tasks: Ask, holder: Session) -> None:
    for query in ({}, {"query": "webhooks"}):
        listed = as_holder(holder, "query_container", operation="search", **query)
        assert ([one["name"] for one in listed["tasks"]], listed["total"]) == (["Fix"], 1)
    for tool, arguments in (("query_container", {"operation": "get"}), ("advance", {"version": 1})):
        for id in ("secret/plan", "secret/never-was"):
            with pytest.raises(Forbidden):
                as_holder(holder, tool, id=f"task://shop/{id}", **arguments)
    tasks.put(changes=[{"op": "move", "uri": "task://shop/payments/fix", "to": "task://shop/secret/fix"}])
    with pytest.raises((NotFound, Forbidden), match=r"no such task|may not read") as refused:
        as_holder(holder, "query_container", operation="get", id="payments/fix")
    assert "secret" not in str(refused.value)


def test_recorded_facts_do_not_reveal_hidden_files(tasks: Ask, session: Session) -> None:
    """A citation would reveal an existing file to a holder who may not see the file."""
    scope = Scope.of("shop", ["read", "write"], ["/payments/**"])
    holder = Session(session.daemon, principal=Principal("tok00002", "agent", "agent", (scope,)))
    gotchas = "src/auth/keys.py: kept a year\nsrc/auth/never.py: kept a year and a day\nzebras bite"
    tasks.put(changes=[{"op": "upsert", "uri": "gotcha://shop/zebras-bite", "summary": "zebras bite"}])
    as_holder(holder, "advance", id="payments/fix", version=1)
    done = as_holder(holder, "advance", id="payments/fix", version=2, sections={"Gotchas": gotchas})
    nodes = tasks.get(uris=[one["id"] for one in done["recorded"]])["nodes"]
    assert len(nodes) == 3
    for node in [*nodes, *tasks.get(uris=["task://shop/payments/fix"])["nodes"]]:
        assert "cites" not in node.get("data", {})
        assert not [one for one in node["relations"] if one["type"] == "about"]


def test_a_hub_with_the_toolset_offers_it_to_holders(holder: Session) -> None:
    assert holder.principal is not None
    offered = token_calls.visible(chosen("tasks"), holder.principal)
    assert {"query_container", "advance"} <= set(offered)
