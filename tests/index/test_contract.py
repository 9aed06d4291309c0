"""The contract of a text index: SQLite's, and a reference in plain dictionaries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kgd.index.database import Database
from kgd.index.ranking import ALL, FILE, FILE_SOME, SOME
from kgd.index.text import Doc, FileDoc, Gathered, TextIndex
from kgd.model.node import Source
from kgd.model.uri import KNOWLEDGE, LANES, Lane, Uri
from tests.index.memory_index import MemoryIndex

FILE_A = Uri("file://w/docs/a.md")


@pytest.fixture(params=["sqlite", "memory"])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TextIndex | MemoryIndex]:
    if request.param == "memory":
        yield MemoryIndex()
    else:
        database = Database(tmp_path / "index.db")
        yield TextIndex(database)
        database.close()


def uri(name: str) -> Uri:
    return Uri(name if "://" in name else f"concept://w/{name}")


def doc(at: str, /, **fields: object) -> Doc:
    scheme = uri(at).partition(":")[0]
    return Doc(**{"uri": uri(at), "type": scheme, "name": "", **fields})  # type: ignore[arg-type]


def found(index: TextIndex, query: str, **narrowed: object) -> list[str]:
    return [hit.uri for hit in index.search(query, limit=50, **narrowed)]  # type: ignore[arg-type]


def gather(index: TextIndex, query: str, **options: object) -> list[Gathered]:
    """The texts of each lane, in the order of lanes."""
    return [index.gather(query, lane, **options) for lane in LANES]  # type: ignore[arg-type]


def gathered(index: TextIndex, query: str, **narrowed: object) -> set[str]:
    return {one.uri for lane in gather(index, query, **narrowed) for one in lane.texts}


def test_all_words_then_some_then_bare_files_and_scores_fall(index: TextIndex) -> None:
    index.apply([doc("all", content="a lease of the broker"), doc("some", name="lease"), doc("none", name="bread")])
    index.apply_files([FileDoc(Uri("file://w/lease/broker.py"), "lease/broker.py", "python")])
    hits = index.search("lease broker")
    assert [hit.uri for hit in hits] == [uri("all"), uri("some"), "file://w/lease/broker.py"]
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(0 <= hit.score <= 1 and hit.why for hit in hits[:2])
    tiers = {one.uri: one.tier for one in index.gather("lease broker", Lane.NOTES).texts}
    assert tiers == {uri("all"): ALL, uri("some"): SOME}


def test_types_tags_and_namespace_narrow_every_answer(index: TextIndex) -> None:
    index.apply(
        [
            doc("s/a", name="key", tags=("X",)),
            doc("s/b", name="key", type="task"),
            doc("sx", name="key", tags=("x", "y")),
        ]
    )
    for narrowed, expected in (
        ({"types": ["task"]}, {uri("s/b")}),
        ({"tags": ["x"]}, {uri("s/a"), uri("sx")}),
        ({"namespace": "s"}, {uri("s/a"), uri("s/b")}),
        ({"namespace": "/s/", "tags": ["x"]}, {uri("s/a")}),
        ({"types": ["nothing"]}, set()),
    ):
        assert set(found(index, "key", **narrowed)) == expected
        assert gathered(index, "key", **narrowed) == expected
        passing = index.passing([uri("s/a"), uri("s/b"), uri("sx"), uri("gone")], **narrowed)
        assert [one.uri for one in passing] == sorted(expected)
        assert set(index.few_in(**narrowed) or ()) == expected


def test_each_lane_has_its_own_texts_and_answers_may_be_narrowed_to_some_lanes(index: TextIndex) -> None:
    note, chunk, symbol = uri("note"), uri("chunk://w/docs/a.md/0001"), uri("symbol://w/a.py/leases")
    index.apply([doc("note", content="leases"), doc(chunk, content="a word on leases")])
    index.apply_trees({FILE_A: [doc("chunk://w/docs/a.md/0002", content="leases"), doc(symbol, name="leases")]})
    index.apply_files([FileDoc(uri("file://w/leases.py"), "leases.py", "python")])
    of_code = {uri("chunk://w/docs/a.md/0002"), symbol}
    notes, sources, code = ({one.uri for one in lane.texts} for lane in gather(index, "leases"))
    assert (notes, sources, code) == ({note}, {chunk}, of_code)
    assert found(index, "leases", lanes=KNOWLEDGE) == [note, chunk]
    assert set(found(index, "leases", lanes=[Lane.CODE])) == {*of_code, "file://w/leases.py"}
    assert set(index.few_in(lanes=KNOWLEDGE) or ()) == {note, chunk}
    passing = {one.uri: one.lane for one in index.passing([note, chunk, symbol])}
    assert passing == {note: Lane.NOTES, chunk: Lane.SOURCES, symbol: Lane.CODE}
    assert {one.uri for one in index.passing([note, chunk, symbol], lanes=KNOWLEDGE)} == {note, chunk}


def test_a_node_without_any_text_of_its_own_is_in_no_lane(index: TextIndex) -> None:
    index.apply([doc("leases", bare=True), doc("note", content="leases")])
    assert found(index, "leases") == [uri("note")]
    assert gathered(index, "leases") == {uri("note")}
    assert (index.count(), index.few_in(lanes=LANES)) == (2, [uri("note")])
    index.apply([doc("leases", content="known now")])
    assert set(found(index, "leases")) == {uri("leases"), uri("note")}
    index.apply([doc("leases", bare=True)])
    assert found(index, "leases") == [uri("note")]


def test_the_share_of_the_words_is_known_for_each_text_of_a_lane(index: TextIndex) -> None:
    index.apply([doc("all", content="a lease of the broker"), doc("some", content="a lease"), doc("none", name="x")])
    answer = index.gather("lease broker", Lane.NOTES)
    covered = {one.uri: answer.covered[one.id] for one in answer.texts}
    assert covered[uri("all")] == 1.0
    assert 0 < covered[uri("some")] < 1


def test_it_knows_which_types_there_are(index: TextIndex) -> None:
    assert (index.types(), index.has_type("task")) == ([], False)
    index.apply([doc("a"), doc("b", type="task"), doc("c", type="task")])
    index.apply_trees({FILE_A: [doc("symbol://w/a.py/leases")]})
    assert index.types() == ["concept", "symbol", "task"]
    index.apply_files([FileDoc(uri("file://w/leases.py"), "leases.py", "python")])
    assert index.types() == ["concept", "dir", "file", "symbol", "task"]
    known = {type for type in (*index.types(), "resource", "python", "gotcha", "") if index.has_type(type)}
    assert known == {"concept", "file", "python", "resource", "symbol", "task"}


def test_replaced_and_removed_texts_are_not_found(index: TextIndex) -> None:
    index.apply([doc("a", content="old words", tags=("t",)), doc("b", content="old")], tree="1")
    index.apply([doc("a", content="new")], [uri("b"), uri("unknown")], tree="2")
    assert (found(index, "old"), found(index, "new"), index.by_tags(["t"])) == ([], [uri("a")], [])
    assert (index.count(), index.tree(), gathered(index, "old")) == (1, "2", set())


def test_texts_of_a_file_are_separate_from_stored_ones_and_disappear_with_the_file(index: TextIndex) -> None:
    chunk, other = "chunk://w/docs/a.md/0001", "chunk://w/docs/a.md/0002"
    index.apply([doc(chunk, content="a comment on leases")])
    index.apply_trees({FILE_A: [doc(chunk, content="brokers and quorum"), doc(other, content="bread")]})
    assert found(index, "quorum") == found(index, "leases") == [chunk]
    assert found(index, "quorum leases") == [chunk]  # found once
    numbers = {one.uri: one.id for one in index.gather("bread", Lane.CODE).texts}
    index.apply_trees({FILE_A: [doc(chunk, content="brokers, anew"), doc(other, content="bread")]})
    assert {
        one.uri: one.id for one in index.gather("bread", Lane.CODE).texts
    } == numbers  # unchanged texts are not stored again
    index.apply_trees({FILE_A: [doc(chunk, content="brokers")]})
    assert (found(index, "quorum"), found(index, "bread"), found(index, "brokers")) == ([], [], [chunk])
    index.apply_trees({FILE_A: []})
    assert (found(index, "brokers"), found(index, "leases")) == ([], [chunk])


def test_a_document_has_the_words_of_all_its_chunks_as_they_are_now(index: TextIndex) -> None:
    index.apply(
        [
            doc("chunk://w/guide/1", content="lease"),
            doc("chunk://w/guide/2", content="broker"),
            doc("chunk://w/other/1", content="lease"),
        ]
    )
    wholes = index.gather("lease broker together here", Lane.SOURCES).wholes
    assert set(wholes) == {"guide", "other"}
    assert wholes["guide"] > wholes["other"]
    index.apply([], [uri("chunk://w/guide/1"), uri("chunk://w/other/1")])
    assert set(index.gather("lease broker together here", Lane.SOURCES).wholes) == {"guide"}


def test_a_message_is_found_together_with_those_beside_it_and_no_others(index: TextIndex) -> None:
    texts = ("which database", "postgres", "fine", "lunch")
    index.apply([doc(f"message://w/t/{n}", content=text) for n, text in enumerate(texts)])
    index.apply([doc("message://w/u/2", content="bread")])
    beside = {one.uri for one in index.gather("which database is it", Lane.SOURCES).beside}
    assert beside == {"message://w/t/0", "message://w/t/1"}
    index.apply([doc("message://w/t/0a", content="well")])
    assert {one.uri for one in index.gather("which database is it", Lane.SOURCES).beside} == {
        "message://w/t/0",
        "message://w/t/0a",
    }
    index.apply([], [uri("message://w/t/0")])
    assert index.gather("which database is it", Lane.SOURCES).beside == []
    assert index.gather("postgres", Lane.SOURCES, surrounded=False).beside == []


def test_speakers_are_known_for_messages_and_conversations_in_a_text(index: TextIndex) -> None:
    index.apply(
        [
            doc("message://w/t/1", content="lease", people=("Ann Lee",)),
            doc("talk", content="lease\nBob: Hello.\nAnn: Hi.\nBob: A lease.\nAnn: No."),
            doc("none", content="a lease: nothing"),
        ]
    )
    ids = {one.id: one.uri for lane in gather(index, "lease") for one in lane.texts}
    said = {name: {ids[id] for id in index.by_people([name], list(ids))} for name in ("ann", "bob", "lee", "eve")}
    assert said == {
        "ann": {"message://w/t/1", uri("talk")},
        "bob": {uri("talk")},
        "lee": {"message://w/t/1"},
        "eve": set(),
    }


def test_a_file_whose_name_is_no_text_keeps_no_other_from_being_found(index: TextIndex) -> None:
    index.apply_files(
        [
            FileDoc(uri("file://w/%FF.py"), "\udcff.py", "python"),
            FileDoc(uri("file://w/session.py"), "session.py", "python"),
        ]
    )
    assert [one.uri for one in index.bare_files("session")] == ["file://w/session.py"]


def test_bare_files_with_all_words_are_apart_from_those_with_some(index: TextIndex) -> None:
    paths = ("src/auth/session.py", "src/auth/keys.py", "docs/readme.md")
    index.apply_files([FileDoc(Uri(f"file://w/{path}"), path, "python") for path in paths])
    tiers = [(one.uri, one.tier) for one in index.bare_files("auth session")]
    assert tiers == [("file://w/src/auth/session.py", FILE), ("file://w/src/auth/keys.py", FILE_SOME)]
    index.apply([doc("file://w/src/auth/session.py", type="resource", summary="signs")])
    assert [one.uri for one in index.bare_files("auth session")] == ["file://w/src/auth/keys.py"]
    assert [one.uri for one in index.bare_files("auth", namespace="docs")] == []


def test_tags_sources_and_the_newest(index: TextIndex) -> None:
    mail = Source("mail", "1")
    index.apply(
        [
            doc("old", tags=("a", "b"), updated=1, source=mail),
            doc("new", tags=("A",), updated=9, source=mail),
            doc("z", tags=("b",), updated=5),
            doc("m", tags=("b",), updated=5),
        ]
    )
    assert [hit.uri for hit in index.by_tags(["a", "b"])] == [uri(name) for name in ("old", "new", "m", "z")]
    assert (index.by_source("mail"), index.by_source("mail", "2")) == ([uri("new"), uri("old")], [])
    assert index.newest("concept", 3) == [uri("new"), uri("m"), uri("z")]


@pytest.mark.parametrize(
    "query", ["", "AND", '"', "NEAR(a", "*", "\x00", "\ud800", "a" * 100_000, "数据", "the of", "x y z"]
)
def test_any_text_is_a_question(index: TextIndex, query: str) -> None:
    index.apply([doc("a", name="数据 the")])
    index.search(query)
    index.explain(query, index.gather(query, Lane.NOTES).texts)
    index.bare_files(query)


def test_equal_texts_are_ordered_by_uri_not_by_time(index: TextIndex) -> None:
    index.apply([doc(f"n{n}", name="lease") for n in (5, 2, 9)])
    index.apply([doc(f"n{n}", name="lease") for n in (1, 7, 2)])
    assert found(index, "lease") == [uri(f"n{n}") for n in (1, 2, 5, 7, 9)]
    assert [hit.uri for hit in index.search("lease", limit=4)[2:]] == [uri("n5"), uri("n7")]


def test_of_many_equal_texts_a_short_list_has_the_first_by_uri_behind_the_better_ones(index: TextIndex) -> None:
    better = [doc(f"z{n}", name="lease renewal", tags=("kept",)) for n in (2, 1)]
    index.apply([*(doc(f"n{n:03}", name="lease", tags=("kept",)) for n in range(199, 0, -1)), *better])
    first = [uri("z1"), uri("z2"), uri("n001"), uri("n002"), uri("n003")]
    assert [hit.uri for hit in index.search("renewal lease", limit=5)] == first
    assert [hit.uri for hit in index.search("renewal lease", limit=5, tags=["kept"])] == first
    assert [hit.uri for hit in index.search("lease", limit=199)[197:]] == [uri("n198"), uri("n199")]
