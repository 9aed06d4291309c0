"""Questions of all kinds, and the order of their answers."""

from __future__ import annotations

import random
import string
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgd.index import ranking
from kgd.index.database import Database
from kgd.index.text import Doc, FileDoc, TextIndex
from kgd.index.words import terms
from kgd.model.uri import Lane, Uri


def uri(name: str) -> Uri:
    return Uri(f"concept://w/{name}")


def doc(at: str, /, **fields: Any) -> Doc:
    return Doc(**{"uri": uri(at), "type": "concept", "name": "", **fields})


def found(index: TextIndex, query: str, **options: Any) -> list[str]:
    return [hit.uri.split("/", 3)[3] for hit in index.search(query, **options)]


@pytest.fixture
def index(database: Database) -> TextIndex:
    return TextIndex(database)


def test_a_name_counts_more_than_tags_than_summary_than_content(index: TextIndex) -> None:
    index.apply(
        [
            doc("a", content="token"),
            doc("b", summary="token"),
            doc("c", tags=("token",)),
            doc("d", name="token"),
            doc("e", name="other"),
        ]
    )
    assert found(index, "token") == ["d", "c", "b", "a"]


def test_all_words_come_before_some_words(index: TextIndex) -> None:
    index.apply(
        [doc("some", name="key key key", summary="key"), doc("all", content="long text on a key and its token")]
    )
    index.apply([doc(f"n{n}", name="filler") for n in range(9)])
    hits = index.search("key token")
    assert [hit.uri for hit in hits] == [uri("all"), uri("some")]
    assert hits[0].score > hits[1].score


def test_word_forms_and_accents_are_the_same_word(index: TextIndex) -> None:
    index.apply([doc("a", content="Rotates the keys"), doc("b", content="Das Café"), doc("c", content="nothing")])
    assert found(index, "rotating key") == ["a"]
    assert found(index, "cafe") == ["b"]


def test_the_last_word_may_be_unfinished_and_whole_words_come_first(index: TextIndex) -> None:
    index.apply([doc("a", name="token bucket"), doc("b", name="token buck"), doc("c", name="toke")])
    assert found(index, "token buck") == ["b", "a"]
    assert found(index, "bucket tok")[0] == "a"


@pytest.mark.parametrize(
    "query", ["getUserName", "get_user_name", "user name", "USER_NAME", "get.user.name", "userName"]
)
def test_identifiers_are_found_by_their_parts_however_they_are_written(index: TextIndex, query: str) -> None:
    index.apply(
        [
            doc("camel", content="calls getUserName() twice"),
            doc("snake", content="calls get_user_name"),
            doc("other", content="gets a used named thing"),
        ]
    )
    assert set(found(index, query)[:2]) == {"camel", "snake"}


def test_the_path_of_a_uri_is_searched_too(index: TextIndex) -> None:
    index.apply([doc("services/auth/sessionStore", name="x"), doc("other", name="y")])
    assert found(index, "services auth") == found(index, "session store") == ["services/auth/sessionStore"]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("数据库的设计文档", "设计"),
        ("データベースの設計", "設計"),
        ("проверка ключей доступа", "ключей"),
        ("كلمة المرور الجديدة", "المرور"),
        ("API文档", "文档"),
        ("สวัสดีครับ", "สวัสดี"),
    ],
)
def test_other_scripts_are_searched(index: TextIndex, text: str, query: str) -> None:
    index.apply([doc("a", content=text), doc("b", content="something else")])
    [hit] = index.search(query)
    assert (hit.uri, bool(hit.why)) == (uri("a"), True)


def test_a_word_is_named_once_in_the_field_where_it_counts_most(index: TextIndex) -> None:
    index.apply(
        [doc("session-keys", name="Session keys", summary="Session keys rotate", content="keys rotate at night")]
    )
    assert index.search("session keys rotate")[0].why == ("name: keys, session", "summary: rotate")


def test_why_names_the_words_and_the_fields_and_the_snippet_is_around_them(index: TextIndex) -> None:
    index.apply(
        [doc("a", name="Session keys", tags=("auth",), content="x " * 300 + "they rotate every night " + "y " * 300)]
    )
    [hit] = index.search("auth rotation key")
    assert hit.why == ("name: keys", "tags: auth", "content: rotate")
    assert "they rotate every night" in hit.snippet
    assert len(hit.snippet) <= 162
    assert "\n" not in hit.snippet


def test_types_tags_and_namespace_narrow_an_answer(index: TextIndex) -> None:
    index.apply(
        [
            doc("s/a", name="key", tags=("x", "y")),
            doc("s/b", name="key", type="task"),
            doc("sx", name="key"),
            doc("t/a", name="key", tags=("Y",)),
        ]
    )
    assert found(index, "key", types=["task"]) == ["s/b"]
    assert sorted(found(index, "key", tags=["y", "z"])) == ["s/a", "t/a"]
    assert sorted(found(index, "key", namespace="s")) == ["s/a", "s/b"]
    assert found(index, "key", namespace="/s/", types=["concept"]) == ["s/a"]


def test_pages_follow_one_another(index: TextIndex) -> None:
    index.apply([doc(f"n{n:02d}", name="key", content="token " * (n % 3)) for n in range(25)])
    index.apply_files([FileDoc(Uri(f"file://w/key/{n}.py"), f"key/{n}.py", "python") for n in range(8)])
    whole = index.search("key token", limit=40)
    assert len(whole) == 33
    pages = [hit for offset in range(0, 40, 7) for hit in index.search("key token", limit=offset + 7)[offset:]]
    assert [h.uri for h in pages] == [h.uri for h in whole]
    assert [h.score for h in whole] == sorted((h.score for h in whole), reverse=True)
    assert index.search("key", limit=0) == []


def test_the_order_does_not_depend_on_the_order_of_writing(tmp_path: Path) -> None:
    docs = [
        doc(f"n{n:03d}", name="key", content=random.Random(n % 7).choice(["token", "lock", "door"])) for n in range(150)
    ]
    answers = []
    for seed in range(3):
        database = Database(tmp_path / f"{seed}.db")
        index = TextIndex(database)
        shuffled = random.Random(seed).sample(docs, len(docs))
        index.apply(shuffled[:90], tree="a")
        index.apply(shuffled[40:], [doc.uri for doc in shuffled[:3]])
        index.apply(shuffled[:3])
        answers.append(
            [index.search(q, limit=12 + o)[o:] for q in ("key", "key token", "lock or door") for o in (0, 5)]
        )
        database.close()
    assert answers[0] == answers[1] == answers[2]
    assert [hit.uri for hit in answers[0][0]] == [uri(f"n{n:03d}") for n in range(12)]


def test_knowledge_comes_before_bare_files_and_a_file_with_knowledge_is_not_bare(index: TextIndex) -> None:
    note = Uri("file://w/src/auth.py")
    index.apply([doc("a", content="something on auth"), Doc(note, "resource", "", summary="who may do what")])
    index.apply_files(
        [
            FileDoc(note, "src/auth.py", "python"),
            FileDoc(Uri("file://w/auth/x.go"), "auth/x.go", "go"),
            FileDoc(Uri("dir://w/auth"), "auth", "directory"),
        ]
    )
    hits = index.search("auth")
    assert {hit.uri for hit in hits[:2]} == {uri("a"), note}
    assert {hit.uri for hit in hits[2:]} == {"file://w/auth/x.go", "dir://w/auth"}
    assert hits[2].why
    assert [h.uri for h in index.search("auth", types=["go"])] == ["file://w/auth/x.go"]
    assert [h.uri for h in index.search("auth", types=["resource"])] == [note, "file://w/auth/x.go"]
    index.apply_files([], [Uri("dir://w/auth"), Uri("dir://w/unknown")])
    assert len(index.search("auth")) == 3


def test_replaced_and_removed_documents_are_not_found(index: TextIndex) -> None:
    index.apply([doc("a", content="old words", tags=("t",)), doc("b", content="old")])
    index.apply([doc("a", content="new")], [uri("b"), uri("unknown")], tree="ff")
    assert (found(index, "old"), found(index, "new"), index.by_tags(["t"])) == ([], ["a"], [])
    assert (index.count(), index.tree()) == (1, "ff")


@pytest.mark.requirement("M2")
def test_the_newest_of_a_type_come_first(index: TextIndex) -> None:
    index.apply(
        [
            doc("old", updated=1, type="task"),
            doc("b", updated=5, type="task"),
            doc("a", updated=5, type="task"),
            doc("new", updated=9),
        ]
    )
    assert index.newest("task", 2) == [uri("a"), uri("b")]
    index.apply([doc("old", updated=10, type="task")], [uri("a")])
    assert index.newest("task", 9) == [uri("old"), uri("b")]


def test_tags_rank_by_matches_then_newest_then_uri(index: TextIndex) -> None:
    index.apply(
        [
            doc("old", tags=("a", "b"), updated=1),
            doc("new", tags=("a",), updated=9),
            doc("z", tags=("b",), updated=5),
            doc("m", tags=("b",), updated=5),
            doc("no", tags=("c",)),
            doc("task", tags=("a", "b"), type="task", updated=0, summary="Its subject"),
        ]
    )
    hits = index.by_tags(["A", "b", "a"])
    assert [hit.uri.rsplit("/", 1)[1] for hit in hits] == ["old", "task", "new", "m", "z"]
    assert hits[1].why == ("tags: a, b",)
    assert hits[1].snippet == "Its subject"
    assert [hit.uri for hit in index.by_tags(["a", "b"], limit=2)] == [uri("old"), uri("task")]
    assert [hit.uri for hit in index.by_tags(["a"], types=["task"])] == [uri("task")]
    assert index.by_tags([]) == []


HOSTILE = [
    "AND",
    "a AND",
    "NOT",
    "NEAR(a b)",
    '"',
    '""',
    '"unclosed',
    "name : x",
    "{name} : x",
    "a*",
    "^a",
    "a + b",
    "(",
    ")",
    "'; DROP TABLE docs; --",
    "\x00",
    "\x01\x02",
    "\ud800",
    "%",
    "_",
    "*",
    "-a",
    "a OR",
    "😀",
    "the of and",
    "?",
    "\\",
]


@pytest.mark.parametrize("query", HOSTILE)
def test_any_text_is_a_valid_query(index: TextIndex, query: str) -> None:
    index.apply([doc("a", name="a b x", content=query, tags=("t",), summary="\x01 the \x02")])
    for text in (query, query * 50, f"{query} key", f"key {query}"):
        assert isinstance(index.search(text), list)
        index.by_tags([text.encode("utf-8", "replace").decode()])


def test_a_query_of_stopwords_still_finds_texts_with_them(index: TextIndex) -> None:
    index.apply([doc("a", content="to be or not to be"), doc("b", content="else")])
    assert found(index, "to be or not to be") == ["a"]


def test_the_letters_before_the_apostrophe_of_a_negation_are_no_word(index: TextIndex) -> None:
    index.apply([doc("a", content="It isn't there, and it doesn't say so."), doc("b", content="A helper is visible.")])
    assert found(index, "why isn't the helper visible") == found(index, "why doesn’t it stay visible") == ["b"]
    assert found(index, "isn't") == ["a"], "without another word"


@pytest.mark.parametrize("verb", ["", " defines", " contains", " implements", " holds"])
def test_the_beginning_of_a_question_about_a_place_is_no_subject(verb: str) -> None:
    assert [term.word for term in terms(f"which file{verb} the default settings?")] == ["default", "settings"]
    assert [term.word for term in terms("what defines a file?")] == ["defines", "file"]


@pytest.fixture(scope="module")
def any_index(tmp_path_factory: pytest.TempPathFactory) -> TextIndex:
    index = TextIndex(Database(tmp_path_factory.mktemp("any") / "index.db"))
    index.apply([doc("a", name="getUserName 数据 Straße", content="İstanbul ﬁle ꜱmall \u0301 ё")])
    return index


@given(st.text(max_size=60))
def test_any_text_is_a_question(any_index: TextIndex, query: str) -> None:
    any_index.search(query)


@given(st.text(max_size=200))
def test_any_text_can_be_indexed_and_explained(any_index: TextIndex, text: str) -> None:
    any_index.apply([doc("b", name="needle", summary=text, content=text, data_text=text)])
    assert uri("b") in {hit.uri for hit in any_index.search("needle")}


LONG = {
    "one word": "x" * 100_000,
    "a word again and again": "word " * 20_000,
    "many words": " ".join(f"w{n}" for n in range(17_000)),
    "one identifier": "aB" * 50_000,
    "operators": '"(' * 50_000,
    "unspaced": "数" * 100_000,
}


@pytest.mark.parametrize("kind", LONG)
def test_a_question_of_100_kb_is_answered_in_bounded_time(index: TextIndex, kind: str) -> None:
    chance = random.Random(0)
    index.apply([doc(f"n{n}", content=" ".join(f"w{chance.randrange(500)}" for _ in range(50))) for n in range(300)])
    begun = time.process_time()
    index.search(LONG[kind])
    index.apply([doc("long", content=LONG[kind])])
    index.search("w1 long")
    assert time.process_time() - begun < 2


@pytest.mark.slow
def test_a_large_index_loses_little_by_not_looking_at_common_words(
    index: TextIndex, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking, "LARGE", 1000)
    chance = random.Random(3)
    words = ["".join(chance.choices(string.ascii_lowercase, k=6)) + "x" for _ in range(3000)]
    weights = [1 / (n + 3) for n in range(len(words))]
    index.apply([doc(f"n{n:04d}", content=" ".join(chance.choices(words, weights, k=60))) for n in range(2000)])
    overlap = 0
    for _ in range(10):
        query = " ".join(chance.choices(words, weights, k=8))
        match = " OR ".join(f'"{word}"' for word in set(query.split()))
        with database.read() as connection:
            sql = "SELECT uri FROM notes_text JOIN docs ON id = notes_text.rowid WHERE notes_text MATCH ?"
            rows = connection.execute(f"{sql} ORDER BY bm25(notes_text, {ranking.TEXT_WEIGHTS}) LIMIT 10", (match,))
            plain = [uri for (uri,) in rows]
        overlap += len({hit.uri for hit in index.search(query)} & set(plain))
    assert overlap >= 80
    common = " ".join(words[:4])
    assert len(index.search(common)) == 10


def test_the_share_of_the_words_is_the_same_if_common_words_are_left_out_of_the_first_pass(
    index: TextIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(5)
    common = [f"common{letter}" for letter in "abcdefgh"]
    texts = [[*chance.sample(common, 3), *(["lease"] if number % 25 == 0 else [])] for number in range(300)]
    index.apply([doc(f"n{number:03d}", content=" ".join(words)) for number, words in enumerate(texts)])
    question = " ".join(["lease", *common[:5], "broker"])
    every = index.gather(question, Lane.NOTES, limit=300)
    monkeypatch.setattr(ranking, "LARGE", 100)
    monkeypatch.setattr(ranking, "FEWEST_LOOKED_AT", 20)
    some = index.gather(question, Lane.NOTES, limit=300)
    assert (len(every.texts), len(some.texts)) == (298, 12)
    assert some.covered == {id: share for id, share in every.covered.items() if id in some.covered}
    assert some.known == every.known
    assert len(set(some.covered.values())) > 3


@pytest.mark.parametrize("equal", [20, 200])
def test_of_many_equal_texts_those_that_sort_first_are_found(index: TextIndex, equal: int) -> None:
    names = [f"n{n:03d}" for n in range(equal)]
    index.apply([doc(name, content="lease") for name in random.Random(1).sample(names, equal)])
    assert found(index, "lease") == names[:10]
    assert [one.uri for one in index.gather("lease", Lane.NOTES, limit=15).texts] == [uri(name) for name in names[:15]]
