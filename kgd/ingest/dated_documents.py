"""Ingest of a folder of dated documents as one thread: release notes, minutes, a journal.

Each document is one message. Its date comes from its front matter, its name, or a line near its beginning.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from kgd.ingest import message_ingest
from kgd.ingest.conversations import values
from kgd.ingest.conversations.source_messages import Conversation, SourceMessage
from kgd.ingest.kind import Around, Given, Kind, Taken
from kgd.ingest.readers.result import Text, Unreadable
from kgd.ingest.thread_history import check_thread

LINES = 30
"""Lines of a document that are searched for a date."""
LONGEST_LINE = 80
_IN_NAME = re.compile(r"(?<!\d)(\d{4})[-_.]?(\d{2})[-_.]?(\d{2})(?!\d)")
_ISO = re.compile(r"(?<![\d.-])\d{4}-\d{2}-\d{2}(?![\d.-])")
_MONTH = (
    "(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:tember)?|Oct(?:ober)?"
    "|Nov(?:ember)?|Dec(?:ember)?)"
)
_SPELT = re.compile(rf"\b(?:{_MONTH} \d{{1,2}}(?:st|nd|rd|th)?, \d{{4}}|\d{{1,2}} {_MONTH},? \d{{4}})\b")
_SAYS_DATE = re.compile(r"\W*(?:date|released?|published|on|as of|:date)\b", re.I)


def together(given: Iterable[Given], around: Around) -> Iterator[Taken]:
    """The changes of a folder's documents to its thread, in the order of their dates."""
    dated: list[SourceMessage] = []
    trouble: list[str] = []
    undated: list[str] = []
    names: list[Given] = []
    for one in sorted(given, key=lambda each: natural(each.name)):
        try:
            read = around.reading.read(one.name, one.data)
        except Unreadable as error:
            trouble.append(f"{one.name}: {error.message}")
            continue
        names.append(one)
        message = _message(one, read)
        if not message.text.strip():
            trouble.append(f"{one.name}: there is no text in it")
            continue
        if message.at is None:
            undated.append(one.name)
        dated.append(message)
    if not dated:
        raise Unreadable("there is no document in it")
    if undated:
        shown = ", ".join(undated[:5]) + (f" and {len(undated) - 5} more" if len(undated) > 5 else "")
        trouble.append(f"no date in {shown}: placed after the document before by name")
    folder = _folder([one.name for one in names])
    source = _folder([one.source.id for one in names]) or names[0].source.id
    thread = next((check_thread(one.uri) for one in names if one.uri is not None), None)
    speaker = posixpath.basename(folder) or "documents"
    conversation = Conversation(values.in_order([replace(one, sender=speaker) for one in dated]), title=speaker)
    taken = message_ingest.take(around.workspace, conversation, source, thread=thread)
    yield Taken(taken.uri, taken.commits, taken.counts, (*trouble, *taken.trouble))


def take(given: Given, around: Around) -> Iterator[Taken]:
    """A single document becomes a thread with one message."""
    yield from together([given], around)


def natural(name: str) -> list[Any]:
    """Sort key that puts 1.10 after 1.9."""
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in re.split(r"([0-9]{1,18})", name)]


def _message(given: Given, read: Text) -> SourceMessage:
    return SourceMessage(
        values.clean(read.text),
        kind="document",
        at=_date(given.name, read),
        id=given.name,
        place=given.name,
        title=values.line(read.title or posixpath.basename(given.name)),
    )


def _date(name: str, read: Text) -> int | None:
    """The date of a document in Unix milliseconds."""
    stated = next((value for key, value in read.about if key == "date"), "")
    if (found := values.moment(stated)) is not None:
        return found
    named = _IN_NAME.search(posixpath.basename(name))
    if named and (found := values.moment("-".join(named.groups()))) is not None:
        return found
    lines = [line.strip() for line in read.text.split("\n", LINES)[:LINES]]
    return next((found for line in lines if 0 < len(line) <= LONGEST_LINE and (found := _in_line(line))), None)


def _in_line(line: str) -> int | None:
    """The date in a line, if the line is a date, a heading with a date, or labelled as one."""
    bare = line.strip("*_#=()[] \t.")
    if (found := values.moment(bare)) is not None:
        return found
    if not line.startswith("#") and not _SAYS_DATE.match(line):
        return None
    match = _ISO.search(line) or _SPELT.search(line)
    return values.moment(match[0]) if match else None


def _folder(names: Sequence[str]) -> str:
    """The folder that contains all of these; empty if there is none."""
    folders = [posixpath.dirname(name) for name in names]
    try:
        return posixpath.commonpath(folders)
    except ValueError:
        return ""


MESSAGES = Kind(
    name="messages",
    about="a folder of dated documents as the messages of one thread",
    recognises=lambda name, head: False,
    take=take,
    together=together,
    scheme="thread",
)
