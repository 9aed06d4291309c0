"""Reader for conversations in plain JSON: one message per line, or a list of messages, with common key names.

    {"role": "user", "content": "Why Postgres?", "timestamp": "2026-11-20T10:00:00Z", "id": "7", "thread": "storage"}

A line without content but with a title, participants or a status describes the thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast, get_args

from kgd.ingest.conversations import values
from kgd.ingest.conversations.values import Conversation, Kind, Read, SourceMessage, Status, first_of, line

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


@dataclass(slots=True)
class _Thread:
    messages: list[SourceMessage] = field(default_factory=list)
    title: str = ""
    participants: tuple[str, ...] = ()
    status: Status | None = None
    gone: dict[str, str | None] = field(default_factory=dict)


def read(text: str) -> Read:
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


def looks_so(values_: Iterable[Any]) -> bool:
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
    one = threads.setdefault(id, _Thread())
    base = _base(value, place)
    made = values.messages(_blocks(value, content, left_out), base)
    one.messages += made
    if base.at is None and (given := first_of(value, MOMENT)) is not None:
        trouble.append(f"{place}: {values.line(given, 40) or 'this'} is not a time; placed after the previous message")
    if not made:
        trouble.append(f"{place}: a message without content")
        if own := line(first_of(value, ID)):
            one.gone[own] = _parent(value)


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
