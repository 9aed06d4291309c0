"""Recurring names are suggested as nodes, and doubles as merges; nothing changes before a user accepts it."""

from __future__ import annotations

from typing import Any

import pytest

from kgd.mentions.candidates import Named, candidates, doubles, phrases_of
from kgd.model.uri import Uri
from kgd.tools import call
from kgd.tools.session import Session
from tests.mentions.test_surfaces import reader
from tests.surfaces.conftest import Ask, ask, code, daemon, session, upsert, ws

__all__ = ["ask", "code", "daemon", "session", "ws"]


def suggested(ask: Ask, kind: str) -> dict[str, dict[str, Any]]:
    found = ask.resolve_conflicts(ids=["suggestions"])["suggestions"]
    return {one["source"]: one for one in found if one["kind"] == kind}


def test_phrases_are_runs_of_capitals_within_a_sentence() -> None:
    text = (
        "Yesterday the Film Journal International met Ann. Reuters wrote of it. In June Bank of Nova Scotia's NATO desk"
    )
    assert list(phrases_of(text)) == ["Film Journal International", "Ann", "Bank of Nova Scotia", "NATO"]


def test_candidates_are_counted_by_text_and_existing_names_are_left_out() -> None:
    texts = [
        (Uri(f"concept://x/{n}"), f"{who} We asked Nova Bank and Key Store, said Anna.")
        for n, who in enumerate(["Thanks Anna.", "", "", "Monday."])
    ]
    found = candidates(texts, lambda keys: {"key store"} & set(keys))
    assert [(one.name, one.count) for one in found] == [("Anna", 4), ("Nova Bank", 4)]
    assert found[1].texts == ("concept://x/0", "concept://x/1", "concept://x/2")
    assert [one.name for one in candidates(texts, lambda keys: {"key store"} & set(keys), most=3)] == ["Nova Bank"]


def test_a_name_from_the_code_is_not_a_new_candidate(ask: Ask) -> None:
    ask.put(changes=[{"op": "upsert", "uri": "symbol://shop/src/ledger.py/LedgerWriter", "summary": "Writes."}])
    ask.put(
        changes=[
            upsert(f"notes/n{n}", content=f"Case {n}: the LedgerWriter gave True, said OffSite.") for n in range(3)
        ]
    )
    assert [one["name"] for one in suggested(ask, "entity").values()] == ["OffSite"]


@pytest.mark.requirement("U10")
def test_a_name_that_recurs_is_suggested_and_once_accepted_mentioned(ask: Ask) -> None:
    ask.put(changes=[upsert(f"notes/n{n}", content=f"Call {n}: we pay through Nova Bank now.") for n in range(3)])
    [one] = suggested(ask, "entity").values()
    assert (one["name"], len(one["texts"])) == ("Nova Bank", 3)
    assert "3 of the" in one["reason"]
    uri = one["source"]
    assert ask.get(uris=uri)["missing"], "a suggestion alone makes nothing"
    done = ask.resolve_conflicts(resolutions=[{"id": one["id"], "take": "accept"}])["decided"]
    assert done[0]["nodes"] == [uri]
    [node] = ask.get(uris=uri, include=["mentions"])["nodes"]
    assert node["mentions"]["into"] == [f"concept://shop/notes/n{n}" for n in range(3)]
    assert suggested(ask, "entity") == {}


def test_a_suggestion_that_was_dismissed_stays_away_until_twice_as_much_speaks_for_it(
    ask: Ask, session: Session
) -> None:
    ask.put(changes=[upsert(f"notes/n{n}", content=f"Call {n}: we asked Nova Bank.") for n in range(3)])
    [one] = suggested(ask, "entity").values()
    assert (
        call(reader(session), "resolve_conflicts", {"ids": ["suggestions"], "workspace": "shop"})["suggestions"] == []
    )
    ask.resolve(resolutions=[{"id": one["id"], "take": "reject"}])
    assert suggested(ask, "entity") == {}
    ask.put(changes=[upsert(f"notes/m{n}", content=f"Call {n}: we asked Nova Bank.") for n in range(3)])
    assert set(suggested(ask, "entity")) == {one["source"]}


DOUBLES = [
    # two names of one type, and whether they may be one
    ("Auth service", "auth SERVICE", True),
    ("The authentication service of the shop", "The autentication service of the shop", True),
    ("Auth service", "Auth server", False),
    ("Release 12 of the shop", "Release 13 of the shop", False),
    ("cat", "bat", False),
]


def test_doubles_have_equal_or_similar_names() -> None:
    for a, b, same in DOUBLES:
        nodes = [Named(Uri("concept://x/a"), "concept", (a,)), Named(Uri("concept://x/bb"), "concept", (b,))]
        found = doubles(nodes)
        assert [(one.keep, one.drop) for one in found] == ([("concept://x/a", "concept://x/bb")] if same else []), a
        assert doubles([nodes[0], Named(nodes[1].uri, "person", nodes[1].names)]) == [], "of one type only"
    alias = Named(Uri("entity://x/c"), "concept", ("Login", "Auth service"))
    [one] = doubles([Named(Uri("concept://x/longer/path"), "concept", ("Auth service",)), alias])
    assert (one.keep, one.score) == ("concept://x/longer/path", 1.0), "what people named stays"


OWN = {"owner": "ann", "tier": 1}
OTHER, MORE = {"tier": 2, "port": 80, "aliases": ["Login"]}, {"license": "MIT", "stage": 2}


@pytest.mark.requirement("U10")
def test_a_merge_keeps_names_texts_relations_and_incoming_links(ask: Ask) -> None:
    ask.put(
        changes=[
            upsert("auth", name="Auth service", content="Signs tokens.", tags=["a"], data=OWN, others={"stage": 1}),
            upsert("old/auth", name="Auth Service", content="Never cache a key.", tags=["b"], data=OTHER, others=MORE),
            upsert("keys", name="Vault"),
            upsert("shop", name="Till"),
            {"op": "relate", "source": "old/auth", "target": "keys", "type": "depends_on"},
            {"op": "relate", "source": "auth", "target": "old/auth", "type": "same_as"},
            {"op": "relate", "source": "shop", "target": "old/auth", "type": "calls"},
        ]
    )
    one = suggested(ask, "merge")["concept://shop/auth"]
    assert one["target"] == "concept://shop/old/auth"
    done = ask.resolve_conflicts(resolutions=[{"id": one["id"], "take": "accept"}])["decided"][0]
    [node] = ask.get(uris="old/auth")["nodes"]
    assert node["uri"] == "concept://shop/auth", "its old URI leads to what it became"
    assert node["content"] == "Signs tokens.\n\nNever cache a key.\n"
    assert node["tags"] == ["a", "b"]
    assert node["data"] == {"aliases": ["Login"], "owner": "ann", "port": 80, "tier": 1}
    assert node["others"] == {"license": "MIT", "stage": 1}
    assert [(r["type"], r["target"]) for r in node["relations"]] == [("depends_on", "concept://shop/keys")]
    walked = ask.traverse(start="shop")["nodes"]
    assert [n["uri"] for n in walked][:2] == ["concept://shop/shop", "concept://shop/auth"]
    assert suggested(ask, "merge") == {}
    ask.put(changes=[{"op": "revert", "commit": done["commit"]}])
    [back] = ask.get(uris="old/auth")["nodes"]
    assert back["uri"] == "concept://shop/old/auth"
