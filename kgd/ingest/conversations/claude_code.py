"""Reader for Claude Code sessions: JSON lines with messages from a user, an assistant and tools."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from kgd.ingest.conversations import values
from kgd.ingest.conversations.values import Conversation, Read, SourceMessage, line

SPOKEN = ("user", "assistant", "system")


class _Session:
    __slots__ = ("gone", "messages")

    def __init__(self) -> None:
        self.messages: list[SourceMessage] = []
        self.gone: dict[str, str | None] = {}


def read(text: str) -> Read:
    """One thread per session. Lines without a message (snapshots, progress) are skipped, and a reply to such a line
    refers to the line's own predecessor."""
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
            _take(value, place, sessions.setdefault(id, _Session()), left_out)
    found = [
        Conversation(values.in_order(one.messages), id, title if len(sessions) == 1 else "", gone=one.gone)
        for id, one in sessions.items()
    ]
    return Read(tuple(found), (*trouble, *values.report(left_out, "blocks")))


def looks_so(value: Any) -> bool:
    return isinstance(value, Mapping) and "sessionId" in value and ("uuid" in value or "leafUuid" in value)


def _take(value: Mapping[str, Any], place: str, session: _Session, left_out: Counter[str]) -> None:
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
