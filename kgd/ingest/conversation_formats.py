"""Formats of conversations: their detection from the beginning of a text, and a reader for each.

Exports of ChatGPT, Claude and Claude Code; plain JSON, with one message per line or a list of messages, and common key
names; and transcripts, in which lines begin with a speaker's name:

    {"role": "user", "content": "Why Postgres?", "timestamp": "2026-11-20T10:00:00Z", "id": "7", "thread": "storage"}

    [2026-11-20 10:00] Ann: Why Postgres?
    **Bob**: Because of the row locks,
    and because we know it.

In plain JSON, a line without content but with a title, participants or a status describes the thread. In a transcript,
a line without a name continues the message. A date on a line of its own applies to the messages below it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, cast, get_args

from kgd.ingest import conversation_values as values
from kgd.ingest.conversation_values import Conversation, Kind, Read, SourceMessage, Status, ToolCall, first_of, line

NO_PARENT = "00000000-0000-4000-8000-000000000000"
"""Parent of a conversation's first message."""
SPOKEN = ("user", "assistant", "system")


@dataclass(slots=True)
class _Thread:
    messages: list[SourceMessage] = field(default_factory=list)
    title: str = ""
    participants: tuple[str, ...] = ()
    status: Status | None = None
    gone: dict[str, str | None] = field(default_factory=dict)

    def add(self, made: Sequence[SourceMessage], id: str, parent: str | None) -> None:
        """Add the messages of one entry of the source; replies skip an entry without messages."""
        self.messages += made
        if not made and id:
            self.gone[id] = parent


def is_chatgpt(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("mapping"), Mapping)


def _of_chatgpt(value: Any, place: str, trouble: list[str]) -> Conversation | None:
    """A conversation of the export of a ChatGPT account, `conversations.json`, as a tree of messages.

    Messages are in the order of their times, or of the tree if they have no times. A repeated question or a regenerated
    answer makes a branch; all branches are kept.
    """
    if not is_chatgpt(value):
        trouble.append(f"{place}: not a conversation of a ChatGPT export")
        return None
    thread, left_out = _Thread(), Counter[str]()
    for id, node in _walked(value["mapping"]):
        where = f"{place}, message {id[:40]}"
        parent = line(node.get("parent"))
        message = node.get("message")
        made = _chatgpt_messages(message, id, parent, where, left_out) if isinstance(message, Mapping) else []
        thread.add(made, id, parent)
    title = line(value.get("title"))
    trouble += values.report(left_out, f"{place} ({title or 'untitled'})")
    return Conversation(
        values.in_order(thread.messages),
        line(value.get("conversation_id") or value.get("id")),
        title,
        status="archived" if value.get("is_archived") is True else None,
        gone=thread.gone,
    )


def _walked(mapping: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every node of the tree once, parents before children; cycles in a damaged tree are harmless."""
    nodes = {line(id): node for id, node in mapping.items() if isinstance(node, Mapping)}
    below: dict[str, list[str]] = {}
    for id, node in nodes.items():
        parent = line(node.get("parent"))
        below.setdefault(parent if parent in nodes else "", []).append(id)
    seen: set[str] = set()
    for start in [*below.get("", []), *nodes]:  # nodes reached only through a cycle come last
        waiting = [start]
        while waiting:
            id = waiting.pop()
            if id in seen:
                continue
            seen.add(id)
            yield id, nodes[id]
            waiting += reversed(below.get(id, []))


def _chatgpt_messages(
    message: Mapping[str, Any], id: str, parent: str, place: str, left_out: Counter[str]
) -> list[SourceMessage]:
    about = message.get("metadata")
    if isinstance(about, Mapping) and about.get("is_visually_hidden_from_conversation") is True:
        return []
    author = message.get("author")
    author = author if isinstance(author, Mapping) else {}
    role = line(author.get("role"), 60)
    kind = values.kind_of(role) or "user"
    recipient, content = line(message.get("recipient")), message.get("content")
    found = _chatgpt_content(content if isinstance(content, Mapping) else {}, left_out)
    if kind == "assistant" and recipient not in ("", "all"):
        found.calls.append(ToolCall(recipient, found.text))
        found.texts.clear()
    base = SourceMessage(
        "", line(author.get("name")) or kind, kind, values.moment(message.get("create_time")), id, parent, place=place
    )
    return values.messages(found, base)


def _chatgpt_content(content: Mapping[str, Any], left_out: Counter[str]) -> values.Blocks:
    kind = line(content.get("content_type"), 40)
    if kind in ("thoughts", "reasoning_recap"):
        left_out[kind] += 1
        return values.Blocks()
    if isinstance(content.get("parts"), list):
        return values.blocks(content["parts"], left_out)
    for key in ("text", "result", "content"):
        if isinstance(content.get(key), str):
            return values.Blocks([values.clean(content[key])])
    return values.blocks(dict(content), left_out) if content and kind else values.Blocks()


def is_claude(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("chat_messages"), list)


def _of_claude(value: Any, place: str, trouble: list[str]) -> Conversation | None:
    """A conversation of the export of a Claude account, `conversations.json`.

    Messages are in the order of their times. A message without a parent answers the previous message.
    """
    if not is_claude(value):
        trouble.append(f"{place}: not a conversation of a Claude export")
        return None
    thread, left_out = _Thread(), Counter[str]()
    for number, message in enumerate(value["chat_messages"], 1):
        where = f"{place}, message {number}"
        if not isinstance(message, Mapping):
            trouble.append(f"{where}: not a message")
            continue
        made = _claude_messages(message, where, left_out)
        thread.add(made, line(message.get("uuid")), _claude_parent(message))
    title = line(value.get("name"))
    trouble += values.report(left_out, f"{place} ({title or 'untitled'})")
    return Conversation(values.in_order(thread.messages), line(value.get("uuid")), title, gone=thread.gone)


def _claude_messages(message: Mapping[str, Any], place: str, left_out: Counter[str]) -> list[SourceMessage]:
    content = message.get("content")
    found = values.blocks(content if content else message.get("text"), left_out)
    if not found.text and isinstance(message.get("text"), str):
        found.texts.append(values.clean(message["text"]))
    for key in ("attachments", "files"):
        for file in message.get(key) or () if isinstance(message.get(key), list) else ():
            if isinstance(file, Mapping):
                name, inside = line(file.get("file_name")) or "file", file.get("extracted_content")
                found.texts.append(f"[{name}]" + (f"\n\n{values.clean(inside)}" if isinstance(inside, str) else ""))
    word = line(message.get("sender"), 60)
    kind = values.kind_of(word) or "user"
    return values.messages(
        found,
        SourceMessage(
            "",
            kind if values.kind_of(word) else word or kind,
            kind,
            values.moment(message.get("created_at")),
            line(message.get("uuid")),
            _claude_parent(message),
            place=place,
        ),
    )


def _claude_parent(message: Mapping[str, Any]) -> str | None:
    parent = line(message.get("parent_message_uuid"))
    return "" if parent == NO_PARENT else parent or None


def read_claude_code(text: str) -> Read:
    """Sessions of Claude Code: JSON lines with messages from a user, an assistant and tools.

    One thread per session. Lines without a message (snapshots, progress) are skipped, and a reply to such a line
    refers to the line's own predecessor.
    """
    sessions: dict[str, _Thread] = {}
    trouble: list[str] = []
    left_out: Counter[str] = Counter()
    title = ""
    for place, value in values.json_lines(text, trouble):
        if not isinstance(value, Mapping):
            trouble.append(f"{place}: expected a message, found {type(value).__name__}")
            continue
        if value.get("type") == "summary":
            title = line(value.get("summary")) or title
        elif id := line(value.get("sessionId")):
            _take_line(value, place, sessions.setdefault(id, _Thread()), left_out)
    found = [
        Conversation(values.in_order(one.messages), id, title if len(sessions) == 1 else "", gone=one.gone)
        for id, one in sessions.items()
    ]
    return Read(tuple(found), (*trouble, *values.report(left_out, "blocks")))


def is_claude_code(value: Any) -> bool:
    return isinstance(value, Mapping) and "sessionId" in value and ("uuid" in value or "leafUuid" in value)


def _take_line(value: Mapping[str, Any], place: str, session: _Thread, left_out: Counter[str]) -> None:
    uuid, kind = line(value.get("uuid")), line(value.get("type"), 60)
    parent = line(value.get("parentUuid")) if "parentUuid" in value else None
    message = value.get("message")
    made: list[SourceMessage] = []
    if kind in SPOKEN:
        inner = message if isinstance(message, Mapping) else value
        sender = line(inner.get("model")) if kind == "assistant" else ""
        found = values.blocks(inner.get("content"), left_out)
        at = values.moment(value.get("timestamp"))
        made = values.messages(found, SourceMessage("", sender or kind, kind, at, uuid, parent, place=place))
    session.add(made, uuid, parent)


CONTENT = ("content", "text", "body", "message", "msg", "parts")
ROLE = ("role", "senderType", "sender_type", "author_type")
SENDER = ("senderId", "sender_id", "sender", "speaker", "author", "from", "name", "user", "username")
MOMENT = ("timestamp", "ts", "time", "at", "date", "datetime", "created_at", "createdAt", "create_time", "sent_at")
ID = ("id", "uuid", "message_id", "messageId", "uid")
PARENT = ("parent", "parent_id", "parentId", "parentUuid", "reply_to", "replyTo", "in_reply_to", "parent_message_uuid")
THREAD = tuple(
    """
    thread thread_id threadId conversation conversation_id conversationId session_id sessionId channel group
    """.split()
)
CALLS = ("tool_calls", "toolCalls")
LOOKED_AT = 20
"""Number of messages of a list that are examined to detect the format."""
ABOUT = ("title", "thread_name", "participants", "status")


def read_plain(text: str) -> Read:
    """All conversations in the text, messages in text order."""
    threads: dict[str, _Thread] = {}
    trouble: list[str] = []
    left_out: Counter[str] = Counter()
    for place, value in _values(text, trouble):
        _take(value, place, "", threads, trouble, left_out)
    found = [
        Conversation(tuple(one.messages), id, one.title, one.participants, one.status, one.gone)
        for id, one in threads.items()
    ]
    return Read(tuple(found), (*trouble, *values.report(left_out, "blocks")))


def is_plain(values_: Iterable[Any]) -> bool:
    """Whether the first values of a text are messages in this format."""
    seen: list[Mapping[str, Any]] = []
    for value in values_:
        if isinstance(value, Mapping):
            inner = value.get("messages")
            seen += (
                [value, *(one for one in inner[:LOOKED_AT] if isinstance(one, Mapping))]
                if isinstance(inner, list)
                else [value]
            )
    return any(_content(one) is not None and (first_of(one, ROLE) or first_of(one, SENDER)) for one in seen)


def _values(text: str, trouble: list[str]) -> Iterator[tuple[str, Any]]:
    """Each value with its place: the elements of a list, or the value of each line."""
    is_list = text.lstrip("\ufeff \t\r\n").startswith("[")
    return values.elements(text, trouble) if is_list else values.json_lines(text, trouble)


def _take(
    value: Any, place: str, thread: str, threads: dict[str, _Thread], trouble: list[str], left_out: Counter[str]
) -> None:
    if not isinstance(value, Mapping):
        trouble.append(f"{place}: expected a message, found {type(value).__name__}")
        return
    inner = value.get("messages")
    name = first_of(value, THREAD)
    id = line(name.get("id") or name.get("name") if isinstance(name, Mapping) else name) or thread
    if isinstance(inner, list):
        _about(value, threads.setdefault(id or line(first_of(value, ID)), _Thread()))
        for number, one in enumerate(inner, 1):
            _take(one, f"{place}, message {number}", id or line(first_of(value, ID)), threads, trouble, left_out)
        return
    content = _content(value)
    if content is None and not any(key in value for key in CALLS):
        if any(key in value for key in ABOUT):
            _about(value, threads.setdefault(id, _Thread()))
        else:
            trouble.append(f"{place}: a message without content")
        return
    base = _base(value, place)
    made = values.messages(_blocks(value, content, left_out), base)
    threads.setdefault(id, _Thread()).add(made, line(first_of(value, ID)), _parent(value))
    if base.at is None and (given := first_of(value, MOMENT)) is not None:
        trouble.append(f"{place}: {values.line(given, 40) or 'this'} is not a time; placed after the previous message")
    if not made:
        trouble.append(f"{place}: a message without content")


def _content(value: Mapping[str, Any]) -> Any:
    found = next((value[key] for key in CONTENT if value.get(key) is not None), None)
    if isinstance(found, Mapping) and "content" in found:
        return found["content"]
    return found


def _blocks(value: Mapping[str, Any], content: Any, left_out: Counter[str]) -> values.Blocks:
    found = values.blocks(content, left_out)
    found.calls += values.calls(first_of(value, CALLS))
    return found


def _base(value: Mapping[str, Any], place: str) -> SourceMessage:
    kind, sender = who(first_of(value, ROLE), first_of(value, SENDER))
    answers = line(value.get("tool_call_id") or value.get("toolCallId"))
    return SourceMessage(
        "",
        sender,
        kind,
        values.moment(first_of(value, MOMENT)),
        line(first_of(value, ID)),
        _parent(value),
        answers=answers,
        place=place,
    )


def _parent(value: Mapping[str, Any]) -> str | None:
    given = first_of(value, PARENT)
    return line(given.get("id") if isinstance(given, Mapping) else given) or None


def who(role: Any, sender: Any) -> tuple[Kind, str]:
    """Kind and name of a sender; a source may give one of them, or both in one field."""
    if isinstance(sender, Mapping):
        role = role or sender.get("role") or sender.get("type")
        sender = sender.get("name") or sender.get("id") or sender.get("role")
    name, given = line(sender), line(role, 60)
    kind = values.kind_of(given) if given else None
    if given and kind is None:
        kind = label(given)
    if kind is None:
        kind = values.kind_of(name) if name else None
        name = kind if kind else name
    return kind or "user", name or kind or "user"


def label(text: str) -> Kind:
    """An unknown kind of sender, in a form with which a node's name can begin."""
    return text.replace(":", " ").strip() or "user"


def _about(value: Mapping[str, Any], thread: _Thread) -> None:
    thread.title = line(value.get("title") or value.get("thread_name")) or thread.title
    given = value.get("participants")
    names = (
        [line(first_of(one, SENDER) if isinstance(one, Mapping) else one) for one in given or ()]
        if isinstance(given, list)
        else []
    )
    thread.participants = tuple(dict.fromkeys([*thread.participants, *filter(None, names)]))
    status = line(value.get("status"))
    if status in get_args(Status):
        thread.status = cast(Status, status)


SUFFIXES = (".json", ".jsonl", ".ndjson")
LINES = 20
"""Number of lines of a text that are examined."""
_BLANK = "\ufeff \t\r\n"
_KEYS = (('"chat_messages"', '"uuid"'), ('"mapping"', '"title"'), ('"messages"', '"role"'))
"""Matches keys near the beginning of a list whose first element is longer than the examined part."""

_FORMATS: tuple[tuple[Callable[[Any], bool], Callable[[str], Read]], ...] = (
    (is_claude, partial(values.read_list, convert=_of_claude)),
    (is_chatgpt, partial(values.read_list, convert=_of_chatgpt)),
    (is_claude_code, read_claude_code),
)


def is_conversation(name: str, head: bytes) -> bool:
    """Whether a file may be a conversation, judged by name and beginning. A transcript must be declared by the user."""
    if not name.lower().endswith(SUFFIXES) and "." in name.rpartition("/")[2]:
        return False
    text = head.decode("utf-8", "ignore").lstrip(_BLANK)
    if not text.startswith(("[", "{")):
        return False
    return _reader(text) is not None or any(all(key in text for key in keys) for keys in _KEYS)


def has_ids(head: bytes) -> bool:
    """Whether the file's format gives each conversation an id, judged by the beginning of the file."""
    text = head.decode("utf-8", "ignore").lstrip(_BLANK)
    reader = _reader(text)
    if reader is None:
        return any(all(key in text for key in keys) for keys in _KEYS[:2])
    return any(reader is read for _, read in _FORMATS)


def read(text: str) -> Read:
    """All conversations in a text of any known format; possibly none."""
    text = text.lstrip(_BLANK)
    if text.startswith("{") and _is_one_object(text):
        text = f"[{text}]"
    reader = _reader(text) or (read_plain if text.startswith(("[", "{")) else read_transcript)
    return reader(text)


def _reader(text: str) -> Callable[[str], Read] | None:
    first = list(islice(_first(text), LINES))
    return next((read for looks_so, read in _FORMATS if any(map(looks_so, first))), None) or (
        read_plain if is_plain(first) else None
    )


def _first(text: str) -> Iterator[Any]:
    """The first values of a text, except broken ones."""
    if text.startswith("["):
        yield from (value for _, value in values.elements(text, []))
        return
    if text.startswith("{") and _is_one_object(text):
        yield values.loads(text)
        return
    for raw in text.split("\n", LINES)[:LINES]:
        try:
            yield values.loads(raw)
        except ValueError:
            continue


def _is_one_object(text: str) -> bool:
    """Whether the text is one JSON object, on one line or more."""
    try:
        values.loads(text)
    except ValueError:
        return False
    return True


LONGEST_NAME = 60
_STAMP = re.compile(r"\[?(?P<at>\d{1,4}[-./]\d{1,2}[-./]\d{1,4}[T ,]{0,2}[\d:.Z+]{0,20})\]?(?: - |\s|:)\s*")
_NAMED = re.compile(r"[*_]{0,3}(?P<name>[^\W\d_][^:*\n]{0,60}?)[*_]{0,3}:[*_]{0,3}(?:[ \t]+(?P<rest>.*))?\Z")
_WORDS = 4
"""Largest number of words in a name, so that `Remember this for tomorrow: ...` is not taken for a speaker."""


def read_transcript(text: str) -> Read:
    """One thread; each line that begins with a name starts a message."""
    messages: list[SourceMessage] = []
    day: int | None = None
    lines: list[str] = []
    trouble: list[str] = []
    head: SourceMessage | None = None

    def finish() -> None:
        body = "\n".join(lines).strip("\n")
        if head is not None and body:
            messages.append(SourceMessage(body, head.sender, head.kind, head.at, place=head.place))
        elif body.strip():
            trouble.append(f"line 1: lines before the first name were left out: {len(lines)}")

    for number, raw in enumerate(values.clean(text).split("\n"), 1):
        bare = raw.strip().strip("#*_ ")
        if head is None or not lines or not lines[-1].strip():
            on_its_own = values.moment(bare) if len(bare) <= values.LONGEST_MOMENT else None
            if on_its_own is not None:
                day = on_its_own
                continue
        found = _begun(raw, day, f"line {number}")
        if found is None:
            lines.append(raw.rstrip())
            continue
        finish()
        head, first = found
        if head.at != day:  # a message without a time follows this message, instead of starting the day
            day = None
        lines = [first]
    finish()
    return Read((Conversation(tuple(messages)),) if messages else (), tuple(trouble))


def _begun(raw: str, day: int | None, place: str) -> tuple[SourceMessage, str] | None:
    """The message that starts with this line, and its first line of text; None if the line continues a message."""
    line, at = raw.strip()[:4_000], day
    stamp = _STAMP.match(line)
    if stamp:
        at = values.moment(stamp["at"].strip(" ,").replace(", ", " ")) or day
        line = line[stamp.end() :]
    named = _NAMED.match(line)
    if named is None or len(named["name"].split()) > _WORDS:
        return None
    name = values.line(named["name"], LONGEST_NAME)
    kind = values.kind_of(name)
    rest = raw.strip()[(stamp.end() if stamp else 0) :][named.start("rest") :] if named["rest"] is not None else ""
    return SourceMessage("", kind or name, kind or "user", at, place=place), rest
