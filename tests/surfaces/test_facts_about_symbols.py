"""Facts about a symbol are found by its name, by its address and by a question that has its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kgd.errors import Invalid
from kgd.model.access import Principal, Scope
from kgd.tools.session import Session
from tests.surfaces.conftest import Ask, ask, code, daemon, session, upsert, ws
from tests.waiting import until

__all__ = ["ask", "code", "daemon", "session", "ws"]

KEYS = "src/auth/keys.py"
TEXT = "class Keys:\n    def rotate_all(self):\n        pass\n\n\ndef drop(key):\n    pass\n"
ROTATE = f"symbol://shop/{KEYS}/Keys.rotate_all"
ABOUT, CITING, WHOLE = "insight://shop/backups", "gotcha://shop/trap", "insight://shop/whole"


@pytest.fixture(autouse=True)
def facts(code: Path, ask: Ask) -> None:
    (code / KEYS).write_text(TEXT)
    about = to_symbol("Keys.rotate_all")
    until(lambda: ROTATE in uris(ask.search(query="Keys.rotate_all")["code"]))
    ask.put(
        changes=[
            upsert(WHOLE, summary="All keys are secret, the rotate word is common.", relations=to_file()),
            upsert(ABOUT, summary="Backups happen before it.", relations=about),
            upsert(CITING, summary="It locks the table.", data={"cites": [f"{KEYS}#Keys.rotate_all"]}),
            upsert("insight://shop/words", summary="We rotate all of the posters in autumn."),
        ]
    )


def to_file() -> list[dict[str, Any]]:
    return [{"type": "about", "target": f"./{KEYS}"}]


def to_symbol(name: str) -> list[dict[str, Any]]:
    return [{"type": "about", "target": f"./{KEYS}#{name}"}]


def uris(found: Any) -> list[str]:
    return [one["uri"] for one in found]


@pytest.mark.slow
@pytest.mark.parametrize(
    "query", ["rotate_all", "Keys.rotate_all", "rotate_all()", "`rotate_all`", f"{KEYS}#Keys.rotate_all", ROTATE]
)
def test_the_name_or_address_of_a_symbol_finds_the_facts_about_it_first(ask: Ask, query: str) -> None:
    for tool in (ask.search, ask.recall):
        hits = tool(query=query)["hits"]
        assert set(uris(hits)[:2]) == {ABOUT, CITING}
        assert hits[0]["why"][0] == "about the symbol Keys.rotate_all"
    assert set(uris(ask.context(question=query)["items"])[:2]) == {ABOUT, CITING}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rotate_all", "Keys.rotate_all"])
def test_context_of_a_name_has_the_facts_about_its_symbol_first(ask: Ask, name: str) -> None:
    items = ask.context(paths=[name])["items"]
    assert set(uris(items)[:2]) == {ABOUT, CITING}
    assert items[0]["why"] == "about the symbol Keys.rotate_all"
    several = ask.context(paths=[name, "drop"])["items"]
    assert set(uris(several)[:2]) == {ABOUT, CITING}


@pytest.mark.parametrize("names", [["rotate_all"], ["rotate_all", "drop"]])
def test_context_of_a_name_has_the_facts_about_its_file_and_folder_and_the_rules_of_its_area(
    ask: Ask, names: list[str]
) -> None:
    folder = {"type": "about", "target": "./src/auth"}
    ask.put(
        changes=[
            upsert("insight://shop/folder", summary="Only the auth team may change it.", relations=[folder]),
            {
                "op": "upsert",
                "type": "atom",
                "name": "Auth",
                "content": "No plain keys.",
                "data": {"paths": ["src/auth/**"]},
            },
        ]
    )
    found = {one["uri"]: one["why"] for one in ask.context(paths=names)["items"]}
    assert f"about {KEYS}" in found[WHOLE]
    assert found["insight://shop/folder"] == "about src/auth/"
    assert found["atom://shop/Auth"] == f"owns {KEYS}"


@pytest.mark.slow
@pytest.mark.parametrize("address", [f"{KEYS}#Keys.rotate_all", f"./{KEYS}#Keys.rotate_all", ROTATE])
def test_context_of_a_symbol_has_its_facts_first_and_then_the_facts_of_its_file(ask: Ask, address: str) -> None:
    answer = ask.context(paths=[address])
    assert {one["uri"]: one["why"] for one in answer["items"][:2]} == {
        ABOUT: f"about Keys.rotate_all in {KEYS}",
        CITING: f"cites Keys.rotate_all in {KEYS}",
    }
    assert uris(answer["items"])[2] == WHOLE
    assert answer["unmatched_paths"] == [KEYS]
    assert "unknown_lines" not in answer


@pytest.mark.slow
def test_context_of_a_file_names_the_symbols_that_facts_are_about(ask: Ask) -> None:
    ask.put(changes=upsert(CITING, data={"cites": [f"{KEYS}#Keys.rotate_all", f"{KEYS}#drop"]}))
    assert {one["uri"]: one["why"] for one in ask.context(paths=[KEYS])["items"]} == {
        WHOLE: f"about {KEYS}",
        ABOUT: f"about Keys.rotate_all in {KEYS}",
        CITING: f"cites Keys.rotate_all, drop in {KEYS}",
    }


@pytest.mark.slow
def test_a_fact_about_a_line_has_one_reason(ask: Ask) -> None:
    ask.remember(text="It is tested.", about=[f"{KEYS}:2"], cites=[f"{KEYS}:2"])
    found = {one["uri"]: one["why"] for one in ask.context(paths=[f"{KEYS}:2"])["items"]}
    assert found["insight://shop/it-is-tested"] == "about Keys.rotate_all, which contains the line"
    assert found[CITING] == "cites Keys.rotate_all, which contains the line"


@pytest.mark.slow
def test_a_missing_symbol_of_a_file_is_reported_with_the_facts_about_the_file(ask: Ask) -> None:
    answer = ask.context(paths=[f"{KEYS}#Kees"])
    assert answer["unknown_lines"] == [f"{KEYS} has no symbol Kees"]
    assert WHOLE in uris(answer["items"])


@pytest.mark.slow
def test_a_fact_about_a_symbol_that_is_gone_is_still_found_by_its_address(ask: Ask, code: Path) -> None:
    (code / KEYS).write_text("def drop(key):\n    pass\n")
    answer = ask.context(paths=[f"{KEYS}#Keys.rotate_all"])
    assert set(uris(answer["items"])[:2]) == {ABOUT, CITING}
    assert "unknown_lines" not in answer


@pytest.mark.slow
def test_a_fact_about_a_section_of_a_document_is_found_by_its_anchor(ask: Ask) -> None:
    ask.remember(text="It is short.", cites=["README.md#shop"])
    assert [one["why"] for one in ask.context(paths=["README.md#shop"])["items"]] == ["cites shop in README.md"]


@pytest.mark.slow
def test_a_question_with_the_name_of_a_symbol_finds_the_facts_about_it(ask: Ask) -> None:
    for name in ("rotate_all()", "Keys.rotate_all", f"{KEYS}#Keys.rotate_all", f"`{KEYS}#Keys.rotate_all`,"):
        question = f"what happens when {name} fails?"
        hits = {one["uri"]: one["why"] for one in ask.search(query=question)["hits"]}
        assert all("about the symbol Keys.rotate_all" in hits[one] for one in (ABOUT, CITING))
        assert {ABOUT, CITING} <= set(uris(ask.context(question=question)["items"]))


@pytest.mark.parametrize("file", [KEYS, "keys.py"])
def test_a_symbol_may_be_a_plain_word_of_a_question_that_names_its_file(ask: Ask, file: str) -> None:
    ask.put(
        changes=[
            upsert("insight://shop/audit", summary="Every release is audited.", relations=to_symbol("drop")),
            upsert("insight://shop/alike", summary="What does a drop of a key assume about it?", relations=to_file()),
        ]
    )
    found = ask.search(query=f"what does drop in {file} assume about a key?")["hits"]
    assert (found[0]["uri"], found[0]["why"][0]) == ("insight://shop/audit", "about the symbol drop")


@pytest.mark.slow
def test_a_word_of_a_sentence_is_no_name(ask: Ask) -> None:
    ask.remember(text="It frees memory.", about=[f"{KEYS}#drop"])
    assert "insight://shop/it-frees-memory" in uris(ask.search(query="drop")["hits"])
    assert "insight://shop/it-frees-memory" not in uris(ask.recall(query="where do we drop the posters")["hits"])


@pytest.mark.slow
def test_a_node_of_that_name_comes_before_facts_about_a_symbol_of_that_name(ask: Ask) -> None:
    ask.put(changes=upsert("rotate_all", summary="A policy."))
    assert uris(ask.recall(query="rotate_all")["hits"])[0] == "concept://shop/rotate_all"


@pytest.mark.slow
def test_facts_that_a_caller_may_not_read_are_not_found_by_the_symbol(ask: Ask) -> None:
    principal = Principal("tok00001", "reader", "agent", (Scope.of("shop", ["read"], ["/backups", "/src/**"]),))
    narrow = Ask(Session(ask.session.daemon, client="x", principal=principal))
    assert uris(narrow.search(query="rotate_all")["hits"]) == [ABOUT]
    assert uris(narrow.context(paths=[ROTATE])["items"]) == [ABOUT]
    blind = Principal("tok00002", "reader", "agent", (Scope.of("shop", ["read"], ["/backups"]),))
    with pytest.raises(Invalid):
        Ask(Session(ask.session.daemon, client="x", principal=blind)).context(paths=[ROTATE])
