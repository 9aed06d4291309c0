"""This file is where it is told by what a text begins with which program wrote a conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from kgd.ingest.conversations import chatgpt_export, claude_code, claude_export, json_lines, transcript, values
from kgd.ingest.conversations.said import Read
from kgd.ingest.conversations.streaming import elements

SUFFIXES = (".json", ".jsonl", ".ndjson")
LINES = 20
"""Of a text that are looked at."""
_BLANK = "\ufeff \t\r\n"
_KEYS = (('"chat_messages"', '"uuid"'), ('"mapping"', '"title"'), ('"messages"', '"role"'))
"""What stands near the beginning of a list whose first element is longer than what is looked at."""


def is_conversation(name: str, head: bytes) -> bool:
    """Whether a file may be one, by its name and what it begins with. A transcript is one only if somebody says so."""
    if not name.lower().endswith(SUFFIXES) and "." in name.rpartition("/")[2]:
        return False
    text = head.decode("utf-8", "ignore").lstrip(_BLANK)
    if not text.startswith(("[", "{")):
        return False
    return _reader(text) is not None or any(all(key in text for key in keys) for keys in _KEYS)


def has_ids(head: bytes) -> bool:
    """Whether it is of a program that gives each conversation an id of its own, by what it begins with."""
    text = head.decode("utf-8", "ignore").lstrip(_BLANK)
    reader = _reader(text)
    if reader is None:
        return any(all(key in text for key in keys) for keys in _KEYS[:2])
    return reader in (claude_export.read, chatgpt_export.read, claude_code.read)


def read(text: str) -> Read:
    """All conversations in a text, in whatever format it has; there may be none."""
    text = text.lstrip(_BLANK)
    if text.startswith("{") and _is_one_object(text):
        text = f"[{text}]"
    reader = _reader(text) or (json_lines.read if text.startswith(("[", "{")) else transcript.read)
    return reader(text)


def _reader(text: str) -> Callable[[str], Read] | None:
    first = list(islice(_first(text), LINES))
    if any(map(claude_export.looks_so, first)):
        return claude_export.read
    if any(map(chatgpt_export.looks_so, first)):
        return chatgpt_export.read
    if any(map(claude_code.looks_so, first)):
        return claude_code.read
    if json_lines.looks_so(first):
        return json_lines.read
    return None


def _first(text: str) -> Iterator[Any]:
    """The first values of a text; what is cut off or broken is passed over."""
    if text.startswith("["):
        yield from (value for _, value in elements(text, []))
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
    """Whether the text is one JSON object, on one line or on many."""
    try:
        values.loads(text)
    except ValueError:
        return False
    return True
