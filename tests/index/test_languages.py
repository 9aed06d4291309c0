"""Words find texts in languages that SQLite's tokenizer does not support."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from kgd.index.database import Database
from kgd.index.text import Doc, FileDoc, TextIndex
from kgd.index.words import terms
from kgd.model.uri import Lane, Uri

pytestmark = pytest.mark.requirement("U7")

NOTES = {
    "session": "会话数据保存在缓存服务器中，三十分钟没有操作就会过期。",
    "pool": "连接池上限为二十个。长时间运行的查询会占满连接。",
    "invoice": "請求書番号は連番で、欠番は許されない。",
    "log": "전화번호와 이메일주소는 로그에 기록하기 전에 반드시 가린다.",
    "thai": "ต้องปิดบังหมายเลขโทรศัพท์และอีเมลก่อนเขียนลงบันทึก",
    "stock": "Der nächtliche Abgleich der Lagerbestände beginnt um zwei Uhr, wenn nicht bestellt wird.",
    "tax": "Die Firma Müller liefert Preise ohne Umsatzsteuer und wird nicht gemahnt.",
    "invoicing": "Une facture émise n'est jamais modifiée ; on crée un avoir.",
    "english": "The broker keeps a queue and a lease.",
}


@pytest.fixture
def index(database: Database) -> TextIndex:
    index = TextIndex(database)
    index.apply([Doc(uri(name), "concept", "", content=text) for name, text in NOTES.items()])
    return index


def uri(name: str) -> Uri:
    return Uri(f"concept://w/{name}")


def found(index: TextIndex, query: str, **options: Any) -> list[str]:
    return [hit.uri.rpartition("/")[2] for hit in index.search(query, **options)]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("缓存", "session"),
        ("会话多久会过期？", "session"),
        ("占满连接的查询", "pool"),
        ("池", "pool"),
        ("人", None),
        ("欠番を出してもいいですか？", "invoice"),
        ("전화번호가 로그에 남나요", "log"),
        ("이메일", "log"),
        ("โทรศัพท์ในบันทึก", "thai"),
        ("อีเ", "thai"),
    ],
)
def test_a_text_without_blanks_is_found_by_its_words(index: TextIndex, query: str, name: str | None) -> None:
    assert found(index, query)[:1] == ([name] if name else [])


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("Wird der Bestand im Lager abgeglichen?", "stock"),
        ("Lager", "stock"),
        ("Steuer", "tax"),
        ("Wann beginnen nächtliche Abgleiche?", "stock"),
        ("Peut-on modifier les factures émises ?", "invoicing"),
        ("factures modifiees", "invoicing"),
    ],
)
def test_a_compound_or_inflected_word_is_found_by_its_parts(index: TextIndex, query: str, name: str) -> None:
    assert found(index, query)[:1] == [name]


@pytest.mark.parametrize("written", ["Müller", "Mueller", "Muller"])
@pytest.mark.parametrize("asked", ["Müller", "mueller", "muller"])
def test_an_umlaut_is_found_in_every_spelling(database: Database, written: str, asked: str) -> None:
    index = TextIndex(database)
    index.apply([Doc(uri("a"), "concept", "", content=f"Ask {written} about it."), Doc(uri("b"), "concept", "Miller")])
    assert found(index, asked) == (["a"] if (written, asked) != ("Muller", "mueller") else [])


def test_a_hit_shows_the_text_as_written_and_the_words_of_the_question(index: TextIndex) -> None:
    [hit] = index.search("缓存服务器", limit=1)
    assert hit.snippet == NOTES["session"]
    assert hit.why == ("content: 缓存服务器",)
    [hit] = index.search("Steuer", limit=1)
    assert hit.snippet == NOTES["tax"]


def test_a_name_counts_more_than_content_in_every_script(index: TextIndex) -> None:
    index.apply([Doc(uri("named"), "concept", "连接池", content="其他内容。")])
    assert found(index, "连接池")[0] == "named"


def test_words_of_other_scripts_are_found_in_paths(index: TextIndex) -> None:
    path = "docs/データベース設計.md"
    index.apply_files([FileDoc(Uri("file://w/docs/x"), path, "markdown")])
    assert index.bare_files("設計")[0].uri == Uri("file://w/docs/x")


@pytest.mark.parametrize("query", ["缓存服务器", "Wird der Bestand im Lager abgeglichen?", "Steuer", "โทรศัพท์"])
def test_a_restricted_caller_finds_the_same_words(index: TextIndex, query: str) -> None:
    every = found(index, query)
    assert found(index, query, sees=lambda one: True)[:1] == every[:1]
    hidden = uri(every[0])
    assert every[0] not in found(index, query, sees=lambda one: one != hidden)


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("The optimizer drops empty steps.", "where is it optimised"),
        ("We initialise it lazily.", "initialization"),
        ("The color of a badge", "badge colours"),
        ("Retries are cancelled.", "canceled retries"),
        ("The analyzer of logs", "who analyses logs"),
        ("A catalog of parts", "the catalogue"),
        ("Text is centered.", "centre"),
        ("Licence checks", "license"),
    ],
)
def test_a_british_word_finds_its_american_spelling_and_the_reverse(
    database: Database, written: str, asked: str
) -> None:
    index = TextIndex(database)
    index.apply([Doc(uri("a"), "concept", "", content=written), Doc(uri("b"), "concept", "", content="Something else")])
    assert found(index, asked) == ["a"]
    assert found(index, asked, sees=lambda one: True) == ["a"]


@pytest.mark.parametrize(("written", "is_known"), [("A color", False), ("A colour", True)])
def test_a_word_that_occurs_only_in_another_spelling_is_found_and_counts_as_missing(
    database: Database, written: str, is_known: bool
) -> None:
    index = TextIndex(database)
    index.apply([Doc(uri("a"), "concept", "", content=f"{written} of a badge")])
    gathered = index.gather("the colour of badges", Lane.NOTES, limit=10)
    assert [one.uri for one in gathered.texts] == [uri("a")]
    assert ("colour" in gathered.known) == is_known


def test_a_path_is_found_in_another_spelling(database: Database) -> None:
    index = TextIndex(database)
    index.apply_files([FileDoc(Uri("file://ws/src/serializer.py"), "src/serializer.py", "python")])
    assert [hit.uri for hit in index.bare_files("how are orders serialised", limit=3)] == [
        "file://ws/src/serializer.py"
    ]


@pytest.mark.parametrize("query", ["lease", "the broker and its queue", "brok", "getUserName"])
def test_an_english_question_asks_for_nothing_more(query: str) -> None:
    asked: Sequence[str] = [term.match for term in terms(query)]
    assert not any("\ue000" in match or "*" in match for match in asked)
