"""Conversations of many programs are read alike; broken parts do not affect others."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from kgd.ingest import conversation_formats
from kgd.ingest.conversation_values import moment
from kgd.ingest.kind import SNIFFED
from kgd.ingest.kinds import KINDS, recognised
from kgd.ingest.message_nodes import spelt
from kgd.ingest.readers import Unreadable
from kgd.workspace.workspace import Workspace
from tests.ingest.talk import branch, chatgpt_export, claude_export, code_line, lines, replies, said, taken, texts, told


def human(id: str, text: str, second: int, **fields: Any) -> dict[str, Any]:
    return {
        "uuid": id,
        "text": text,
        "sender": "human",
        "created_at": f"2026-11-20T10:00:{second:02}.123456Z",
        **fields,
    }


CLAUDE = claude_export(
    (
        "0c1d2e3f-0000-4000-8000-000000000001",
        "Storage choice",
        [
            human(
                "m1",
                "Why?",
                0,
                attachments=[{"file_name": "a.txt", "extracted_content": "inside"}],
                files=[{"file_name": "x.png"}],
            ),
            {
                "uuid": "m2",
                "sender": "assistant",
                "created_at": "2026-11-20T10:00:05Z",
                "content": [
                    {"type": "thinking", "thinking": "hm"},
                    {"type": "text", "text": "Row locks."},
                    {"type": "tool_use", "id": "t", "name": "search", "input": {"q": "locks"}},
                    {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "3 hits"}]},
                    {"type": "hologram", "name": "cube"},
                ],
            },
            human("m3", "Fine.", 9, parent_message_uuid="m2"),
            human("m4", "", 10, parent_message_uuid="m3"),
            human("m5", "And now?", 11, parent_message_uuid="m4"),
        ],
    ),
    ("0c1d2e3f-0000-4000-8000-000000000002", "", []),
    ("0c1d2e3f-0000-4000-8000-000000000003", "Another", [human("n1", "Alone", 0)]),
)


@pytest.mark.requirement("U9")
def test_an_export_of_claude(plain: Workspace) -> None:
    one, two = taken(plain, CLAUDE, "conversations.json")
    assert one.uri.startswith("thread://ws/storage-choice-")
    assert texts(plain, one.uri) == [
        "Why?\n\n[a.txt]\n\ninside\n\n[x.png]",
        "Row locks.\n\n[hologram: cube]",
        "3 hits",
        "Fine.",
        "And now?",
    ]
    assert {(a[:4], b[:4]) for a, b in replies(plain, one.uri)} == {
        ("Why?", "Row "),
        ("Row ", "3 hi"),
        ("3 hi", "Fine"),
        ("Fine", "And "),
    }
    assert told(plain, one.uri)[0][0] == "user:2026-11-20T10:00:00.123Z"
    assert one.trouble == ("element 1 (Storage choice): blocks without text were left out: hologram (1), thinking (1)",)
    assert texts(plain, two.uri) == ["Alone"]
    assert all(not found.commits for found in taken(plain, CLAUDE, "conversations-of-december.json"))


@pytest.mark.requirement("U9")
def test_an_export_of_chatgpt_keeps_its_branches(plain: Workspace) -> None:
    tree = chatgpt_export(
        "Branches",
        branch("root", None),
        branch("system", "root", "", role="system"),
        branch("q1", "system", "Q1", 1732000001.5),
        branch("a1", "q1", "A1", 1732000002, "assistant"),
        branch("a1 again", "q1", "A1 again", 1732000010, "assistant"),
        branch("q2", "a1", "Q2", 1732000005),
        branch("call", "q2", "print(1)", 1732000006, "assistant", recipient="python"),
        branch("result", "call", "1", 1732000007, "tool"),
        branch("hidden", "result", "a prompt", 1732000008, metadata={"is_visually_hidden_from_conversation": True}),
        branch("q3", "hidden", "Q3", 1732000009),
        branch("knot", "knot", "in a circle", 1732000011),
        is_archived=True,
    )
    [found] = taken(plain, tree, "conversations.json")
    assert texts(plain, found.uri) == ["Q1", "A1", "Q2", "", "1", "Q3", "A1 again", "in a circle"]
    assert {("Q1", "A1"), ("Q1", "A1 again"), ("A1", "Q2"), ("Q2", ""), ("", "1"), ("1", "Q3")} <= replies(
        plain, found.uri
    )
    thread = plain.node(found.uri)
    assert thread is not None
    assert thread.data["status"] == "archived"
    assert "a prompt" not in texts(plain, found.uri)


@pytest.mark.requirement("U9")
def test_a_session_of_claude_code(plain: Workspace) -> None:
    talk = [
        {"type": "summary", "summary": "Mend the tests", "leafUuid": "u4"},
        code_line("u1", None, "mend the tests", 0),
        code_line(
            "u2",
            "u1",
            [
                {"type": "text", "text": "Looking"},
                {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"x": "pytest"}},
            ],
            1,
            "assistant",
            model="m-1",
        ),
        code_line("p", "u2", None, 1, "progress"),
        code_line("u3", "p", [{"type": "tool_result", "tool_use_id": "t1", "content": "2 failed"}], 2),
        code_line("u4", "u3", [{"type": "text", "text": "Done"}], 3, "assistant", model="m-1"),
    ]
    [found] = taken(plain, "not json\n[1]\n" + lines(*talk), "f1e2.jsonl")
    assert [name.partition(":")[0] for name, _ in told(plain, found.uri)] == ["user", "assistant", "tool", "assistant"]
    assert replies(plain, found.uri) == {("mend the tests", "Looking"), ("Looking", "2 failed"), ("2 failed", "Done")}
    thread = plain.node(found.uri)
    assert thread is not None
    assert (thread.name, thread.data["participants"]) == ("Mend the tests", ["user", "m-1"])
    assert found.trouble == ("line 1: not JSON (Expecting value)", "line 2: expected a message, found list")
    assert len(taken(plain, lines(*talk, code_line("u5", "u4", "thanks", 4)), "f1e2.jsonl")[0].commits) == 1


def test_a_transcript_is_read_when_it_is_asked_for(plain: Workspace) -> None:
    text = (
        "# Call\n\n2026-11-20\n\n**Ann**: Hi\nand more\n\nBob Miller: yes: really http://x.org\n\n"
        "[2026-11-20 11:00] Ann: later\n- a list\nRemember this for all of us: no speaker here\n**Bob Miller:** bye\n"
    )
    [found] = taken(plain, text, "call.md", take=KINDS["transcript"].take)
    assert told(plain, found.uri) == [
        ("user:2026-11-20T00:00:00Z", "Hi\nand more"),
        ("user:2026-11-20T00:00:00Z", "yes: really http://x.org"),
        ("user:2026-11-20T11:00:00Z", "later\n- a list\nRemember this for all of us: no speaker here"),
        ("user:~2026-11-20T11:00:00Z", "bye"),
    ]
    thread = plain.node(found.uri)
    assert thread is not None
    assert thread.data["participants"] == ["Ann", "Bob Miller"]


WORDS = {
    "role and content": {"role": "user", "content": "hi"},
    "sender and text": {"sender": "human", "text": "hi"},
    "a speaker with a date": {"speaker": "Ann", "date": "1:56 pm on 8 May, 2023", "text": "hi"},
    "an author with a body": {"author": {"name": "Ann", "role": "user"}, "body": "hi"},
    "content in parts": {"role": "user", "content": [{"type": "text", "text": "hi"}]},
    "a message within": {"from": "Ann", "message": {"content": "hi"}},
    "a username": {"username": "ann", "ts": 1732000000.25, "text": "hi"},
}


SENDERS = dict.fromkeys(("role and content", "sender and text", "content in parts"), "user")


@pytest.mark.parametrize("words", WORDS)
def test_messages_in_other_words(words: str) -> None:
    one = WORDS[words]
    whole = {"messages": [one]}
    for text in (lines(one), json.dumps([one]), json.dumps(whole), json.dumps(whole, indent=2)):
        [talk] = conversation_formats.read(text).conversations
        [message] = talk.messages
        assert (message.text, message.kind, message.sender.lower()) == ("hi", "user", SENDERS.get(words, "ann")), text
        assert recognised("talk.json", text.encode()).name == "conversation"


@pytest.mark.parametrize(
    ("value", "at"),
    [
        ("2026-11-20T10:00:00Z", "2026-11-20T10:00:00Z"),
        ("2026-11-20T12:00:00.5+02:00", "2026-11-20T10:00:00.500Z"),
        ("2026-11-20 10:00", "2026-11-20T10:00:00Z"),
        ("2026-11-20", "2026-11-20T00:00:00Z"),
        (1732000000, "2024-11-19T07:06:40Z"),
        (1732000000000, "2024-11-19T07:06:40Z"),
        ("1732000000.250", "2024-11-19T07:06:40.250Z"),
        (1732000000000000000, "2024-11-19T07:06:40Z"),
        ("Fri, 20 Nov 2026 10:00:00 +0000", "2026-11-20T10:00:00Z"),
        ("May 7, 2025", "2025-05-07T00:00:00Z"),
        ("8 May 2023", "2023-05-08T00:00:00Z"),
        ("1:56 pm on 8 May, 2023", "2023-05-08T13:56:00Z"),
        ("July 1st, 2020", "2020-07-01T00:00:00Z"),
    ],
)
def test_a_time_is_read_as_people_and_programs_write_it(value: Any, at: str) -> None:
    found = moment(value)
    assert found is not None
    assert spelt(found) == at


@pytest.mark.parametrize(
    "value",
    [
        "",
        "soon",
        None,
        True,
        -5,
        0,
        float("inf"),
        float("nan"),
        10**400,
        "9" * 60,
        "99999-01-01",
        [],
        {},
        "0000-00-00",
        "2026-13-45",
        "Mon, 99 Foo 2026 99:99:99",
        "1" * 19 + ".5",
        "\0\0\0\0\0",
        "a" * 64,
        "1:1:1:1",
    ],
)
def test_an_invalid_time_is_none(value: Any) -> None:
    assert moment(value) is None or value in ("9" * 60, "1" * 19 + ".5")


BROKEN = {
    "a line of no JSON": (lines(said("a")) + "\n{broken\n" + lines(said("b", 1)), ["line 2"]),
    "a line cut in two": (lines(said("a"), said("b", 1)) + '\n{"role": "user", "con', ["line 3"]),
    "other values": (lines(said("a"), 7, "x", None, [], {}, {"role": "user"}, said("b", 1)), ["line 2"] + ["line"] * 5),
    "a list that breaks off": (json.dumps([said("a"), said("b", 1), said("c", 2)])[:-12], ["element 3"]),
    "a list with a hole": (json.dumps([said("a"), said("b", 1)])[:-1] + ", , 7]", ["element 3"]),
    "nested too deep": (lines(said("a")) + "\n" + "[" * 50_000 + "\n" + lines(said("b", 1)), ["line 2"]),
    "numbers that are none": (
        lines(said("a")) + '\n{"role": "user", "content": NaN}\n' + lines(said("b", 1)),
        ["line 2"],
    ),
    "bytes of no character": (
        lines(said("a")) + '\n{"role": "user", "content": ""}\n' + lines(said("b", 1)),
        ["line 2"],
    ),
    "a time that is none": (lines(said("a"), {**said("b"), "timestamp": "soon"}), ["line 2: soon"]),
    "fields of other kinds": (
        lines(
            said("a"),
            {
                "role": ["x"],
                "content": "b",
                "timestamp": {},
                "id": [1],
                "parent": {},
                "thread": [],
                "tool_calls": 7,
                "sender": 3.5,
            },
        ),
        [],
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_parts_are_reported_and_the_rest_is_ingested(plain: Workspace, what: str) -> None:
    text, places = BROKEN[what]
    [found] = taken(plain, text, "x.jsonl")
    assert texts(plain, found.uri)[:2] == ["a", "b"]
    assert len(found.trouble) >= len(places)
    assert all(any(line.startswith(place) for line in found.trouble) for place in places)


def test_half_characters_and_controls_cost_themselves_alone(plain: Workspace) -> None:
    odd = '{"role": "us\\u0000er", "sender": "A\\ud800nn\\u202e", "content": "x\\ud83d y\\u0000", "id": "\\udfff"}'
    [found] = taken(plain, odd)
    [(name, text)] = told(plain, found.uri)
    assert (name, text) == ("us er:1", "x\ufffd y\0")


@pytest.mark.parametrize("text", ["", "   ", "no name here\nnor here", "[]", "{}", "[1, 2]"])
def test_a_text_without_messages_is_refused(plain: Workspace, text: str) -> None:
    tip = plain.tip
    with pytest.raises(Unreadable, match="no messages"):
        taken(plain, text)
    assert plain.tip == tip


def test_a_file_is_recognised_by_its_beginning() -> None:
    long = claude_export(("u", "n", [human("m1", "word " * 40_000, 0)]))
    talks = {
        "conversations.json": long,
        "c.json": CLAUDE,
        "s.jsonl": lines(code_line("u", None, "x", 0)),
        "plain.jsonl": lines(said("x")),
        "t.json": chatgpt_export("t", branch("a", None, "x" * 90_000)),
        "broken.jsonl": "{\n" + lines(said("x")),
    }
    others = {
        "package.json": '{"name": "x", "version": "1"}',
        "a.md": lines(said("x")),
        "rows.json": "[[1, 2], [3]]",
        "data.jsonl": lines({"a": 1}, {"b": 2}),
        "talk.txt": "Ann: hi",
        "cut.json": '{"a": ',
    }
    for name, text in talks.items():
        assert recognised(name, text.encode()[:SNIFFED]).name == "conversation", name
    for name, text in others.items():
        assert recognised(name, text.encode()[:SNIFFED]).name == "document", name


HOSTILE = {
    "names without an end": "a" * 60_000,
    "colons": ": " * 30_000,
    "stars": "*" * 60_000,
    "dates": "2026-11-20 " * 6_000,
    "lines of names": "A: \n" * 15_000,
    "brackets": "[" * 60_000,
    "objects": '{"a":' * 12_000,
    "digits": "1" * 60_000,
    "a list of lists": "[" + "[]," * 20_000,
    "lines of brackets": "[\n" * 30_000,
    "quotes": '"' * 60_000,
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_reader_looks_at_each_character_a_few_times(what: str) -> None:
    began = time.thread_time()
    for reader in (
        conversation_formats.read,
        lambda text: conversation_formats.is_conversation("x.json", text.encode()),
    ):
        reader(HOSTILE[what])
    assert time.thread_time() - began < 1.5
