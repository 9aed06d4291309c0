"""Questions in Python: retrieval with paths, walks, tags, context and history."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

import kgd
from tests.api.conftest import Turn


@pytest.fixture
def shop(ws: kgd.Workspace) -> kgd.Workspace:
    """Three services in a row, a decision about one of them, and the chunks of a document."""
    auth, keys, vault = ws.create_nodes(
        [
            kgd.NewNode("concept", "auth", "services", summary="Issues session tokens", content="Tokens are renewed."),
            kgd.NewNode("concept", "keys", "services", summary="Holds signing keys"),
            kgd.NewNode("concept", "vault", "services", summary="Sealed storage"),
        ]
    )
    ws.create_edges([kgd.NewEdge(auth.uri, keys.uri, "uses", 0.5), kgd.NewEdge(keys.uri, vault.uri, "uses", 0.5)])
    ws.create_nodes(
        [
            kgd.NewNode("decision", "rotation", summary="Keys rotate weekly", tags=["security", "keys"]),
            kgd.NewNode("gotcha", "clock", summary="Clocks drift", tags=["security"], content="By up to a minute."),
            kgd.NewNode("chunk", "1", "handbook", content="Refunds are paid within a week.", data={"heading": ["Pay"]}),
            kgd.NewNode("chunk", "2", "handbook", content="Parcels travel by train."),
        ]
    )
    return ws


@pytest.mark.slow
@pytest.mark.requirement("M10")
@pytest.mark.requirement("U5")
def test_questions_have_the_same_answers_on_every_surface(turn: Turn, shop: kgd.Workspace) -> None:
    turn()
    found = shop.retrieve("session tokens", namespace="services")
    assert [node.name for node in found.nodes][:2] == ["auth", "keys"]
    assert found.nodes[0].content is None  # full text only when asked for
    assert [path.uri for path in found.paths] == [node.uri for node in found.nodes]
    assert found.paths[0].uris == (found.nodes[0].uri,)
    assert found.paths[1].seed == found.nodes[0].uri
    assert found.paths[1].uris == (found.nodes[0].uri, found.nodes[1].uri)
    assert all(0 < path.score <= 1 and path.why for path in found.paths)
    assert ("uses", 0.5) in {(edge.type, edge.weight) for edge in found.edges}
    seeds = shop.retrieve("session tokens", namespace="services", max_depth=0, content=True)
    assert [node.content for node in seeds.nodes] == ["Tokens are renewed."]
    assert (seeds.edges, len(seeds.paths)) == ((), 1)
    assert shop.retrieve("session tokens", node_types=["gotcha"], max_depth=0).nodes == ()
    turn()

    chunk = shop.search_chunks("refunds")[0]
    assert (chunk.uri, chunk.document) == ("chunk://shop/handbook/1", "document://shop/handbook")
    assert (chunk.content, chunk.data) == ("Refunds are paid within a week.", {"heading": ["Pay"]})
    text = shop.get_context("services", "session tokens")
    assert text.startswith("# auth (concept://shop/services/auth)\n\nTokens are renewed.\n")
    assert len(shop.get_context("services", "session tokens", max_characters=20)) == 20
    assert shop.get_context("services", "zebra") == ""
    turn()

    auth, keys, vault = (f"concept://shop/services/{name}" for name in ("auth", "keys", "vault"))
    assert [node.uri for node in shop.get_connected(auth)] == [keys]
    assert [node.uri for node in shop.get_connected(auth, 2)] == [keys, vault]
    assert shop.get_connected(vault, 2) == []
    assert [node.uri for node in shop.find_related(vault, 2)] == [keys, auth]
    assert [node.summary for node in shop.find_related(vault)] == ["Holds signing keys"]
    walk = shop.traverse([auth], max_cost=0.5)
    assert [(node.name, node.cost, len(node.path)) for node in walk.nodes] == [("auth", 0, 0), ("keys", 0.5, 1)]
    assert [edge.type for edge in walk.edges] == ["uses"]
    back = shop.traverse(vault, max_cost=None, direction="in").nodes[-1]
    assert back.path == (kgd.Step(vault, "uses", True), kgd.Step(keys, "uses", True))
    assert [node.uri for node in shop.path(vault, auth)] == [vault, keys, auth]
    assert shop.path(vault, auth)[-1].path == back.path
    assert shop.path(vault, auth, direction="out") == ()
    cut = shop.traverse(auth, max_cost=None, limit=2)
    assert (len(cut.nodes), [one.limit for one in cut.cut]) == (2, ["max_nodes"])
    with pytest.raises(kgd.NotFound):
        shop.traverse("concept://shop/nobody")

    tagged = shop.query_by_tags(["security", "keys"])
    assert [(node.name, node.content) for node in tagged] == [("rotation", None), ("clock", None)]
    assert [node.name for node in shop.query_by_tags("security", types=["gotcha"])] == ["clock"]
    context = shop.gather_context("rotate the signing keys")
    assert "Keys rotate weekly" in {item.summary for item in context.items}
    assert "Keys rotate weekly" in str(context)
    turn()

    shop.put(
        {"op": "append", "uri": auth, "text": "Twice a day."},
        {"op": "untag", "uri": "gotcha:clock", "tags": ["security"]},
        message="what the review said",
    )
    commit = shop.history(auth, limit=1, diff=True)[0]
    assert (commit.message, commit.client, len(commit.nodes)) == ("what the review said", "python", 1)
    assert "content" in commit.diff[0]["fields"]
    assert [one.operation for one in shop.history(limit=200)] == ["put"] * 4 + ["init"]
    with pytest.raises(kgd.Invalid):
        shop.retrieve("  ")


@pytest.mark.slow
def test_a_memory_has_its_detail_in_a_file(ws: kgd.Workspace) -> None:
    made = ws.create_node("decision", "rotation", summary="Keys rotate", tags=["Keys"], detail="# Why\n\nA leak.")
    assert (made.detail, made.tags) == ("# Why\n\nA leak.", ("keys",))
    assert made.data["file"].startswith("memories/")
    assert ws.update_node(made, detail="# Why\n\nTwo leaks.", tags=["KEYS", "law"]).tags == ("keys", "law")
    assert [node.detail for node in ws.nodes(content=True)] == ["# Why\n\nTwo leaks."]
    assert [node.detail for node in ws.nodes()] == [None]


@pytest.mark.slow
def test_a_change_with_a_request_id_is_applied_once(ws: kgd.Workspace) -> None:
    ws.create_node(uri="concept://shop/log")
    change = {"op": "append", "uri": "log", "text": "a line"}
    first = ws.put(change, request_id="r1")
    assert (first.created, first.versions, first.repeated) == ((), {"concept://shop/log": 2}, False)
    again = ws.put_many([change], request_id="r1")
    assert (again.commit, again.repeated) == (first.commit, True)
    assert ws.put(change, dry_run=True).commit is None
    assert ws.put(change, dry_run=True).dry_run
    found = ws.get_node("log")
    assert found is not None
    assert (found.content, found.version) == ("a line\n", 2)


@pytest.mark.slow
def test_long_texts_and_long_lists_come_whole_and_a_large_source_goes_in_one_call(ws: kgd.Workspace) -> None:
    """What a conversation is given is cut; a program gets every byte."""
    data = {"rows": [f"row {n}" for n in range(8_000)]}
    ws.create_node("concept", "large", content="word " * 20_000, data=data)
    found = ws.get_node("concept:large")
    assert found is not None
    assert (found.content, found.data) == ("word " * 20_000, data)
    source, uris = kgd.Source("document", "manual"), list[str]()
    for part in range(3):
        new = [kgd.NewNode("concept", f"{part}-{n}", "many", source=source) for n in range(750)]
        uris += [node.uri for node in ws.create_nodes(new)]
        ws.create_edges([kgd.NewEdge(uri, found.uri, "of", 0.5) for uri in uris[-750:]])
    other = ws.create_node("concept", "other", source=("document", "else"))
    assert len({edge.id for edge in ws.get_edges(found, "in")}) == 2_250
    assert [node.uri for node in ws.get_nodes(uris)] == uris
    assert len(ws.find_related(found)) == 2_250
    assert ws.delete_edges_for_node(found) == 2_250
    assert ws.get_edges(found) == []
    assert sorted(node.uri for node in ws.nodes_by_source("document", "manual")) == sorted(uris)
    commits = len(ws.history(limit=200))
    assert ws.delete_nodes_by_source("document", "manual") == 2_250
    assert len(ws.history(limit=200)) == commits + 2
    assert [node.uri for node in ws.nodes()] == [found.uri, other.uri]
    assert ws.delete_nodes_by_source("document", "manual") == 0


def test_an_ingested_document_is_found_and_a_conversation_is_read_back(ws: kgd.Workspace, tmp_path: Path) -> None:
    note = tmp_path / "leave.md"
    note.write_text("# Leave\n\nEverybody has thirty days of leave.\n")
    told = list[int]()
    first = ws.ingest(note, progress=lambda done, total, message: told.append(done))
    assert (first.is_done, len(first.nodes), first.trouble) == (True, 1, ())
    assert first.counts
    found = ws.search_chunks("days of leave")
    assert "thirty days of leave" in found[0].content
    assert found[0].document == first.nodes[0]
    tip = ws.history(limit=1)
    assert not ws.ingest(note).counts.get("chunks_new")
    assert ws.history(limit=1) == tip
    said = [("user", "Hello"), ("assistant", "How are you?"), ("user", "Well")]
    lines = "\n".join(json.dumps({"role": who, "content": text}) for who, text in said)
    ws.ingest(text=lines, uri="thread://shop/talk", kind="conversation")
    messages = ws.message_history("thread:talk")
    assert [(one.sender_type, one.content.strip()) for one in messages] == said
    assert ws.message_history("thread://shop/talk", limit=2) == messages[1:]
    with pytest.raises(kgd.NotFound):
        ws.message_history("thread:nobody")
    with pytest.raises(kgd.KgdError):
        ws.ingest(tmp_path / "missing.md")


def test_messages_made_as_nodes_are_read_in_the_order_in_which_they_answer(ws: kgd.Workspace) -> None:
    """Phase 3 of the unified graph, literally: named by sender and time, and REPLIED_BY from message to reply."""
    ws.create_node("thread", "talk")
    said = [
        ("user", 1_700_000_001_000),
        ("assistant", 1_700_000_002_000),
        ("user", 1_700_000_003_000),
        ("assistant", 1_700_000_003_000),
    ]
    made = [
        ws.create_node("message", f"{who}:{at}", namespace="talk", content=f"{number}", data={"senderType": who})
        for number, (who, at) in enumerate(said)
    ]
    for one, reply in itertools.pairwise(made):
        ws.create_edge(one, reply, "REPLIED_BY")
    assert [one.content for one in ws.message_history("thread:talk")] == ["0", "1", "2", "3"]
    assert [one.content for one in ws.message_history("thread:talk", limit=2)] == ["2", "3"]


def test_messages_that_answer_nothing_are_read_by_their_time(ws: kgd.Workspace) -> None:
    ws.create_node("thread", "talk")
    for at, who in ((1_700_000_002_000, "assistant"), (1_700_000_001_000, "user"), (1_700_000_003_000, "user")):
        ws.create_node("message", f"{who}:{at}", namespace="talk", content=f"{at}", data={"senderType": who})
    contents = [one.content for one in ws.message_history("thread:talk")]
    assert contents == sorted(contents)
