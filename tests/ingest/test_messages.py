"""Conversations become threads: each message once and in order; a repeated ingest only adds new ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from kgd.errors import Forbidden, Invalid
from kgd.ingest import conversation_formats, kinds, message_ingest
from kgd.ingest.document_reader import DocumentReader
from kgd.ingest.kind import Around, Given
from kgd.model.change import Delete, Move, Upsert
from kgd.model.node import Source
from kgd.model.uri import Uri
from kgd.workspace.workspace import Workspace
from tests.builders import change, new_layout
from tests.ingest.talk import history, lines, new, replies, said, taken, texts, told, written

STANDUP = "thread://ws/standup"


@pytest.mark.requirement("U9")
def test_messages_are_nodes_in_a_chain_that_is_read_back_in_order(plain: Workspace) -> None:
    [found] = taken(
        plain,
        lines(
            said("Why Postgres?", 0, sender="ann"),
            said(
                "Row locks.", 5, "assistant", tool_calls=[{"id": "t1", "function": {"name": "look", "arguments": "{}"}}]
            ),
            said("3 hits", 5, "tool", tool_call_id="t1", name="search"),
            said("Fine.", 9, sender="ann"),
        ),
    )
    assert found.uri == STANDUP
    assert [name for name, _ in told(plain, STANDUP)] == [
        "user:2026-11-20T10:00:00Z",
        "assistant:2026-11-20T10:00:05Z",
        "tool:2026-11-20T10:00:05Z",
        "user:2026-11-20T10:00:09Z",
    ]
    first, second, third, _ = (plain.node(one.uri) for one in history(plain, found.uri))
    assert first is not None
    assert second is not None
    assert third is not None
    assert first.uri.startswith("message://ws/standup/")
    assert len(first.uri.rpartition("/")[2]) == 26
    assert first.data == {"senderId": "ann", "senderType": "user"}
    assert second.data["toolCalls"] == [{"id": "t1", "name": "look", "arguments": "{}"}]
    assert third.data["toolCallId"] == "t1"
    assert replies(plain, STANDUP) == {("Why Postgres?", "Row locks."), ("Row locks.", "3 hits"), ("3 hits", "Fine.")}
    assert plain.text().by_source("conversation", "standup.jsonl")[-1] == STANDUP


@pytest.mark.requirement("U14")
def test_a_thread_keeps_name_participants_and_status(plain: Workspace) -> None:
    talk = [{"title": "Storage", "participants": ["ann", "bob"]}, said("Why?", 0, sender="ann")]
    taken(plain, lines(*talk), "x/storage.jsonl")
    thread = plain.node(Uri("thread://ws/storage"))
    assert thread is not None
    assert (thread.name, thread.type, thread.source) == ("Storage", "thread", Source("conversation", "x/storage.jsonl"))
    assert (thread.data["participants"], thread.data["status"]) == (["ann", "bob"], "open")
    taken(plain, lines(*talk, said("So!", 1, sender="eve"), {"status": "closed"}), "x/storage.jsonl")
    thread = plain.node(thread.uri)
    assert thread is not None
    assert (thread.data["participants"], thread.data["status"]) == (["ann", "bob", "eve"], "closed")
    plain.submit(change(Upsert(thread.uri, name="Our storage", data={"status": "archived"})))
    taken(plain, lines(*talk, said("Late.", 2, sender="ann")), "x/storage.jsonl")
    thread = plain.node(thread.uri)
    assert thread is not None
    assert (thread.name, thread.data["status"]) == ("Our storage", "archived")


def test_an_unchanged_export_makes_no_commit_and_a_longer_one_adds_its_new_messages(plain: Workspace) -> None:
    talk = [said(f"line {n}", n // 3, id=str(n)) for n in range(9)]
    assert new(taken(plain, lines(*talk))) == 9
    tip = plain.tip
    assert [one.commits for one in taken(plain, lines(*talk))] == [()]
    assert plain.tip == tip
    assert new(taken(plain, lines(*talk, said("line 9", 9)))) == 1
    assert new(taken(plain, lines(*talk[:4]))) == 0
    assert texts(plain, STANDUP) == [f"line {n}" for n in range(10)]
    assert len(replies(plain, STANDUP)) == 9


def test_equal_messages_of_one_second_stay_two_in_order(plain: Workspace) -> None:
    talk = [said(text) for text in ("ok", "b", "ok", "a", "ok")]
    for grown in (talk[:3], talk, talk):
        taken(plain, lines(*grown))
    assert texts(plain, STANDUP) == ["ok", "b", "ok", "a", "ok"]


def test_messages_without_a_time_keep_their_order(plain: Workspace) -> None:
    talk = [{"role": "user", "content": f"{n}"} for n in range(40)]
    talk[20]["timestamp"] = "2026-11-20"
    for grown in (talk[:30], talk, talk):
        taken(plain, lines(*grown))
    assert texts(plain, STANDUP) == [f"{n}" for n in range(40)]
    names = [name for name, _ in told(plain, STANDUP)]
    assert (names[0], names[20], names[21]) == ("user:1", "user:2026-11-20T00:00:00Z", "user:~2026-11-20T00:00:00Z")


def test_a_live_conversation_grows_by_its_new_messages(plain: Workspace) -> None:
    talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    more = [{"role": "user", "content": "so"}, {"role": "assistant", "content": "what"}]
    steps = [(talk, 2), (talk, 0), ([*talk, more[0]], 1), ([more[1]], 1), ([*more, talk[0]], 1), ([], 0)]
    for step, count in steps:
        if step:
            assert new(taken(plain, lines(*step), live=True, uri="thread://ws/live/one")) == count
    assert texts(plain, "thread://ws/live/one") == ["hi", "hello", "so", "what", "hi"]
    assert len(replies(plain, "thread://ws/live/one")) == 4
    assert all(name.partition(":")[2][:2] == "20" for name, _ in told(plain, "thread://ws/live/one"))


def test_a_live_reply_finds_its_parent_by_id(plain: Workspace) -> None:
    where = "thread://ws/live/two"
    taken(plain, lines(said("q", 0, id="1"), said("other", 1, id="2")), live=True, uri=where)
    taken(plain, lines(said("a", 2, "assistant", id="3", reply_to="1")), live=True, uri=where)
    taken(plain, lines({"role": "user", "content": "new", "id": "4", "reply_to": "3"}), live=True, uri=where)
    assert new(taken(plain, lines({"role": "user", "content": "new", "id": "4"}), live=True, uri=where)) == 0
    assert replies(plain, where) == {("q", "other"), ("q", "a"), ("a", "new")}


def test_a_conversation_that_is_cut_off_by_a_crash_is_whole_the_next_time(
    plain: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_ingest, "COMMIT_EDITS", 7)
    talk = lines(*(said(f"{n}", n) for n in range(40)))
    for commits in (1, 2, 0, 3, 99):
        taken(plain, talk, commits=commits)
    assert texts(plain, STANDUP) == [f"{n}" for n in range(40)]
    assert replies(plain, STANDUP) == {(f"{n}", f"{n + 1}") for n in range(39)}
    assert plain.broken_links() == []
    assert [one.commits for one in taken(plain, talk)] == [()]


def test_a_message_with_a_secret_is_left_out_and_named_and_the_thread_goes_on(plain: Workspace) -> None:
    key = "ghp_" + "a1B2" * 9
    talk = [said("before", 0, id="a"), said(f"use {key}", 1, id="b"), said("after", 2, id="c", parent="b")]
    [found] = taken(plain, lines(*talk))
    assert texts(plain, STANDUP) == ["before", "after"]
    assert replies(plain, STANDUP) == {("before", "after")}
    [line] = found.trouble
    assert line.startswith("line 2: ")
    assert "GitHub" in line
    assert key not in line
    [named] = taken(plain, lines({"title": f"my {key}"}, said("x")), "named.jsonl")
    assert key.lower() not in str([plain.node(uri) for uri in plain.graph.uris()]).lower()
    assert texts(plain, named.uri) == ["x"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["é".join(f"line {n}\n" for n in range(22_000)), "".join(f"\0\u202e{n}" for n in range(24_000))]
)
def test_a_message_that_is_too_long_becomes_several_and_nothing_is_lost(plain: Workspace, text: str) -> None:
    talk = lines(said("before", 0, id="a"), said(text, 1, id="b"), said("after", 2, id="c", parent="b"))
    [found] = taken(plain, talk)
    pieces = texts(plain, STANDUP)
    assert (pieces[0], "".join(pieces[1:-1]), pieces[-1]) == ("before", text, "after")
    [line] = found.trouble
    assert f"split into {len(pieces) - 2}" in line
    assert len(replies(plain, STANDUP)) == len(pieces) - 1
    taken(plain, talk + "\n" + lines(said("more", 3)))
    assert texts(plain, STANDUP) == [*pieces, "more"]


@pytest.mark.slow
def test_long_arguments_of_a_tool_stand_in_the_content(plain: Workspace) -> None:
    call = {"id": "t", "name": "Write", "input": {"text": "w" * 130_000}}
    taken(plain, lines(said("see", 0, "assistant", tool_calls=[call] * 3)))
    assert "".join(texts(plain, STANDUP)).count("w") == 3 * 130_000
    assert all(len(one.tool_calls) in (0, 3) for one in history(plain, Uri(STANDUP)))


def test_a_changed_message_is_replaced_and_reported(plain: Workspace) -> None:
    taken(plain, lines(said("one", 0, id="1"), said("two", 1, id="2")))
    [found] = taken(plain, lines(said("one", 0, id="1"), said("two, rather", 1, id="2")))
    assert texts(plain, STANDUP) == ["one", "two, rather"]
    assert found.counts["messages_changed"] == 1
    assert "the text has changed" in found.trouble[0]


def test_a_deleted_message_returns_only_when_its_source_grows(plain: Workspace) -> None:
    taken(plain, lines(said("one", 0), said("two", 1)))
    [_, two] = history(plain, Uri(STANDUP))
    plain.submit(change(Delete(two.uri)))
    taken(plain, lines(said("one", 0), said("two", 1)))
    assert texts(plain, STANDUP) == ["one"]


def test_a_thread_that_is_moved_keeps_its_messages_and_goes_on(plain: Workspace) -> None:
    talk = [said("one", 0), said("two", 1)]
    taken(plain, lines(*talk))
    plain.submit(change(Move(Uri(STANDUP), Uri("thread://ws/daily/stand"))))
    [found] = taken(plain, lines(*talk, said("three", 2)))
    assert (found.uri, found.counts["messages_new"]) == ("thread://ws/daily/stand", 1)
    for name in (STANDUP, "thread://ws/daily/stand"):
        assert texts(plain, name) == ["one", "two", "three"]


def test_two_conversations_of_one_name_are_two_threads(plain: Workspace) -> None:
    a, b = lines({"title": "Plan"}, said("of ann")), lines({"title": "Plan"}, said("of bob"))
    [one] = taken(plain, a, "ann/plan.jsonl")
    [two] = taken(plain, b, "bob/plan.jsonl")
    assert (one.uri, one.uri == two.uri) == ("thread://ws/plan", False)
    assert (texts(plain, one.uri), texts(plain, two.uri)) == (["of ann"], ["of bob"])
    assert taken(plain, b + "\n" + lines(said("more", 1)), "bob/plan.jsonl")[0].uri == two.uri


def test_one_uri_is_one_conversation_and_a_thread(plain: Workspace) -> None:
    both = lines(said("a", thread="x"), said("b", thread="y"))
    with pytest.raises(Invalid):
        taken(plain, both, uri="thread://ws/z")
    with pytest.raises(Invalid):
        taken(plain, lines(said("a")), uri="concept://ws/z")
    assert [one.uri for one in taken(plain, both)] == ["thread://ws/x", "thread://ws/y"]
    assert len(plain.graph) == 4


def test_a_token_cannot_extend_a_thread_it_may_not_read(plain: Workspace) -> None:
    taken(plain, lines(said("secret")), uri="thread://ws/z")
    [talk] = conversation_formats.read_plain(lines(said("secret"))).conversations
    with pytest.raises(Forbidden):
        message_ingest.take(plain, talk, "", thread=Uri("thread://ws/z"), sees=lambda uri: "/z" not in uri)


def test_a_page_of_history_lies_before_or_after_a_message(plain: Workspace) -> None:
    taken(plain, lines(*(said(f"{n}", n) for n in range(30))))
    everything = history(plain, Uri(STANDUP), 100)
    assert [one.content for one in history(plain, Uri(STANDUP), 3)] == ["27", "28", "29"]
    assert [one.content for one in history(plain, Uri(STANDUP), 3, after=everything[4].uri)] == ["5", "6", "7"]
    assert [one.content for one in history(plain, Uri(STANDUP), 3, before=everything[4].uri)] == ["1", "2", "3"]
    assert history(plain, Uri(STANDUP), 3, after=everything[-1].uri) == []
    assert history(plain, Uri("thread://ws/nobody"), 3) == []
    with pytest.raises(Invalid):
        history(plain, Uri("concept://ws/standup"))


def test_very_many_replies_to_one_message_still_are_one_thread(
    plain: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_ingest, "MOST_REPLIES", 20)
    count = 50
    taken(plain, lines(said("root", 0, id="r"), *(said(f"{n}", 1, id=f"m{n}", parent="r") for n in range(count))))
    found = replies(plain, STANDUP)
    assert len(found) == count
    assert sum(one == "root" for one, _ in found) == 20


@pytest.mark.large
def test_ten_thousand_messages_of_one_thread(plain: Workspace) -> None:
    talk = [
        said(f"message {n} about topic {n % 100}", n // 3, sender=f"p{n % 7}", thread="wide") for n in range(10_000)
    ]
    assert new(taken(plain, lines(*talk))) == 10_000
    last = said("the last word", 3_599, thread="wide")
    assert new(taken(plain, lines(last), uri="thread://ws/wide")) == 1
    thread = Uri("thread://ws/wide")
    assert texts(plain, thread)[4_320] == "message 4321 about topic 21"
    assert [one.content for one in history(plain, thread, 1)] == ["the last word"]
    taken(plain, lines(said("about topic 21 elsewhere", thread="narrow")))
    assert {hit.uri.split("/")[3] for hit in plain.text().search("topic 21", namespace="wide", limit=50)} == {"wide"}
    assert [hit.uri.split("/")[3] for hit in plain.text().search("topic 21", namespace="narrow", limit=50)] == [
        "narrow"
    ]


NOTES = {
    "releases/1.9.txt": "# Acme 1.9\n\n*March 3, 2025*\n\nFixes the parser.\n",
    "releases/1.10.txt": "# Acme 1.10\n\nReleased 2025-06-01\n\nAdds an index.\n",
    "releases/1.11.txt": "# Acme 1.11\n\nNobody knows when.\n",
    "releases/2.0.md": "---\ntitle: Acme 2.0\ndate: 2026-01-02\n---\nBreaks everything.\n",
    "releases/2024-12-24-eve.md": "# An eve\n\nQuiet.\n",
    "releases/broken.txt": "\0\0",
}


def of_notes(ws: Workspace, notes: dict[str, str]) -> list[str]:
    given = [Given(name, text.encode(), Source("file", name)) for name, text in notes.items()]
    [found] = written(ws, kinds.together(given, Around(ws, DocumentReader())))
    assert found.uri == "thread://ws/releases"
    return list(found.trouble)


@pytest.mark.requirement("U9")
def test_a_folder_of_dated_documents_is_one_thread_in_the_order_of_their_dates(plain: Workspace) -> None:
    trouble = of_notes(plain, NOTES)
    assert [(name, text.strip().partition("\n")[0]) for name, text in told(plain, "thread://ws/releases")] == [
        ("document:2024-12-24T00:00:00Z", "# An eve"),
        ("document:2025-03-03T00:00:00Z", "# Acme 1.9"),
        ("document:2025-06-01T00:00:00Z", "# Acme 1.10"),
        ("document:~2025-06-01T00:00:00Z", "# Acme 1.11"),
        ("document:2026-01-02T00:00:00Z", "Breaks everything."),
    ]
    assert len(replies(plain, "thread://ws/releases")) == 4
    [binary, undated] = trouble
    assert "broken.txt" in binary
    assert "1.11.txt" in undated
    tip = plain.tip
    of_notes(plain, NOTES)
    assert plain.tip == tip
    of_notes(
        plain,
        {
            **NOTES,
            "releases/2.1.md": "# Acme 2.1\n\n*May 5, 2026*\n",
            "releases/2.0.md": NOTES["releases/2.0.md"] + "Not quite.\n",
        },
    )
    found = texts(plain, "thread://ws/releases")
    assert len(found) == 6
    assert found[4].endswith("Not quite.\n")


def test_the_same_conversation_on_two_machines_is_the_same_files(tmp_path: Path, plain: Workspace) -> None:
    talk = lines(*(said(f"{n}", n, thread="t") for n in range(5)))
    other = Workspace.open(new_layout(tmp_path / "other"), publish=False)
    for ws in (plain, other):
        taken(ws, talk)
    assert {uri: plain.node(uri) for uri in plain.graph.uris()} == {uri: other.node(uri) for uri in other.graph.uris()}
    other.close()
