"""Superseded nodes: one meaning in every answer, whichever end declares the succession."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from kgd.errors import Invalid, NotFound
from kgd.model.access import Principal, Scope
from kgd.tools import EVERY
from kgd.tools.session import Session
from tests.surfaces.conftest import Ask, upsert

OLD, NEW = "decision://shop/keep-redis", "decision://shop/keep-postgres"
ABOUT = [{"type": "about", "target": "./src/auth/session.py"}]


def relate(source: str, target: str, type: str) -> dict[str, Any]:
    return {"op": "relate", "source": source, "target": target, "type": type}


def uris(found: list[dict[str, Any]], *among: str) -> list[str]:
    return [one["uri"] for one in found if one["uri"] in (among or (OLD, NEW))]


def successors(found: list[dict[str, Any]]) -> dict[str, str]:
    return {one["uri"]: one["superseded_by"]["uri"] for one in found if "superseded_by" in one}


def decide(ask: Ask) -> None:
    ask.put(
        changes=[
            upsert(
                OLD, type="decision", summary="Sessions are in Redis.", content="For thirty minutes.", relations=ABOUT
            ),
            upsert(NEW, type="decision", name="Keep Postgres", summary="Sessions are in Postgres.", relations=ABOUT),
        ]
    )


@pytest.fixture(
    params=[relate(NEW, OLD, "Supersedes"), relate(OLD, NEW, "superseded_by"), relate(OLD, NEW, "summarised_by")],
    ids=lambda one: one["type"],
)
def replaced(ask: Ask, request: pytest.FixtureRequest) -> Ask:
    decide(ask)
    assert uris(ask.search(query="sessions in redis")["hits"])[0] == OLD
    ask.put(changes=request.param)
    return ask


@pytest.mark.parametrize("query", ["redis sessions", "why are sessions in redis for thirty minutes"])
def test_a_superseded_node_follows_its_successor_and_is_marked(replaced: Ask, query: str) -> None:
    for tool in (replaced.search, replaced.recall):
        hits = tool(query=query)["hits"]
        assert uris(hits) == [NEW, OLD]
        assert successors(hits) == {OLD: NEW}
    assert next(one["superseded_by"]["name"] for one in hits if one["uri"] == OLD) == "Keep Postgres"
    items = replaced.context(question=query)["items"]
    assert uris(items) == [NEW, OLD]
    assert successors(items) == {OLD: NEW}


def test_every_list_of_nodes_marks_it(replaced: Ask) -> None:
    about = replaced.search(query="src/auth/session.py")["hits"]
    assert uris(about) == [NEW, OLD]
    items = replaced.context(paths=["src/auth/session.py"])["items"]
    assert uris(items) == [NEW, OLD]
    notes = replaced.code_file(uri="./src/auth/session.py")["notes"]
    walk = replaced.traverse(start=[NEW], max_cost=2, direction="both")["nodes"]
    nodes = replaced.get(uris=[OLD, NEW])["nodes"]
    for found in (about, items, notes, walk, nodes):
        assert successors(found) == {OLD: NEW}


def test_a_session_starts_without_superseded_nodes(replaced: Ask) -> None:
    lines = [line for section in replaced.prime()["sections"] for line in section["lines"]]
    assert any(NEW in line for line in lines)
    assert not any(OLD in line for line in lines)


def test_markdown_names_the_successor(replaced: Ask) -> None:
    said = "superseded by `decision:keep-postgres`"
    for tool, arguments in (
        ("search", {"query": "redis"}),
        ("context", {"question": "redis"}),
        ("get", {"uris": [OLD]}),
        ("traverse", {"start": [OLD]}),
    ):
        text = EVERY[tool].text
        assert text is not None
        shown = text(getattr(replaced, tool)(**arguments))
        assert said in shown, tool
        assert '"uri"' not in shown, tool


def test_the_name_of_a_superseded_node_still_finds_it_first(replaced: Ask) -> None:
    replaced.put(changes=upsert(NEW, summary="Sessions are in Postgres, see keep-redis."))
    assert uris(replaced.search(query="keep-redis")["hits"])[0] == OLD


def test_a_chain_ends_at_the_newest_and_a_circle_decides_nothing(ask: Ask) -> None:
    decide(ask)
    last = upsert("decision://shop/keep-sqlite", type="decision", summary="Sessions are in SQLite.")
    ask.put(changes=[last, relate(NEW, OLD, "supersedes"), relate(last["uri"], NEW, "supersedes")])
    hits = ask.search(query="sessions in redis or postgres")["hits"]
    assert uris(hits, OLD, NEW, last["uri"])[0] == last["uri"]
    assert successors(hits) == {OLD: NEW, NEW: last["uri"]}
    ask.put(changes=relate(OLD, NEW, "supersedes"))
    assert successors(ask.get(uris=[OLD, NEW])["nodes"]) == {NEW: last["uri"]}


def test_a_hidden_successor_has_no_influence(replaced: Ask) -> None:
    principal = Principal("tok00001", "reader", "agent", (Scope.of("shop", ["read"], ["/keep-redis"]),))
    narrow = Ask(Session(replaced.session.daemon, client="x", principal=principal))
    for found in (narrow.search(query="redis")["hits"], narrow.get(uris=[OLD])["nodes"]):
        assert uris(found) == [OLD]
        assert not successors(found)
    wide = Ask(Session(replaced.session.daemon, client="x", principal=Principal("t", "r", "agent", WIDE)))
    assert successors(wide.search(query="redis")["hits"]) == {OLD: NEW}
    assert successors(wide.context(question="redis")["items"]) == {OLD: NEW}


WIDE = (Scope.of("shop", ["read"], ["/keep-*"]),)


def test_remember_replaces_a_decision(ask: Ask) -> None:
    decide(ask)
    [new] = ask.remember(text="Sessions are in SQLite.", type="decision", supersedes=[OLD])["created"]
    assert successors(ask.get(uris=[OLD, NEW])["nodes"]) == {OLD: new}
    assert uris(ask.recall(query="sessions")["hits"])[-1] == OLD


@pytest.mark.parametrize("given", ["decision:keep-rediss", "keep-redis", "decision://shop/keep-reids"])
def test_a_fact_replaces_only_an_existing_node(ask: Ask, given: str) -> None:
    decide(ask)
    with pytest.raises(NotFound, match=r"there is no node .* to replace") as refused:
        ask.remember(text="Sessions are nowhere.", supersedes=[OLD, given])
    assert (refused.value.at, OLD in refused.value.next) == ("supersedes[1]", True)
    assert not ask.recall(query="nowhere")["hits"]


@pytest.mark.slow
@pytest.mark.parametrize("given", ["src/auth/session.py", "./src/auth/session.py"])
def test_a_fact_does_not_replace_code(ask: Ask, given: str) -> None:
    decide(ask)
    with pytest.raises(Invalid, match=r"src/auth/session.py is code; a fact replaces only another node") as refused:
        ask.remember(text="Sessions are nowhere.", supersedes=[given])
    assert refused.value.next == f"Facts about it: {NEW}, {OLD}."
    symbol = "src/auth/session.py#sign"
    [fact] = ask.remember(text="Signing is slow.", about=[symbol])["created"]
    with pytest.raises(Invalid, match="is code; a fact replaces only another node") as refused:
        ask.remember(text="Sessions are nowhere.", supersedes=[symbol])
    assert refused.value.next == f"Facts about it: {fact}."
    [told] = ask.put(changes=relate(NEW, "./src/auth/session.py", "supersedes"))["warnings"]
    assert told == "file://shop/src/auth/session.py is code; supersedes has an effect only between nodes"


@pytest.mark.parametrize("type", ["superseeds", "superceded_by", "summarized_by"])
def test_a_misspelt_succession_warns(ask: Ask, type: str) -> None:
    decide(ask)
    [told] = ask.put(changes=relate(NEW, OLD, type), dry_run=True)["warnings"]
    assert "did you mean s" in told


def test_a_missing_successor_and_a_circle_supersede_nothing(ask: Ask) -> None:
    decide(ask)
    third = "decision://shop/keep-both"
    ask.put(changes=[upsert(third, type="decision", summary="Sessions are in both.")])
    ask.put(changes=relate(OLD, "decision://shop/nowhere", "superseded_by"))
    assert not successors(ask.get(uris=[OLD])["nodes"])
    ask.put(changes=[relate(one, other, "supersedes") for one, other in ((OLD, NEW), (NEW, third), (third, OLD))])
    assert not successors(ask.get(uris=[OLD, NEW, third])["nodes"])
    assert not successors(ask.search(query="sessions")["hits"])


def test_a_second_successor_is_kept_and_told_of_the_first(ask: Ask) -> None:
    decide(ask)
    ask.put(changes=relate(NEW, OLD, "supersedes"))
    told = f"{OLD} is already superseded by {NEW}; both relations are kept"
    later = ask.remember(text="Sessions are in SQLite.", type="decision", supersedes=[OLD])
    assert later["warnings"] == [told]
    third = {"type": "supersedes", "target": OLD}
    put = ask.put(changes=[upsert("decision://shop/keep-zero", type="decision", summary="None.", relations=[third])])
    assert put["warnings"] == [told]
    ask.put(changes=upsert("decision://shop/keep-files", type="decision", summary="Sessions are in files."))
    assert ask.put(changes=relate(OLD, "decision://shop/keep-files", "superseded_by"))["warnings"] == [told]
    sources = [one["source"] for one in ask.get(uris=OLD, include=["incoming"])["nodes"][0]["incoming"]]
    assert {NEW, later["nodes"][0]["uri"], "decision://shop/keep-zero"} <= set(sources)
    again = ask.remember(text="Sessions are in SQLite.", type="decision", supersedes=[OLD])
    assert not any("superseded" in warning for warning in again["warnings"])


def test_a_second_successor_of_a_hidden_node_does_not_reveal_the_first(ask: Ask) -> None:
    decide(ask)
    ask.put(changes=relate(NEW, OLD, "supersedes"))
    ask.put(changes={"op": "move", "uri": OLD, "to": "decision://shop/hidden"})
    scope = Scope.of("shop", ["read", "write"], ["/keep-postgres", "/keep-zero"])
    narrow = Ask(Session(ask.session.daemon, client="x", principal=Principal("tok00001", "writer", "agent", (scope,))))
    third = {"type": "supersedes", "target": OLD}
    put = narrow.put(changes=[upsert("decision://shop/keep-zero", type="decision", summary="None.", relations=[third])])
    assert put["warnings"] == []


def test_a_fact_does_not_look_like_a_fact_that_it_supersedes(ask: Ask) -> None:
    text = "Sessions are kept in the Redis of the shop for thirty minutes"
    old = ask.remember(text=f"{text}.")["nodes"][0]["uri"]
    new = ask.remember(text=f"{text} or less.", supersedes=[old])
    assert new["similar"] == []
    newest = new["nodes"][0]["uri"]
    assert ask.remember(text=f"{text} or an hour.", supersedes=[newest], dry_run=True)["similar"] == []
    (similar,) = ask.remember(text=f"{text} or more.")["similar"]
    assert set(similar["like"]) == {old, newest}


@pytest.mark.slow
def test_a_superseded_fact_is_listed_once_among_distant_nodes(ask: Ask) -> None:
    decide(ask)
    distant = [upsert(f"insight://shop/far-{n}", summary=f"Far {n}.") for n in range(3)]
    near = [relate(f"insight://shop/far-{n}", NEW, "uses") for n in range(3)]
    ask.put(changes=[*distant, *near, relate(NEW, OLD, "supersedes")])
    later = [upsert("decision://shop/later", type="decision", summary="Later.", relations=ABOUT)]
    ask.put(changes=[*later, relate("decision://shop/later", OLD, "supersedes")])
    answer = ask.context(paths=["src/auth/session.py"])
    found = uris(answer["items"], *(one["uri"] for one in answer["items"]))
    assert sorted(found) == sorted({OLD, NEW, "decision://shop/later", *(one["uri"] for one in distant)})
    assert found[-1] == OLD
    assert answer["cut"] == []


@pytest.mark.slow
def test_a_path_has_the_last_successor_of_a_fact_about_it(ask: Ask) -> None:
    first = ask.remember(text="Sessions last 5 minutes.", about=["src/auth/session.py"])["nodes"][0]["uri"]
    second = ask.remember(text="Sessions last 10 minutes.", supersedes=[first])["nodes"][0]["uri"]
    third = ask.remember(text="Sessions last 15 minutes.", supersedes=[second])["nodes"][0]["uri"]
    items = ask.context(paths="src/auth/session.py")["items"]
    assert next(one["uri"] for one in items if one["uri"] in (first, second, third)) == third
    notes = {one["uri"]: one["why"] for one in ask.code_file(uri="./src/auth/session.py")["notes"]}
    assert notes[third] == "supersedes Sessions last 5 minutes."


@pytest.mark.slow
def test_the_last_of_a_thousand_successors_is_not_hidden(ask: Ask) -> None:
    facts = [
        upsert(f"decision://shop/cache-{n:04}", type="decision", summary=f"Cache sessions {n}.", relations=list(ABOUT))
        for n in range(1_000, 0, -1)
    ]
    for older, fact in pairwise(facts):
        fact["relations"].append({"type": "supersedes", "target": older["uri"]})
    for start in range(0, 1_000, 250):
        ask.put(changes=facts[start : start + 250])
    last = facts[-1]["uri"]
    for query in ("cache sessions", "src/auth/session.py"):
        first = ask.search(query=query)["hits"][0]
        assert (first["uri"], first.get("superseded_by")) == (last, None), query
    for asked in ("how do we cache sessions?", "src/auth/session.py"):
        assert ask.context(paths=[asked])["items"][0]["uri"] == last, asked
