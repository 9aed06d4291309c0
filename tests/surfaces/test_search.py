"""`search`: the best matches first, with reasons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kgd.errors import Invalid
from kgd.model.access import Principal, Scope
from kgd.tools.read.search import SEARCH, UNSEARCHED
from tests.surfaces.conftest import Ask, upsert
from tests.waiting import until


@pytest.fixture(scope="module")
def found(shared: Callable[[], Ask]) -> Ask:
    return filled(shared())


def filled(ask: Ask) -> Ask:
    ask.put(
        changes=[
            upsert("services/auth", name="Auth service", summary="verifies session tokens", tags=["auth", "api"]),
            {
                "op": "upsert",
                "type": "gotcha",
                "name": "Session rotation",
                "content": "A session token outlives its key.\n",
                "tags": ["auth"],
                "relations": {"type": "about", "target": "services/auth", "weight": 0.3},
            },
            upsert("billing", summary="invoices", tags=["money"]),
        ]
    )
    return ask


def uris(answer: Any, key: str = "hits") -> list[str]:
    return [hit["uri"] for hit in answer[key]]


AUTH, GOTCHA, FILE, SIGN = (
    "concept://shop/services/auth",
    "gotcha://shop/Session%20rotation",
    "file://shop/src/auth/session.py",
    "symbol://shop/src/auth/session.py/sign",
)


@pytest.mark.requirement("N1")
def test_knowledge_and_code_are_two_lists_and_each_hit_of_knowledge_says_why(found: Ask) -> None:
    answer = found.search(query="session")
    assert set(uris(answer)) == {AUTH, GOTCHA}
    assert {FILE, SIGN} & set(uris(answer, "code")), "a file, or its definition once the code is read"
    assert all(hit["why"] for hit in answer["hits"])
    for hits in (answer["hits"], answer["code"]):
        scores = [hit["score"] for hit in hits]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)
        assert all("stored" not in hit and "path" not in hit for hit in hits)
    assert not {"edges", "hint", "nearest"} & answer.keys()


def test_one_list_has_the_code_after_knowledge(found: Ask) -> None:
    two, one = found.search(query="session"), found.search(query="session", lanes="one")
    assert uris(one) == [*uris(two), *uris(two, "code")]
    assert "code" not in one


def test_recall_is_the_first_list_alone(found: Ask) -> None:
    answer = found.recall(query="session")
    assert uris(answer) == uris(found.search(query="session"))
    assert "code" not in answer
    assert found.recall(query="checkout.py")["hits"] == []


def test_the_limit_applies_to_each_list_and_one_cursor_leads_through_both(ask: Ask, code: Path) -> None:
    ask.put(changes=[upsert(f"note{n}", summary="on the auth of sessions") for n in range(5)])
    whole = ask.search(query="auth", limit=50)
    assert len(whole["code"]) >= 2
    seen: dict[str, list[str]] = {"hits": [], "code": []}
    cursor: dict[str, str] = {}
    while True:
        answer = ask.search(query="auth", limit=1, **cursor)
        for key, listed in seen.items():
            assert len(answer[key]) <= 1
            listed += uris(answer, key)
        assert "hint" not in answer
        if "cursor" not in answer:
            break
        cursor = {"cursor": answer["cursor"]}
    assert seen == {"hits": uris(whole), "code": uris(whole, "code")}


@pytest.mark.parametrize("budget", [1, 120, 400])
def test_a_budget_leaves_room_for_the_code_and_a_cursor_leads_on(ask: Ask, budget: int) -> None:
    ask.put(
        changes=[upsert(f"note{n}", summary=f"{n} on the auth of sessions", name="and more " * 20) for n in range(9)]
    )
    answer = ask.search(query="auth", budget=budget)
    assert answer["hits"]
    assert answer["code"]
    assert len(answer["hits"]) < 9
    following = ask.search(query="auth", budget=budget, cursor=answer["cursor"])
    assert not set(uris(answer)) & set(uris(following))
    assert not set(uris(answer, "code")) & set(uris(following, "code"))


def test_a_search_reports_that_meaning_is_not_searched_until_all_texts_are_embedded(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kgd.workspace.derived.meaning.SETTLE", 30.0)
    monkeypatch.setattr("kgd.workspace.derived.meaning.LOAD_AFTER", 30.0)
    meaning = ask.session.daemon.workspace("shop").meaning
    ask.put(changes=[upsert("pay", summary="We reimburse customers when goods are damaged")])
    assert meaning.is_behind
    assert ask.search(query="refund broken articles")["hint"] == UNSEARCHED
    assert meaning.catch_up(20.0)
    assert not meaning.is_behind
    assert uris(ask.search(query="refund broken articles")) == ["concept://shop/pay"]
    assert ask.search(query="zygomorphic quux")["hint"] == "Nothing is known about this."


@pytest.mark.requirement("N1")
def test_a_search_without_hits_lists_the_nearest_nodes(ask: Ask) -> None:
    found = filled(ask)
    registry = Path(ask.session.daemon.home.registry)
    registry.write_text(f"settings:\n  embedder: off\n{registry.read_text()}")
    meaning = ask.session.daemon.workspace("shop").meaning
    until(lambda: not meaning.is_behind)
    answer = found.search(query="zygomorphic quux of the upper plonk, wimble and billing thrupp")
    assert (answer["hits"], answer["hint"]) == ([], "Nothing is known about this.")
    assert answer["nearest"] == ["concept://shop/billing"]
    answer = found.search(query="zygomorphic quux")
    assert (answer["hits"], answer["code"], answer["hint"]) == ([], [], "Nothing is known about this.")
    assert "nearest" not in answer


@pytest.mark.requirement("N2")
@pytest.mark.parametrize("query", ["session.py", "src/auth/session.py", "what does session.py sign", "auth.session"])
def test_a_file_is_first_by_its_name(found: Ask, query: str) -> None:
    assert uris(found.search(query=query), "code")[0] == FILE


@pytest.fixture(scope="module")
def noted(shared: Callable[[], Ask]) -> Ask:
    return with_notes(shared())


def with_notes(ask: Ask) -> Ask:
    """Notes about a folder and a file, none of which has a word of the path."""
    filled(ask).put(
        changes=[
            {"op": "upsert", "type": "atom", "name": "Everything", "content": "Rules.", "data": {"paths": ["**"]}},
            {"op": "upsert", "type": "atom", "name": "Entry", "content": "Rules.", "data": {"paths": ["src/auth/**"]}},
            {
                "op": "upsert",
                "type": "insight",
                "name": "Renewal",
                "summary": "twelve minutes",
                "relations": [{"type": "about", "target": "./src/auth"}],
            },
            {"op": "upsert", "type": "gotcha", "name": "Clocks", "summary": "two", "data": {"cites": ["src/auth"]}},
            {
                "op": "upsert",
                "type": "pattern",
                "name": "Signing",
                "summary": "once",
                "relations": [{"type": "about", "target": "./src/auth/session.py"}],
            },
            upsert("mention", summary="src auth session"),
        ]
    )
    until(lambda: "gotcha://shop/Clocks" in uris(ask.search(query="src/auth")))
    return ask


AREAS = ["atom://shop/Entry", "atom://shop/Everything"]
ABOUT_FOLDER = ["gotcha://shop/Clocks", "insight://shop/Renewal", *AREAS]


@pytest.mark.parametrize(
    "query", ["src/auth", "src/auth/", "./src/auth", "`src/auth`", "dir://shop/src/auth", "{code}/src/auth"]
)
def test_the_facts_about_a_folder_come_first_in_a_search_for_its_path(noted: Ask, query: str) -> None:
    for call in (noted.search, noted.recall):
        hits = call(query=query.format(code=noted.session.cwd))["hits"]
        assert [hit["uri"] for hit in hits[:4]] == ABOUT_FOLDER
        assert all("about this path" in hit["why"] for hit in hits[:4])
        assert len({hit["uri"] for hit in hits}) == len(hits)


@pytest.mark.parametrize("query", ["session.py", "src/auth/session.py", "auth/session.py", "src/auth/session.py:1"])
def test_the_notes_about_a_file_are_first_by_its_name_or_path(noted: Ask, query: str) -> None:
    assert uris(noted.search(query=query))[:3] == ["pattern://shop/Signing", *AREAS]


@pytest.mark.parametrize("path", ["src/auth/session.py", "session.py", "`src/auth/session.py`"])
def test_the_notes_about_a_file_rank_higher_if_a_question_names_it(noted: Ask, path: str) -> None:
    noted.put(changes=[upsert(f"insight://shop/p{n}", summary="All customers pay in advance.") for n in range(4)])
    question = f"do customers pay in advance, according to {path}?"
    hits = noted.search(query=question, limit=20)["hits"]
    found = {hit["uri"]: hit["why"] for hit in hits}
    assert "about this path" in found["pattern://shop/Signing"]
    assert "pattern://shop/Signing" in uris({"hits": noted.context(question=question)["items"]})


@pytest.mark.parametrize("query", ["session.py", "auth/session.py"])
def test_the_facts_about_a_file_with_a_stored_node_are_found_by_its_name(ask: Ask, query: str) -> None:
    noted = with_notes(ask)
    noted.put(changes=[{"op": "upsert", "uri": FILE, "summary": "cookies"}])
    until(lambda: FILE in uris(noted.search(query=query)))
    assert {"pattern://shop/Signing", *AREAS} <= {*uris(noted.search(query=query))[:4]}


def test_notes_about_a_path_pass_the_filters_and_follow_one_another_on_pages(noted: Ask) -> None:
    assert uris(noted.search(query="src/auth", types="insight")) == ["insight://shop/Renewal"]
    page = noted.search(query="src/auth", limit=3)
    following = noted.search(query="src/auth", limit=3, cursor=page["cursor"])
    assert [*uris(page), *uris(following)][:4] == ABOUT_FOLDER


@pytest.mark.parametrize(("paths", "hits"), [(["/Renewal", "/src/**"], ["insight://shop/Renewal"]), (["/Renewal"], [])])
def test_only_a_readable_folder_leads_to_the_readable_notes_about_it(
    noted: Ask, paths: list[str], hits: list[str]
) -> None:
    holder = Principal("k1", "guest", "agent", (Scope.of("shop", ["read"], paths),))
    guest = replace(noted.session, principal=holder)
    assert uris(SEARCH.call(guest, {"query": "src/auth", "workspace": "shop"})) == hits


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("src/nothere.py", "The code tree has no src/nothere.py."),
        ("src/zzz", "The code tree has no src/zzz."),
        ("src/auth/sesion.py", "The code tree has no src/auth/sesion.py; similar: src/auth/session.py."),
    ],
)
def test_a_path_without_a_file_is_named_with_similar_paths(found: Ask, query: str, said: str) -> None:
    assert found.search(query=query)["absent"] == said


@pytest.mark.parametrize(
    "query",
    ["src/auth", "session.py", "auth/session.py", "services/auth", "read/write", "https://a.example/b.html", "no.py"],
)
def test_a_text_that_is_no_path_or_is_known_is_not_reported_as_absent(found: Ask, query: str) -> None:
    assert "absent" not in found.search(query=query)


def test_a_path_leads_from_a_hit_by_words_to_a_hit_by_a_relation(ask: Ask) -> None:
    found = filled(ask)
    found.put(
        changes=[
            upsert(
                "pager",
                name="Pager",
                summary="rings at night",
                relations=[{"type": "about", "target": "billing", "weight": 0.1}],
            )
        ]
    )
    hits = {hit["uri"]: hit for hit in found.search(query="pager rings")["hits"]}
    assert "path" not in hits["concept://shop/pager"]
    assert hits["concept://shop/billing"]["path"] == ["concept://shop/pager", "concept://shop/billing"]


def test_filters_by_type_tag_namespace_and_score(found: Ask) -> None:
    assert uris(found.search(query="session", types="gotcha")) == ["gotcha://shop/Session%20rotation"]
    assert uris(found.search(query="session", tags=["api", "none"])) == ["concept://shop/services/auth"]
    assert uris(found.search(query="session", namespace="services")) == ["concept://shop/services/auth"]
    assert uris(found.search(query="session", min_score=1.0)) in ([], uris(found.search(query="session"))[:1])


def test_tags_without_a_query_rank_by_matches(found: Ask) -> None:
    assert uris(found.search(tags=["auth", "api"])) == [
        "concept://shop/services/auth",
        "gotcha://shop/Session%20rotation",
    ]


def test_edges_are_the_closest_relations_of_the_hits_on_request(found: Ask) -> None:
    expected = {
        "source": "gotcha://shop/Session%20rotation",
        "target": "concept://shop/services/auth",
        "type": "about",
        "weight": 0.3,
    }
    assert expected in found.search(query="session", max_depth=1)["edges"]
    assert expected in found.search(query="session", include="edges")["edges"]
    assert found.search(query="session", include="edges", edge_types="other")["edges"] == []
    for asked in ({}, {"max_depth": 0}):
        assert "edges" not in found.search(query="session", **asked)


def test_an_unused_type_is_answered_with_the_types_in_use(found: Ask) -> None:
    for call in (found.search, found.recall):
        answer = call(query="session", types=["gotcah"])
        assert answer["hits"] == []
        said, _, there_are = answer["hint"].partition("; the types in use are: ")
        assert said == "No node has the type 'gotcah'"
        assert {"concept", "gotcha", "file"} <= set(there_are.removesuffix(".").split(", "))
    assert found.session.daemon.workspace("shop").meaning.catch_up(20.0)
    for types in (["gotcha"], ["dir"], ["python"], []):
        assert found.search(query="zebra", types=types)["hint"] == "Nothing is known about this."


def test_pages_follow_each_other_without_gap_or_repeat(ask: Ask) -> None:
    ask.put(changes=[upsert(f"note{n:02}", summary="the same words") for n in range(25)])
    seen, cursor = [], None
    while True:
        answer = ask.search(query="same words", **({"cursor": cursor} if cursor else {}))
        seen += uris(answer)
        cursor = answer.get("cursor")
        if not cursor:
            break
    assert len(seen) == len(set(seen)) == 25


def test_an_acknowledged_change_is_found_at_once(ask: Ask) -> None:
    for number in range(5):
        (uri,) = ask.put(changes=upsert(f"fresh{number}", summary=f"zebra{number}"))["created"]
        assert uris(ask.search(query=f"zebra{number}")) == [uri]


@pytest.mark.parametrize("query", ['"', "a AND", "NEAR(", "*", "((((", "'; DROP TABLE docs; --", "\x00", "é" * 500])
def test_any_text_is_a_valid_query(found: Ask, query: str) -> None:
    found.search(query=query)


def test_an_empty_query_is_refused(found: Ask) -> None:
    with pytest.raises(Invalid):
        found.search()


def test_types_alone_are_refused_and_the_error_names_how_to_list_them(found: Ask) -> None:
    with pytest.raises(Invalid) as refused:
        found.search(types=["dir"])
    assert "traverse" in refused.value.next


def test_the_type_concept_finds_no_directories(ask: Ask) -> None:
    ask.put(changes=[upsert("auth", name="auth"), {"op": "upsert", "uri": "dir://shop/src/auth", "tags": ["seen"]}])
    assert uris(ask.search(query="auth", types="concept")) == ["concept://shop/auth"]
    assert uris(ask.search(tags="seen", types="concept")) == []
    assert "dir://shop/src/auth" in uris(ask.search(query="auth", types=["concept", "dir"], lanes="one"))


@pytest.mark.slow
def test_a_word_of_kgds_own_records_in_the_data_of_a_node_does_not_find_it(ask: Ask) -> None:
    data = {"cites": ["src/checkout.py"], "paid": True, "region": "Lisbon", "submitted_from": {"commit": "Porto"}}
    ask.put(changes=upsert("insight:fact", summary="Sessions end early.", data=data))
    found = {word: ask.search(query=word)["hits"] for word in ("true", "Porto", "Lisbon")}
    assert [len(found[word]) for word in found] == [0, 0, 1], found
