"""Filters of `search`: last author, area, and staleness."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kgd.errors import NotFound
from kgd.model.change import Author, Upsert
from kgd.model.uri import Uri
from kgd.tools.read import search
from kgd.workspace.workspace import Workspace
from tests import builders
from tests.freshness.conftest import SESSION, becomes_stale, commit
from tests.surfaces.conftest import Ask, upsert

CITING, RELATED, OTHER = "gotcha://shop/citing", "insight://shop/related", "insight://shop/other"


def hits(answer: Any) -> set[str]:
    return {hit["uri"] for hit in answer["hits"]}


def by_bob(ws: Workspace, uri: str, summary: str) -> None:
    edit = Upsert(Uri(uri), summary=summary)
    ws.submit(builders.change(edit, author=Author("Bob Builder", "bob@example.org", "tests")))


@pytest.fixture
def area(ask: Ask) -> str:
    """An area, with a fact that cites its file, a fact related to the area, and a fact about something else."""
    made = ask.manage_graph(
        operation="create", entityType="atom", name="Signing", paths=["src/auth/**"], createdByTaskId="https://t.io/1"
    )
    uri = str(made["data"]["atom"]["id"])
    changes = [
        upsert(CITING, summary="tokens are returned unsigned", data={"cites": [SESSION]}),
        upsert(RELATED, summary="tokens have no expiry", relations=[{"type": "about", "target": uri}]),
        upsert(OTHER, summary="tokens of the bus are brass"),
    ]
    ask.put(changes=changes)
    return uri


def test_an_area_narrows_to_its_files_and_the_facts_about_them(ask: Ask, area: str) -> None:
    assert hits(ask.search(query="tokens")) >= {CITING, RELATED, OTHER}
    answer = ask.search(query="tokens", area=area)
    assert hits(answer) == {area, CITING, RELATED}
    assert ask.search(query="session")["code"]
    code = ask.search(query="session", area=area)["code"]
    assert code
    assert all("src/auth" in hit["uri"] for hit in code)
    assert hits(ask.search(query="tokens", area="signing")) == {area, CITING, RELATED}
    with pytest.raises(NotFound, match="no such area"):
        ask.search(query="tokens", area="atom://shop/nothing")


def test_a_fact_about_a_symbol_is_in_the_area_of_its_file_also_before_it_is_verified(ask: Ask, area: str) -> None:
    target = {"type": "about", "target": f"symbol://shop/{SESSION}/later"}
    ask.put(changes=upsert("insight://shop/planned", summary="tokens will expire", relations=[target]))
    assert hits(ask.search(query="tokens", area=area)) == {area, CITING, RELATED, "insight://shop/planned"}


def test_facts_related_to_the_former_address_of_an_area_are_in_it(ask: Ask, area: str) -> None:
    moved = "atom://shop/signing-in"
    ask.put(changes=[{"op": "move", "uri": area, "to": moved}])
    assert hits(ask.search(query="tokens", area=moved)) == {moved, CITING, RELATED}


def test_an_author_narrows_to_the_facts_that_they_changed_last(ask: Ask, ws: Workspace, area: str) -> None:
    assert area
    by_bob(ws, OTHER, "tokens of the bus are made of brass")
    assert hits(ask.search(query="tokens", author="builder")) == {OTHER}
    assert hits(ask.search(query="tokens", author="Ann")) >= {CITING, RELATED}
    assert OTHER not in hits(ask.search(query="tokens", author="Ann"))
    found = ask.search(query="brass", include="updated")["hits"][0]
    assert found["updated"]["by"].startswith("Bob Builder")
    assert "updated" not in ask.search(query="brass")["hits"][0]


def test_stale_narrows_to_facts_whose_code_has_changed(ask: Ask, code: Path, area: str) -> None:
    assert area
    answer = ask.search(query="tokens", stale=True)
    assert answer["hits"] == []
    assert "pass the filters" in answer["hint"]
    commit(code, SESSION, "def sign(token):\n    return hmac(token)\n")
    becomes_stale(ask, CITING)
    assert hits(ask.search(query="tokens", stale=True)) == {CITING}


def test_filters_look_through_a_bounded_list_and_continue(
    ask: Ask, ws: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "LOOKED", 4)
    ask.put(changes=[upsert(f"n{number}", summary=f"brass number {number}") for number in range(9)])
    by_bob(ws, "concept://shop/last", "brass")
    seen, cursor, calls = set[str](), None, 0
    while calls == 0 or cursor:
        answer = ask.search(query="brass", author="Ann", limit=2, **({"cursor": cursor} if cursor else {}))
        assert len(answer["hits"]) <= 2
        seen |= hits(answer)
        cursor, calls = answer.get("cursor"), calls + 1
    assert seen == {f"concept://shop/n{number}" for number in range(9)}
    assert calls > 2
