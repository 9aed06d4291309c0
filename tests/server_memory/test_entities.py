"""Entities are ordinary nodes: changes by other tools, people and tokens are visible here, and the reverse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kgd.errors import KgdError, Limit, NotFound
from kgd.exchange import entities
from kgd.model.uri import Uri
from kgd.tools import EVERY, TOOLSETS, call, chosen
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace
from tests.server_memory.script import UNUSUAL, entity, relation
from tests.surfaces.conftest import Ask, upsert


def names(graph: dict[str, Any]) -> list[str]:
    return [one["name"] for one in graph["entities"]]


def triples(graph: dict[str, Any]) -> set[tuple[str, str, str]]:
    return {(one["from"], one["relationType"], one["to"]) for one in graph["relations"]}


def test_an_entity_is_found_traversed_and_read_by_the_other_tools(ask: Ask) -> None:
    ask.create_entities(entities=[entity("Ann Lee", "person", "Knows the ledger by heart"), entity("ledger")])
    ask.create_relations(relations=[relation("Ann Lee", "ledger", "maintains")])
    hits = ask.search(query="heart")["hits"]
    assert [hit["uri"] for hit in hits] == ["entity://shop/Ann%20Lee", "entity://shop/ledger"]
    assert hits[1]["path"] == [hit["uri"] for hit in hits]
    (node,) = ask.get(uris=["entity://shop/Ann%20Lee"], include=["content", "relations"])["nodes"]
    assert (node["type"], node["name"]) == ("person", "Ann Lee")
    assert node["data"]["observations"] == ["Knows the ledger by heart"]
    walked = ask.traverse(start=["entity://shop/Ann%20Lee"])["nodes"]
    assert [one["uri"] for one in walked] == ["entity://shop/Ann%20Lee", "entity://shop/ledger"]


@pytest.mark.parametrize("query", ["runbook first", "org/runb", "https://", "see the"])
def test_any_part_of_an_observation_with_an_address_is_found_by_the_first_query(ask: Ask, query: str) -> None:
    said = ["See the https://example.org/runbook first", "https://example.org/runbook"]
    ask.create_entities(entities=[entity("Ann", "person", said[0]), entity("Bob", "person", said[1])])
    having = [name for name, text in zip(("Ann", "Bob"), said, strict=True) if query in text.lower()]
    assert names(ask.search_nodes(query=query)) == having


def test_entities_written_by_put_are_found_by_name(ask: Ask) -> None:
    ask.put(
        changes=[
            {"op": "upsert", "type": "entity", "name": "Ann Lee", "data": {"observations": ["Likes tea"]}},
            upsert("entity://shop/people/bob", type="person", name="Bob", data={"observations": ["Likes rye"]}),
            {
                "op": "relate",
                "source": "entity://shop/people/bob",
                "target": "entity://shop/Ann%20Lee",
                "type": "knows",
            },
        ]
    )
    assert names(ask.search_nodes(query="likes")) == ["Ann Lee", "Bob"]
    assert triples(ask.open_nodes(names=["Bob"])) == {("Bob", "knows", "Ann Lee")}
    ask.add_observations(observations=[{"entityName": "Bob", "contents": ["Bakes"]}])
    assert ask.search_nodes(query="bakes")["entities"][0]["observations"] == ["Likes rye", "Bakes"]
    assert ask.create_entities(entities=[entity("Bob", "person")])["entities"] == []
    ask.delete_entities(entityNames=["Bob"])
    assert ask.get(uris=["entity://shop/people/bob"])["missing"]
    assert ask.read_graph()["relations"] == []


def test_search_keeps_step_with_every_way_of_writing(ask: Ask, ws: Workspace) -> None:
    ask.create_entities(entities=[entity("moved", "thing", "a needle")])
    assert names(ask.search_nodes(query="needle")) == ["moved"]
    ask.put(changes=[{"op": "move", "uri": "entity://shop/moved", "to": "entity://shop/there"}])
    assert names(ask.search_nodes(query="a need")) == ["moved"]
    assert names(ask.open_nodes(names=["moved"])) == ["moved"]
    ask.put(changes=[upsert("entity://shop/there", data={"observations": ["a pin"]})])
    assert names(ask.search_nodes(query="needle")) == []
    assert names(ask.search_nodes(query="PIN")) == ["moved"]
    ask.revert(commit=ask.history(uri="entity://shop/there", limit=1)["commits"][0]["commit"])
    assert names(ask.search_nodes(query="needle")) == ["moved"]
    ask.put(changes=[{"op": "delete", "uri": "entity://shop/there"}])
    assert names(ask.search_nodes(query="needle")) == []


def test_a_piece_of_any_length_is_found_in_name_type_and_observations(ask: Ask) -> None:
    texts = {
        f"n{number}": f'Text {number} of pile {number % 7},\tword{number * 31 % 101}-Ünd "q"' for number in range(60)
    }
    ask.create_entities(entities=[entity(name, "TYPE%", "other", text) for name, text in texts.items()])
    for asked in (
        "t 17",
        "pile 3,",
        "WORD9",
        "ünd",
        "7 of p",
        "d 12",
        "",
        " ",
        "\t",
        "nowhere",
        'ÜND "',
        "e",
        "q",
        "type%",
    ):
        having = {key for key, text in texts.items() if asked.lower() in f"{key}\nTYPE%\nother\n{text}".lower()}
        assert set(names(ask.search_nodes(query=asked))) == having, asked
    for text in list(texts.values())[:9]:
        for begin in range(0, len(text), 7):
            for asked in (text[begin : begin + 12], text[begin:]):
                having = {key for key, text in texts.items() if asked.lower() in text.lower()}
                assert set(names(ask.search_nodes(query=asked))) >= having, asked


@pytest.mark.parametrize("name", UNUSUAL)
def test_every_name_has_a_place_of_its_own_and_comes_back(name: str) -> None:
    literal, hashed = entities.literal_uri("shop", name), entities.hashed_uri("shop", name)
    assert literal is None or entities.spelt_name(literal) == name
    known = {uri for other in UNUSUAL for uri in entities.uris_of("shop", other)}
    for uri in {*known, Uri("entity://shop/~tilde"), Uri("entity://shop/a/b/c"), Uri("entity://shop/people/bob")}:
        assert entities.is_usual(uri, "shop", name) == (uri in entities.uris_of("shop", name))
    assert len({entities.uris_of("shop", other) for other in UNUSUAL}) == len(UNUSUAL)
    assert hashed not in {entities.literal_uri("shop", other) for other in UNUSUAL}


def test_two_names_that_differ_by_case_alone_are_two_entities(ask: Ask) -> None:
    ask.create_relations(relations=[relation("auth", "x")])
    ask.create_entities(entities=[entity("Auth", "a"), entity("auth", "b"), entity("AUTH", "c")])
    assert [one["entityType"] for one in ask.read_graph()["entities"]] == ["a", "b", "c"]
    assert triples(ask.open_nodes(names=["auth"])) == {("auth", "knows", "x")}
    assert triples(ask.open_nodes(names=["Auth"])) == set()


def test_a_relation_from_a_missing_entity_is_kept_in_a_hidden_node(ask: Ask) -> None:
    ask.create_relations(relations=[relation("ghost", "house", "haunts")])
    (node,) = ask.get(uris=["entity://shop/ghost"])["nodes"]
    assert node["data"] == {"implied": True}
    assert names(ask.read_graph()) == names(ask.search_nodes(query="ghost")) == []
    ask.delete_relations(relations=[relation("ghost", "house", "haunts")])
    assert ask.get(uris=["entity://shop/ghost"])["missing"]


def test_relations_of_other_nodes_go_with_the_entity_they_lead_to(ask: Ask) -> None:
    ask.create_entities(entities=[entity("ledger")])
    ask.put(changes=[upsert("rule", relations=[{"type": "about", "target": "entity://shop/ledger"}])])
    ask.delete_entities(entityNames=["ledger"])
    (node,) = ask.get(uris=["concept://shop/rule"], include=["relations"])["nodes"]
    assert "relations" not in node


def test_each_call_is_a_commit_that_names_the_call(ask: Ask, ws: Workspace) -> None:
    before = ws.tip
    ask.create_entities(entities=[entity("a"), entity("b")])
    ask.add_observations(observations=[{"entityName": "a", "contents": ["x"]}, {"entityName": "b", "contents": ["y"]}])
    newest = ws.history.entries(limit=2)
    assert [one.operation for one in newest] == ["add_observations", "create_entities"]
    assert newest[1].subject == "create entities: entity://shop/a and 1 more"
    assert newest[1].parents == (before,)
    tip = ws.tip
    ask.create_entities(entities=[entity("a")])
    ask.delete_entities(entityNames=["nobody"])
    ask.add_observations(observations=[{"entityName": "a", "contents": ["x"]}])
    assert ws.tip == tip


def test_a_call_whose_entity_changes_meanwhile_reads_it_again(
    session: Session, ask: Ask, ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask.create_entities(entities=[entity("a", "t", "first")])
    submit, interrupted = Session.submit, list[bool]()

    def interrupt(self: Session, workspace: Workspace, changes: Any, **options: Any) -> Any:
        if not interrupted:
            interrupted.append(True)
            other = {"op": "upsert", "uri": "entity://shop/a", "data": {"observations": ["first", "between"]}}
            call(session, "put", {"changes": [other]})
        return submit(self, workspace, changes, **options)

    monkeypatch.setattr(Session, "submit", interrupt)
    ask.add_observations(observations=[{"entityName": "a", "contents": ["last"]}])
    assert ask.open_nodes(names=["a"])["entities"][0]["observations"] == ["first", "between", "last"]


def test_a_call_that_is_refused_leaves_nothing(ask: Ask, ws: Workspace) -> None:
    tip = ws.tip
    with pytest.raises(KgdError):
        ask.create_entities(entities=[entity("good"), entity("bad", "note", "y" * 300_000)])
    assert ws.tip == tip
    assert names(ask.read_graph()) == []


def test_an_answer_is_whole_or_refused(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kgd.tools.server_memory.calls.WHOLE_LIMIT", 20_000)
    ask.create_entities(entities=[entity(f"e{n}", "t", "word " * 200) for n in range(30)])
    assert names(ask.search_nodes(query="e17")) == ["e17"]
    with pytest.raises(Limit) as refused:
        ask.read_graph()
    assert EVERY["read_graph"].refusal(refused.value).text.startswith("LIMIT: ")
    few = ask.open_nodes(names=[f"e{n}" for n in range(19)])
    with pytest.raises(Limit):
        EVERY["open_nodes"].text(few)


def test_observations_of_two_people_merge_without_a_conflict() -> None:
    from kgd.model.merge import merge
    from kgd.model.node import Node

    uri = Uri("entity://shop/a")

    def made(at: int, *said: str) -> Node:
        link = entities.Link("a", "b", "knows", at)
        fields = entities.entity_fields(entities.Entity("a", "t", said, at))
        data = {key: value for key, value in fields.pop("data").items() if value is not None}
        return Node(uri, relations=(entities.relation_to(Uri("entity://shop/b"), link),), data=data, **fields)

    merged = merge(None, made(7, "x", "mine"), made(9, "x", "yours"))
    assert merged.conflict is None
    assert merged.node is not None
    found = entities.entity_in(merged.node)
    assert (set(found.observations), found.added) == ({"x", "mine", "yours"}, 7)


def test_a_client_outside_a_workspace_gets_an_error_that_shows_how_to_name_one(
    session: Session, tmp_path: Path
) -> None:
    elsewhere = Session(session.daemon, cwd=tmp_path, client="test", context_id="elsewhere")
    with pytest.raises(NotFound, match="kgd mcp -C"):
        call(elsewhere, "create_entities", {"entities": [entity("a")]})


def test_the_toolset_is_offered_beside_the_usual_tools_or_alone() -> None:
    assert set(TOOLSETS["server-memory"]) < set(chosen("server-memory"))
    assert chosen("only:server-memory") == TOOLSETS["server-memory"]
    assert not set(TOOLSETS["server-memory"]) & set(chosen(""))


def test_an_answer_has_the_present_state_of_nodes_read_before(ask: Ask) -> None:
    ask.create_entities(entities=[entity("Ann", "person", "likes tea"), entity("Bob", "person")])
    ask.create_relations(relations=[relation("Ann", "Bob"), relation("Bob", "Ann", "trusts")])
    before = ask.search_nodes(query="tea")
    assert ask.search_nodes(query="tea") == before
    ask.put(
        changes=[
            {"op": "upsert", "uri": "entity://shop/Bob", "name": "Robert"},
            {"op": "upsert", "uri": "entity://shop/Ann", "data": {"observations": ["likes tea", "and rain"]}},
        ]
    )
    after = ask.search_nodes(query="tea")
    assert after["entities"] == [{"name": "Ann", "entityType": "person", "observations": ["likes tea", "and rain"]}]
    assert [(one["from"], one["to"]) for one in after["relations"]] == [("Ann", "Robert"), ("Robert", "Ann")]
    ask.put(changes={"op": "delete", "uri": "entity://shop/Ann"})
    assert ask.search_nodes(query="tea") == {"entities": [], "relations": []}
