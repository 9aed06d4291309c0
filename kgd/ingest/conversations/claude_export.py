"""Reader for the export of a Claude account: `conversations.json`, a list of conversations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from kgd.ingest.conversations import values
from kgd.ingest.conversations.values import Conversation, Read, SourceMessage, line

NO_PARENT = "00000000-0000-4000-8000-000000000000"
"""Parent of a conversation's first message."""


def read(text: str) -> Read:
    """One thread per conversation, with messages by time. A message without a parent answers the previous message."""
    return values.read_list(text, _conversation)


def looks_so(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("chat_messages"), list)


def _conversation(value: Any, place: str, trouble: list[str]) -> Conversation | None:
    if not looks_so(value):
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
        made = _messages(message, where, left_out)
        messages += made
        if not made and (id := line(message.get("uuid"))):
            gone[id] = _parent(message)
    title = line(value.get("name"))
    trouble += values.report(left_out, f"{place} ({title or 'untitled'})")
    return Conversation(values.in_order(messages), line(value.get("uuid")), title, gone=gone)


def _messages(message: Mapping[str, Any], place: str, left_out: Counter[str]) -> list[SourceMessage]:
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
            _parent(message),
            place=place,
        ),
    )


def _parent(message: Mapping[str, Any]) -> str | None:
    parent = line(message.get("parent_message_uuid"))
    return "" if parent == NO_PARENT else parent or None
