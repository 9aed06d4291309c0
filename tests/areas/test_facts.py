"""`area_facts`: the facts about an area and its files, and their authors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kgd.errors import Forbidden, Invalid, NotFound
from kgd.model.access import Principal, Scope
from kgd.model.change import Author, Upsert
from kgd.model.uri import Uri
from kgd.tools.areas.coverage import AREA_FACTS
from kgd.ui.pages import areas
from kgd.workspace.workspace import Workspace
from tests import builders
from tests.areas.conftest import Ask
from tests.areas.test_covering import area
from tests.surfaces.conftest import git, upsert
from tests.waiting import until

KEYS, SESSION = "src/auth/keys.py", "src/auth/session.py"


@pytest.fixture
def auth(ask: Ask) -> str:
    """An area with two files and four facts, of which one is about the area itself."""
    uri = area(ask, "Auth", "src/auth/**")
    about = [{"type": "about", "target": f"./{KEYS}"}, {"type": "about", "target": f"./{SESSION}"}]
    ask.put(
        changes=[
            upsert("gotcha:sign", summary="Signing is slow.", data={"cites": [f"{SESSION}#sign"]}),
            upsert("insight:both", summary="Both are old.", relations=about),
            upsert("decision:area", summary="Keep it small.", relations=[{"type": "about", "target": uri}]),
            upsert("insight:elsewhere", summary="Not here.", data={"cites": ["src/checkout.py"]}),
        ]
    )
    ask.ingest()
    until(lambda: ask.area_facts(area=uri)["total"] == 3)
    return uri


def test_facts_about_the_area_or_its_files_are_listed_with_their_files(ask: Ask, auth: str) -> None:
    answer = ask.area_facts(area=auth)
    assert {one["uri"]: one["files"] for one in answer["facts"]} == {
        "gotcha://shop/sign": [SESSION],
        "insight://shop/both": [KEYS, SESSION],
        "decision://shop/area": [],
    }
    assert (answer["total"], answer["files"], answer["known_files"]) == (3, 2, 2)
    assert (answer["stale"], answer["conflicts"]) == (0, 0)
    assert [(one["name"], one["facts"]) for one in answer["authors"]] == [("Ann Person", 3)]
    files = ask.coverage(area=auth)["files"]
    assert [(one["path"], one["facts"]) for one in files] == [(KEYS, 1), (SESSION, 2)]


def test_a_fact_about_a_folder_of_the_area_is_listed(ask: Ask, auth: str) -> None:
    folders = {"./src/auth": "gotcha:folder", "./src": "gotcha:above"}
    ask.put(
        changes=[
            upsert(name, summary="Mind it.", relations=[{"type": "about", "target": place}])
            for place, name in folders.items()
        ]
    )
    answer = ask.area_facts(area=auth)
    assert answer["total"] == 4
    assert [one["files"] for one in answer["facts"] if one["uri"] == "gotcha://shop/folder"] == [[]]
    found = ask.search(query="mind it", area=auth)["hits"]
    assert "gotcha://shop/folder" in [one["uri"] for one in found]
    assert "gotcha://shop/above" not in [one["uri"] for one in found]


def test_a_task_counts_as_a_fact_of_the_area_whose_files_or_folders_it_lists(ask: Ask, auth: str) -> None:
    for name, place in (("Sign less", KEYS), ("Move it", "src/auth/"), ("Check out", "src/checkout.py")):
        ask.add_task(name=name, objective="Why.", accept=["Done."], files=[place])
    answer = ask.area_facts(area=auth)
    tasks = {one["name"]: one["files"] for one in answer["facts"] if one["type"] == "task"}
    assert tasks == {"Sign less": [KEYS], "Move it": []}
    assert answer["total"] == 5
    assert [one["facts"] for one in ask.coverage(area=auth)["files"]] == [2, 2]
    ask.put(changes={"op": "delete", "uri": "task://shop/Sign%20less"})
    assert ask.area_facts(area=auth)["total"] == 4


def test_an_author_has_the_name_by_which_the_author_tool_finds_them(ask: Ask, ws: Workspace, auth: str) -> None:
    edit = Upsert(Uri("gotcha://shop/sign"), summary="Signing is very slow.")
    ws.submit(builders.change(edit, author=Author("Bob (Ops) Builder", "bob@example.org", "tests")))
    (name,) = {one["name"] for one in ask.area_facts(area=auth)["authors"]} - {"Ann Person"}
    assert name == "Bob (Ops) Builder"
    assert [one["uri"] for one in ask.author(name=name)["nodes"]] == ["gotcha://shop/sign"]


def test_a_verification_does_not_change_the_author_of_a_fact(ask: Ask, ws: Workspace, auth: str, code: Path) -> None:
    edit = Upsert(Uri("gotcha://shop/sign"), summary="Signing is very slow.")
    ws.submit(builders.change(edit, author=Author("Bob", "bob@example.org")))
    (code / SESSION).write_text("def sign(token):\n    return token + 'x'\n")
    ask.put(changes={"op": "verify", "uri": "gotcha:sign"})
    answer = ask.area_facts(area=auth)
    assert {one["name"]: one["facts"] for one in answer["authors"]} == {"Ann Person": 2, "Bob": 1}
    (shown,) = (one["updated"] for one in answer["facts"] if one["uri"] == "gotcha://shop/sign")
    assert shown["by"].startswith("Bob ")
    assert shown["verified_by"].startswith("Ann Person ")
    assert ask.get(uris=["gotcha:sign"])["nodes"][0]["updated"] == shown
    assert [one["uri"] for one in ask.search(query="very slow", author="bob")["hits"]] == ["gotcha://shop/sign"]
    ask.put(changes=upsert("gotcha:sign", summary="Signing is slow again."))
    assert "verified_by" not in ask.get(uris=["gotcha:sign"])["nodes"][0]["updated"]


def test_stale_facts_come_first_then_the_newest(ask: Ask, auth: str, code: Path) -> None:
    (code / SESSION).write_text("def sign(token):\n    return 1\n")
    git(code, "commit", "-qam", "Sign nothing")
    until(lambda: ask.area_facts(area=auth)["stale"] == 1)
    first, *rest = ask.area_facts(area=auth)["facts"]
    assert (first["uri"], "sign in src/auth/session.py changed" in first["unverified"]["reason"]) == (
        "gotcha://shop/sign",
        True,
    )
    assert not any("unverified" in one for one in rest)


def test_a_long_list_is_paged(ask: Ask, auth: str) -> None:
    seen, cursor = [], None
    for _ in range(3):
        answer = ask.area_facts(area=auth, limit=1, cursor=cursor)
        seen += [one["uri"] for one in answer["facts"]]
        cursor = answer.get("cursor")
    assert cursor is None
    assert len(set(seen)) == 3
    cursor = ask.area_facts(area=auth, limit=1)["cursor"]
    other = area(ask, "Other", "docs/**")
    with pytest.raises(Invalid, match="cursor"):
        ask.area_facts(area=other, cursor=cursor)


def test_only_the_machine_with_the_code_answers_and_only_about_areas(ask: Ask, auth: str) -> None:
    bob = Principal("t1", "bob", "person", (Scope.of("shop", ["read"], ["/**"]),))
    with pytest.raises(Forbidden):
        AREA_FACTS.call(replace(ask.session, principal=bob), {"area": auth, "workspace": "shop"})
    with pytest.raises(NotFound):
        ask.area_facts(area="atom://shop/none")


@pytest.mark.parametrize(("most", "counted"), [(20, "abc"), (7, "ab"), (3, "a")])
def test_the_list_of_areas_counts_a_limited_number_of_files_and_facts(
    monkeypatch: pytest.MonkeyPatch, most: int, counted: str
) -> None:
    monkeypatch.setattr(areas, "LOOKED_UP", most)
    visit: Any = SimpleNamespace(can=lambda _: True, tried=lambda *_, **__: {"total": 3, "files": 1})
    assert areas.known_facts(visit, [{"id": name} for name in "abc"]).keys() == set(counted)
