"""The index keeps no second copy of a node's text: it reads the text from git."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from kgd.model.change import Delete
from kgd.workspace.workspace import Workspace
from tests.builders import change, upsert, uri

CONTENT = "A holder renews its lease before the deadline."


def asked(ws: Workspace, sql: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(ws.derived_dir / "index.sqlite", isolation_level=None)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def found(ws: Workspace, query: str) -> list[str]:
    return [hit.uri for hit in ws.text().search(query)]


def indexed(ws: Workspace, word: str) -> int:
    return len(asked(ws, f"SELECT rowid FROM notes_text WHERE notes_text MATCH '{word}'"))


def test_a_text_is_found_and_shown_and_not_stored(reopen: Callable[[], Workspace]) -> None:
    ws = reopen()
    ws.submit(change(upsert("lease", name="Lease", summary="A right", content=CONTENT, tags=("clock",))))
    [hit] = ws.text().search("deadline")
    assert (hit.uri, hit.snippet, hit.why) == (uri("lease"), CONTENT, ("content: deadline",))
    [text] = ws.feed().newest(1)
    assert (text.name, text.summary, text.content) == ("Lease", "A right", CONTENT)
    [tagged] = ws.text().by_tags(["clock"])
    assert tagged.snippet == "A right"
    assert asked(ws, "SELECT * FROM text") == []


def test_no_word_of_a_replaced_or_removed_text_stays(reopen: Callable[[], Workspace]) -> None:
    ws = reopen()
    ws.submit(change(upsert("lease", content=CONTENT), upsert("other", content="deadline")))
    ws.submit(change(upsert("lease", content="A holder renews it in time.", expect_version=1)))
    assert (found(ws, "deadline"), found(ws, "renews time")) == ([uri("other")], [uri("lease")])
    assert indexed(ws, "deadline") == 1
    ws.submit(change(Delete(uri("lease")), Delete(uri("other"))))
    assert found(ws, "deadline") == []
    assert [indexed(ws, word) for word in ("deadline", "holder", "lease", "other")] == [0, 0, 0, 0]


def test_an_index_is_rebuilt_if_a_text_cannot_be_removed_from_it(reopen: Callable[[], Workspace]) -> None:
    ws = reopen()
    ws.submit(change(upsert("lease", content=CONTENT), upsert("other", content="deadline")))
    assert len(found(ws, "deadline")) == 2
    era = ws.feed().end().era
    asked(ws, "UPDATE docs SET blob = x'0123456789012345678901234567890123456789'")
    assert {hit.snippet for hit in ws.text().search("deadline")} == {""}
    ws.submit(change(upsert("lease", content="A holder renews it in time.", expect_version=1)))
    assert (found(ws, "deadline"), found(ws, "renews time")) == ([uri("other")], [uri("lease")])
    assert ws.feed().end().era != era
    assert indexed(ws, "deadline") == 1
