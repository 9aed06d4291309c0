"""`search`: the best matches first, with reasons."""

from __future__ import annotations

from typing import Any

import pytest

from kgd.errors import Invalid
from tests.surfaces.conftest import Ask, upsert


@pytest.fixture
def found(ask: Ask) -> Ask:
    ask.put(changes=[
        upsert("services/auth", name="Auth service", summary="verifies session tokens", tags=["auth", "api"]),
        {"op": "upsert", "type": "gotcha", "name": "Session rotation", "content": "A session token outlives its key.\n",
         "tags": ["auth"], "relations": {"type": "about", "target": "services/auth", "weight": 0.3}},
        upsert("billing", summary="invoices", tags=["money"]),
    ])  # fmt: skip
    return ask


def uris(answer: Any) -> list[str]:
    return [hit["uri"] for hit in answer["hits"]]


def test_knowledge_comes_before_bare_files_and_each_hit_says_why(found: Ask) -> None:
    answer = found.search(query="session")
    assert set(uris(answer)[:2]) == {"concept://shop/services/auth", "gotcha://shop/Session%20rotation"}
    assert uris(answer)[-1] == "file://shop/src/auth/session.py"
    assert answer["hits"][-1]["stored"] is False
    assert all(hit["why"] and 0 <= hit["score"] <= 1 for hit in answer["hits"])
    scores = [hit["score"] for hit in answer["hits"]]
    assert scores == sorted(scores, reverse=True)


def test_filters_by_type_tag_namespace_and_score(found: Ask) -> None:
    assert uris(found.search(query="session", types="gotcha")) == ["gotcha://shop/Session%20rotation"]
    assert uris(found.search(query="session", tags=["api", "none"])) == ["concept://shop/services/auth"]
    assert uris(found.search(query="session", namespace="services")) == ["concept://shop/services/auth"]
    assert uris(found.search(query="session", min_score=1.0)) in ([], uris(found.search(query="session"))[:1])


def test_tags_without_a_query_rank_by_matches(found: Ask) -> None:
    assert uris(found.search(tags=["auth", "api"])) == [
        "concept://shop/services/auth", "gotcha://shop/Session%20rotation",
    ]  # fmt: skip


def test_edges_are_the_closest_relations_of_the_hits(found: Ask) -> None:
    expected = {"source": "gotcha://shop/Session%20rotation", "target": "concept://shop/services/auth",
                "type": "about", "weight": 0.3}  # fmt: skip
    assert expected in found.search(query="session")["edges"]
    assert found.search(query="session", max_depth=0)["edges"] == []
    assert found.search(query="session", edge_types="other")["edges"] == []


def test_an_unused_type_is_answered_with_the_types_in_use(found: Ask) -> None:
    for call in (found.search, found.recall):
        answer = call(query="session", types=["gotcah"])
        assert answer["hits"] == []
        said, _, there_are = answer["hint"].partition("; there are: ")
        assert said == "no node is of the type 'gotcah'"
        assert {"concept", "gotcha", "file"} <= set(there_are.split(", "))
    for types in (["gotcha"], ["dir"], ["python"], []):
        assert "hint" not in found.search(query="zebra", types=types)


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
def test_no_text_is_an_error(ask: Ask, query: str) -> None:
    ask.search(query=query)


def test_an_empty_query_is_refused(ask: Ask) -> None:
    with pytest.raises(Invalid):
        ask.search()


def test_types_alone_are_refused_and_the_error_names_how_to_list_them(found: Ask) -> None:
    with pytest.raises(Invalid) as refused:
        found.search(types=["dir"])
    assert "traverse" in refused.value.next


def test_the_type_concept_finds_no_directories(ask: Ask) -> None:
    ask.put(changes=[upsert("auth", name="auth"), {"op": "upsert", "uri": "dir://shop/src/auth", "tags": ["seen"]}])
    assert uris(ask.search(query="auth", types="concept")) == ["concept://shop/auth"]
    assert uris(ask.search(tags="seen", types="concept")) == []
    assert "dir://shop/src/auth" in uris(ask.search(query="auth", types=["concept", "dir"]))
