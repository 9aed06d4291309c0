"""Reader for transcripts in plain text: lines that begin with a speaker's name.

    [2026-11-20 10:00] Ann: Why Postgres?
    **Bob**: Because of the row locks,
    and because we know it.

A line without a name continues the message. A date on a line of its own applies to the messages below it.
"""

from __future__ import annotations

import re

from kgd.ingest.conversations import values
from kgd.ingest.conversations.source_messages import Conversation, Read, SourceMessage

LONGEST_NAME = 60
_STAMP = re.compile(r"\[?(?P<at>\d{1,4}[-./]\d{1,2}[-./]\d{1,4}[T ,]{0,2}[\d:.Z+]{0,20})\]?(?: - |\s|:)\s*")
_NAMED = re.compile(r"[*_]{0,3}(?P<name>[^\W\d_][^:*\n]{0,60}?)[*_]{0,3}:[*_]{0,3}(?:[ \t]+(?P<rest>.*))?\Z")
_WORDS = 4
"""Most words of a name, so `Remember this for tomorrow: ...` has no speaker."""


def read(text: str) -> Read:
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
        if head.at != day:  # a message without a time follows this one, instead of starting the day
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
