"""Mentions through the tools: found by search, walked along, listed of a node, hidden from who may not read an end."""

from __future__ import annotations

import pytest

from kgd.model.access import Principal, Scope, Verb
from kgd.tools import call
from kgd.tools.session import Session
from tests.surfaces.conftest import Ask, ask, code, daemon, session, upsert, ws

__all__ = ["ask", "code", "daemon", "session", "ws"]

MENTIONS = "MENTIONS"


def reader(session: Session) -> Session:
    """Somebody whose token is for services and pages alone."""
    scope = Scope.of("shop", [Verb.READ], ["/services/**", "/pages/**"])
    return Session(session.daemon, principal=Principal("t1", "Rea", "person", (scope,)))


@pytest.fixture
def told(ask: Ask) -> Ask:
    ask.put(
        changes=[
            upsert("services/auth", name="Auth service", content="Issues tokens."),
            upsert("pages/checkout", name="Checkout page", content="Asks the auth service before it pays."),
            upsert("secret/plan", name="Plan", content="The Auth Service is to be replaced."),
            upsert("notes/login", name="Login", content="See src/auth/session.py and concept://shop/services/auth."),
        ]
    )
    return ask


def test_a_walk_goes_along_mentions_where_it_is_asked_to_and_only_there(told: Ask) -> None:
    plain = told.traverse(start="pages/checkout", direction="both")
    assert "concept://shop/services/auth" not in {node["uri"] for node in plain["nodes"]}
    walked = told.traverse(start="pages/checkout", edge_types=[MENTIONS], direction="both", max_cost=2, include="edges")
    found = {node["uri"]: node.get("via") for node in walked["nodes"]}
    assert found["concept://shop/services/auth"] == {"from": "concept://shop/pages/checkout", "type": MENTIONS}
    assert "concept://shop/notes/login" in found
    assert {edge["type"] for edge in walked["edges"]} == {MENTIONS}


def test_a_node_lists_its_mentions_in_both_directions_on_request(told: Ask) -> None:
    [node] = told.get(uris="services/auth", include=["mentions"])["nodes"]
    assert node["mentions"] == {
        "out": [],
        "more": 0,
        "into": ["concept://shop/notes/login", "concept://shop/pages/checkout", "concept://shop/secret/plan"],
    }
    [node] = told.get(uris="notes/login", include=["mentions"])["nodes"]
    assert node["mentions"]["out"] == ["concept://shop/services/auth", "file://shop/src/auth/session.py"]
    [file] = told.get(uris="src/auth/session.py", include=["mentions"])["nodes"]
    assert file["mentions"]["into"] == ["concept://shop/notes/login"]
    assert "mentions" not in told.get(uris="services/auth")["nodes"][0]


def test_search_finds_mentioned_nodes_and_explains_it(told: Ask) -> None:
    found = told.search(query="pays checkout", include="edges")
    reached = {hit["uri"]: hit for hit in found["hits"]}["concept://shop/services/auth"]
    assert any(MENTIONS in line for line in reached["why"])
    assert reached["path"] == ["concept://shop/pages/checkout", "concept://shop/services/auth"]
    link = ("concept://shop/pages/checkout", "concept://shop/services/auth", MENTIONS)
    assert link in {(edge["source"], edge["target"], edge["type"]) for edge in found["edges"]}


def test_a_token_sees_only_mentions_between_readable_nodes(told: Ask, session: Session) -> None:
    [node] = call(reader(session), "get", {"uris": "concept://shop/services/auth", "include": ["mentions"]})["nodes"]
    assert node["mentions"]["into"] == ["concept://shop/pages/checkout"]
    walked = call(
        reader(session),
        "traverse",
        {
            "start": "concept://shop/services/auth",
            "edge_types": [MENTIONS],
            "direction": "both",
            "max_cost": 3,
        },
    )
    assert [n["uri"] for n in walked["nodes"]] == ["concept://shop/services/auth", "concept://shop/pages/checkout"]
