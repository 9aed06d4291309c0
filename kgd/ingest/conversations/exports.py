"""Readers for conversations that programs export: ChatGPT, Claude, Claude Code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from kgd.ingest.conversations import values
from kgd.ingest.conversations.values import Conversation, Read, SourceMessage, ToolCall, line

NO_PARENT = "00000000-0000-4000-8000-000000000000"
"""Parent of a conversation's first message."""
SPOKEN = ("user", "assistant", "system")


def read_chatgpt(text: str) -> Read:
    """The export of a ChatGPT account: `conversations.json`, a tree of messages per conversation.

    Messages are in the order of their times, or of the tree if they have no times. A repeated question or a regenerated
    answer makes a branch; all branches are kept.
    """
    return values.read_list(text, _of_chatgpt)


def is_chatgpt(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("mapping"), Mapping)


def _of_chatgpt(value: Any, place: str, trouble: list[str]) -> Conversation | None:
    if not is_chatgpt(value):
        trouble.append(f"{place}: not a conversation of a ChatGPT export")
        return None
    messages: list[SourceMessage] = []
    gone: dict[str, str | None] = {}
    left_out: Counter[str] = Counter()
    for id, node in _walked(value["mapping"]):
        where = f"{place}, message {id[:40]}"
        parent = line(node.get("parent"))
        message = node.get("message")
        made = _chatgpt_messages(message, id, parent, where, left_out) if isinstance(message, Mapping) else []
        messages += made
        if not made:
            gone[id] = parent
    title = line(value.get("title"))
    trouble += values.report(left_out, f"{place} ({title or 'untitled'})")
    return Conversation(
        values.in_order(messages),
        line(value.get("conversation_id") or value.get("id")),
        title,
        status="archived" if value.get("is_archived") is True else None,
        gone=gone,
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


def read_claude(text: str) -> Read:
    """The export of a Claude account: `conversations.json`, a list of conversations.

    Messages are in the order of their times. A message without a parent answers the previous message.
    """
    return values.read_list(text, _of_claude)


def is_claude(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("chat_messages"), list)


def _of_claude(value: Any, place: str, trouble: list[str]) -> Conversation | None:
    if not is_claude(value):
        trouble.append(f"{place}: not a conversation of a Claude export")
        return None
    messages: list[SourceMessage] = []
    gone: dict[str, str | None] = {}
    left_out: Counter[str] = Counter()
    for number, message in enumerate(value["chat_messages"], 1):
        where = f"{place}, message {number}"
        if not isinstance(message, Mapping):
            trouble.append(f"{where}: not a message")
            continue
        made = _claude_messages(message, where, left_out)
        messages += made
        if not made and (id := line(message.get("uuid"))):
            gone[id] = _claude_parent(message)
    title = line(value.get("name"))
    trouble += values.report(left_out, f"{place} ({title or 'untitled'})")
    return Conversation(values.in_order(messages), line(value.get("uuid")), title, gone=gone)


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


class _Session:
    __slots__ = ("gone", "messages")

    def __init__(self) -> None:
        self.messages: list[SourceMessage] = []
        self.gone: dict[str, str | None] = {}


def read_claude_code(text: str) -> Read:
    """Sessions of Claude Code: JSON lines with messages from a user, an assistant and tools.

    One thread per session. Lines without a message (snapshots, progress) are skipped, and a reply to such a line
    refers to the line's own predecessor.
    """
    sessions: dict[str, _Session] = {}
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
            _take_line(value, place, sessions.setdefault(id, _Session()), left_out)
    found = [
        Conversation(values.in_order(one.messages), id, title if len(sessions) == 1 else "", gone=one.gone)
        for id, one in sessions.items()
    ]
    return Read(tuple(found), (*trouble, *values.report(left_out, "blocks")))


def is_claude_code(value: Any) -> bool:
    return isinstance(value, Mapping) and "sessionId" in value and ("uuid" in value or "leafUuid" in value)


def _take_line(value: Mapping[str, Any], place: str, session: _Session, left_out: Counter[str]) -> None:
    uuid, kind = line(value.get("uuid")), line(value.get("type"), 60)
    parent = line(value.get("parentUuid")) if "parentUuid" in value else None
    message = value.get("message")
    if kind in SPOKEN:
        inner = message if isinstance(message, Mapping) else value
        sender = line(inner.get("model")) if kind == "assistant" else ""
        found = values.blocks(inner.get("content"), left_out)
        at = values.moment(value.get("timestamp"))
        made = values.messages(found, SourceMessage("", sender or kind, kind, at, uuid, parent, place=place))
        session.messages += made
        if made:
            return
    if uuid:
        session.gone[uuid] = parent
