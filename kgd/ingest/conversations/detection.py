"""Detection of the format of a conversation, from the beginning of the text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from kgd.ingest.conversations import chatgpt_export, claude_code, claude_export, json_lines, transcript, values
from kgd.ingest.conversations.source_messages import Read

SUFFIXES = (".json", ".jsonl", ".ndjson")
LINES = 20
"""Lines of a text that are examined."""
_BLANK = "\ufeff \t\r\n"
_KEYS = (('"chat_messages"', '"uuid"'), ('"mapping"', '"title"'), ('"messages"', '"role"'))
"""Keys near the beginning of a list whose first element is longer than the examined part."""

_FORMATS: tuple[tuple[Callable[[Any], bool], Callable[[str], Read]], ...] = (
    (claude_export.looks_so, claude_export.read),
    (chatgpt_export.looks_so, chatgpt_export.read),
    (claude_code.looks_so, claude_code.read),
)


def is_conversation(name: str, head: bytes) -> bool:
    """Whether a file may be a conversation, by name and beginning. A transcript has to be declared by the user."""
    if not name.lower().endswith(SUFFIXES) and "." in name.rpartition("/")[2]:
        return False
    text = head.decode("utf-8", "ignore").lstrip(_BLANK)
    if not text.startswith(("[", "{")):
        return False
    return _reader(text) is not None or any(all(key in text for key in keys) for keys in _KEYS)


def has_ids(head: bytes) -> bool:
    """Whether the file's format gives each conversation an id, by its beginning."""
    text = head.decode("utf-8", "ignore").lstrip(_BLANK)
    reader = _reader(text)
    if reader is None:
        return any(all(key in text for key in keys) for keys in _KEYS[:2])
    return any(reader is read for _, read in _FORMATS)


def read(text: str) -> Read:
    """All conversations in a text of any known format; may be empty."""
    text = text.lstrip(_BLANK)
    if text.startswith("{") and _is_one_object(text):
        text = f"[{text}]"
    reader = _reader(text) or (json_lines.read if text.startswith(("[", "{")) else transcript.read)
    return reader(text)


def _reader(text: str) -> Callable[[str], Read] | None:
    first = list(islice(_first(text), LINES))
    return next((read for looks_so, read in _FORMATS if any(map(looks_so, first))), None) or (
        json_lines.read if json_lines.looks_so(first) else None
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
