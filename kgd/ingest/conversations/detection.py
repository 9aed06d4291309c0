"""Detection of the format of a conversation, and the reader of transcripts in plain text.

The format is detected from the beginning of the text. In a transcript, lines begin with a speaker's name:

    [2026-11-20 10:00] Ann: Why Postgres?
    **Bob**: Because of the row locks,
    and because we know it.

A line without a name continues the message. A date on a line of its own applies to the messages below it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from kgd.ingest.conversations import exports, values
from kgd.ingest.conversations.values import Conversation, Read, SourceMessage

SUFFIXES = (".json", ".jsonl", ".ndjson")
LINES = 20
"""Number of lines of a text that are examined."""
_BLANK = "\ufeff \t\r\n"
_KEYS = (('"chat_messages"', '"uuid"'), ('"mapping"', '"title"'), ('"messages"', '"role"'))
"""Matches keys near the beginning of a list whose first element is longer than the examined part."""

_FORMATS: tuple[tuple[Callable[[Any], bool], Callable[[str], Read]], ...] = (
    (exports.is_claude, exports.read_claude),
    (exports.is_chatgpt, exports.read_chatgpt),
    (exports.is_claude_code, exports.read_claude_code),
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
    reader = _reader(text) or (exports.read_plain if text.startswith(("[", "{")) else read_transcript)
    return reader(text)


def _reader(text: str) -> Callable[[str], Read] | None:
    first = list(islice(_first(text), LINES))
    return next((read for looks_so, read in _FORMATS if any(map(looks_so, first))), None) or (
        exports.read_plain if exports.is_plain(first) else None
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
            trouble.append(f"line 1: {len(lines)} line(s) before the first name were left out")

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
