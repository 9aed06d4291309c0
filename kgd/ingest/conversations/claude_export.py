"""This file is where the export of a Claude account is read: `conversations.json`, a list of conversations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from kgd.ingest.conversations import values
from kgd.ingest.conversations.said import Conversation, Read, Said
from kgd.ingest.conversations.streaming import elements
from kgd.ingest.conversations.values import line

NO_PARENT = "00000000-0000-4000-8000-000000000000"
"""What a conversation's first message has for its parent."""


def read(text: str) -> Read:
    """One thread a conversation; messages by time, each an answer to what the export says, or to the one before."""
    trouble: list[str] = []
    found = [
        conversation
        for place, value in elements(text, trouble)
        if (conversation := _conversation(value, place, trouble)) is not None
    ]
    return Read(tuple(found), tuple(trouble))


def looks_so(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("chat_messages"), list)


def _conversation(value: Any, place: str, trouble: list[str]) -> Conversation | None:
    if not looks_so(value):
        trouble.append(f"{place}: this is no conversation of a Claude export")
        return None
    said: list[Said] = []
    gone: dict[str, str | None] = {}
    left_out: Counter[str] = Counter()
    for number, message in enumerate(value["chat_messages"], 1):
        where = f"{place}, message {number}"
        if not isinstance(message, Mapping):
            trouble.append(f"{where}: this is no message")
            continue
        made = _messages(message, where, left_out)
        said += made
        if not made and (id := line(message.get("uuid"))):
            gone[id] = _parent(message)
    title = line(value.get("name"))
    trouble += values.told(left_out, f"{place} ({title or 'untitled'})")
    return Conversation(values.in_order(said), line(value.get("uuid")), title, gone=gone)


def _messages(message: Mapping[str, Any], place: str, left_out: Counter[str]) -> list[Said]:
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
    return values.messages(found, Said(
        "", kind if values.kind_of(word) else word or kind, kind,
        values.moment(message.get("created_at")), line(message.get("uuid")), _parent(message), place=place,
    ))  # fmt: skip


def _parent(message: Mapping[str, Any]) -> str | None:
    parent = line(message.get("parent_message_uuid"))
    return "" if parent == NO_PARENT else parent or None
