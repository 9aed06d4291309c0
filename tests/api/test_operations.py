"""The operations of the unified graph in Python: the same in process, through a daemon, and while one comes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kgd
from kgd.model.node import edge_id
from tests.api.conftest import Turn


@pytest.mark.slow
@pytest.mark.requirement("U1")
@pytest.mark.requirement("U2")
@pytest.mark.requirement("U3")
def test_a_graph_is_built_read_changed_and_deleted_on_every_surface(turn: Turn, ws: kgd.Workspace, code: Path) -> None:
    auth = ws.create_node(
        "concept",
        "auth",
        namespace="services",
        summary="Issues tokens",
        content="Tokens last 15 minutes.\n",
        tags=["security"],
        data={"tier": 1, "deep": {"a": [1, None]}},
        source=("document", "handbook"),
    )
    assert auth.uri == "concept://shop/services/auth"
    assert (auth.namespace, auth.version, auth.trust) == ("services", 1, "local")
    assert auth.content == "Tokens last 15 minutes.\n"
    assert (auth.data, auth.source) == ({"tier": 1, "deep": {"a": [1, None]}}, kgd.Source("document", "handbook"))
    assert "Ann Person (python)" in auth.created_by
    turn()

    # Names need not be unique; a URI of one's own must be free.
    again, message = ws.create_nodes(
        [kgd.NewNode("concept", "auth", "services"), kgd.NewNode("message", "user:1", "thread-1", content="hello")]
    )
    assert (again.uri, message.uri) == ("concept://shop/services/auth-2", "message://shop/thread-1/user:1")
    with pytest.raises(kgd.Stale) as stale:
        ws.create_node("concept", "Auth", uri="concept://shop/services/auth")
    assert (stale.value.code, stale.value.current) == ("CONFLICT", 1)
    turn()

    # A batch is one commit, and of a batch that is wrong nothing is written.
    before = ws.history(limit=1)[0].commit
    with pytest.raises(kgd.KgdError) as refused:
        ws.create_nodes([kgd.NewNode("concept", "fine"), kgd.NewNode("concept", "x", summary="s" * 101)])
    assert refused.value.at.startswith("nodes[1]")
    assert ws.history(limit=1)[0].commit == before
    assert ws.get_node("concept://shop/fine") is None

    # Edges
    uses, of = ws.create_edges(
        [kgd.NewEdge(auth.uri, again.uri, "uses", 0.25, {"strength": 3}), kgd.NewEdge(message.uri, auth.uri, "ABOUT")]
    )
    assert (uses.weight, uses.data, uses.id) == (0.25, {"strength": 3}, edge_id(auth.uri, again.uri, "uses"))
    assert (of.weight, of.data, of.broken) == (1.0, {}, False)
    assert ws.history(limit=1)[0].nodes == (auth.uri, message.uri)
    assert ws.get_edges(auth, "out") == [uses]
    assert ws.get_edges(auth, "in") == [of]
    assert ws.get_edges(auth) == [uses, of]
    assert ws.get_edges(auth, edge_types=["ABOUT"]) == [of]
    heavier = ws.create_edge(auth, again, "uses", weight=0.5)
    assert (heavier.weight, heavier.data, heavier.id) == (0.5, {"strength": 3}, uses.id)
    with pytest.raises(kgd.NotFound):
        ws.create_edge("concept://shop/nobody", auth, "uses")
    turn()

    # Updates name what changes
    changed = ws.update_node(auth, tags=["tokens", "security"], data={"tier": None, "new": "x"}, content="Now 20.\n")
    assert (changed.tags, changed.content, changed.summary) == (("security", "tokens"), "Now 20.\n", "Issues tokens")
    assert changed.data == {"deep": {"a": [1, None]}, "new": "x"}
    assert ws.update_node(auth, tags=[]).tags == ()
    with pytest.raises(kgd.Stale):
        ws.update_node(auth, summary="late", expect_version=auth.version)
    with pytest.raises(kgd.NotFound):
        ws.update_node("concept://shop/nobody", summary="s")
    with pytest.raises(kgd.NotFound, match="molecule"):  # as `put` refuses it
        ws.create_node("atom", "cart", data={"moleculeId": "molecule://shop/none"})
    turn()

    # Lists
    assert [node.uri for node in ws.nodes("services")] == [auth.uri, again.uri]
    assert {node.uri for node in ws.nodes()} == {auth.uri, again.uri, message.uri}
    assert [node.content for node in ws.nodes(types=["message"])] == [None]
    assert [node.content for node in ws.nodes("thread-1", content=True)] == ["hello"]
    assert [node.uri for node in ws.nodes_by_source("document")] == [auth.uri]
    assert list(ws.nodes_by_source("document", "other")) == []
    assert [node.name for node in ws.get_nodes([message, "concept://shop/nobody", auth])] == ["user:1", "auth"]

    # The code tree is in it too.
    served = ws.get_node("./src/checkout.py")
    assert served is not None
    assert (served.uri, served.version, served.data["extension"]) == ("file://shop/src/checkout.py", 0, ".py")
    inside = next(edge for edge in ws.get_edges(served, "in") if edge.source == "dir://shop/src")
    assert (inside.type, inside.derived) == ("contains", True)
    ws.update_node(again, content="Asks auth, see [[services/auth]] and concept://shop/services/auth.")
    mentions = ws.get_edges(again, "out", edge_types=["MENTIONS"])
    assert [(edge.target, edge.derived) for edge in mentions] == [(auth.uri, True)]

    # Taken apart: what leaves a node goes with it, what leads to it is a broken link.
    ws.delete_edge(uses.id)
    with pytest.raises(kgd.NotFound):
        ws.delete_edge(uses)
    assert ws.get_edges(auth, "out") == []
    ws.create_edge(auth, again, "uses")
    ws.delete_node(auth)
    assert ws.get_node(auth) is None
    assert [(edge.type, edge.broken) for edge in ws.get_edges(message)] == [("ABOUT", True)]
    assert ws.get_edges(again) == []
    with pytest.raises(kgd.NotFound):
        ws.delete_node(auth)
    assert ws.delete_edges_for_node(message) == 1
    assert ws.get_edges(message) == []
    assert json.loads(json.dumps([node.as_dict() for node in ws.nodes(content=True)]))[1]["content"] == "hello"
