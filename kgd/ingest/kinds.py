"""The kinds that can be ingested: documents, conversations, transcripts, and dated documents as one thread.

A thread of dated documents is release notes, minutes or a journal. Each document is one message. Its date comes from
its front matter, its name, or a line near its beginning.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kgd.errors import Invalid
from kgd.ingest import conversation_formats, documents, message_ingest
from kgd.ingest import conversation_values as values
from kgd.ingest.conversation_values import Conversation, SourceMessage
from kgd.ingest.kind import Around, Given, Kind, Taken
from kgd.ingest.message_nodes import check_thread
from kgd.ingest.readers import Text, Unreadable, characters

LIMIT = 128 << 20
"""Largest size of one export in bytes."""
TEXT = "text"
"""Source type of text that did not come from a file."""
TROUBLES = 200
"""Largest number of reported problems of one source; further ones are only counted."""


def take_conversation(given: Given, around: Around) -> Iterator[Taken]:
    """The changes that each conversation in a file, or a transcript, makes to its thread."""
    read = conversation_formats.read(_text(given))
    trouble = _first(read.trouble)
    conversations = [one for one in read.conversations if one.messages or one.title]
    if not conversations:
        why = f": {read.trouble[0]}" if read.trouble else ""
        raise Unreadable(f"it contains no messages{why}", next="docs/messages.md lists the formats.")
    thread = check_thread(given.uri) if given.uri is not None else None
    if thread is not None and len(conversations) > 1:
        raise Invalid(
            f"the file has {len(conversations)} conversations, but one uri was given",
            at="uri",
            next="Leave out uri; each conversation then becomes its own thread.",
        )
    is_live = given.source.type == TEXT
    now = around.workspace.now() * 1000 if is_live else None
    for one in conversations:
        taken = message_ingest.take(
            around.workspace, _named(one, given), given.source.id, thread=thread, now=now, sees=around.sees
        )
        yield replace(taken, trouble=(*trouble, *_first(taken.trouble)))
        trouble = ()


def _text(given: Given) -> str:
    """The text of a file, in which each piece of invalid UTF-8 is replaced by one character."""
    head = given.data[:4]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return characters(given.data)
    return given.data.decode("utf-8-sig", "replace")


def _named(one: Conversation, given: Given) -> Conversation:
    """Give a conversation without a name the name of its file."""
    stem = posixpath.splitext(posixpath.basename(given.name))[0]
    return one if one.title or one.id or not stem else replace(one, title=stem)


def _first(trouble: tuple[str, ...]) -> tuple[str, ...]:
    rest = len(trouble) - TROUBLES
    return trouble if rest <= 0 else (*trouble[:TROUBLES], f"and {rest} more lines like these")


CONVERSATION = Kind(
    name="conversation",
    about="messages: an export of Claude or ChatGPT, a session of Claude Code, JSON lines, a transcript",
    recognises=conversation_formats.is_conversation,
    take=take_conversation,
    limit=LIMIT,
    in_folder=lambda name: name.lower().endswith(conversation_formats.SUFFIXES),
    names_itself=conversation_formats.has_ids,
    scheme="thread",
)
TRANSCRIPT = Kind(
    name="transcript",
    about="a conversation as text: lines that begin with a name and a colon",
    recognises=lambda name, head: False,
    take=take_conversation,
    scheme="thread",
)


LINES = 30
"""Number of lines of a document that are searched for a date."""
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
    """The changes that a folder's documents make to its thread, in the order of their dates."""
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
            trouble.append(f"{one.name}: it has no text")
            continue
        if message.at is None:
            undated.append(one.name)
        dated.append(message)
    if not dated:
        raise Unreadable("there are no documents in it")
    if undated:
        shown = ", ".join(undated[:5]) + (f" and {len(undated) - 5} more" if len(undated) > 5 else "")
        trouble.append(f"no date in {shown}: placed after the document that precedes it by name")
    folder = _folder([one.name for one in names])
    source = _folder([one.source.id for one in names]) or names[0].source.id
    thread = next((check_thread(one.uri) for one in names if one.uri is not None), None)
    speaker = posixpath.basename(folder) or "documents"
    conversation = Conversation(values.in_order([replace(one, sender=speaker) for one in dated]), title=speaker)
    taken = message_ingest.take(around.workspace, conversation, source, thread=thread)
    yield Taken(taken.uri, taken.commits, taken.counts, (*trouble, *taken.trouble))


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
    """The date in a line, if the line is a date, is a heading with a date, or is labelled as a date."""
    bare = line.strip("*_#=()[] \t.")
    if (found := values.moment(bare)) is not None:
        return found
    if not line.startswith("#") and not _SAYS_DATE.match(line):
        return None
    match = _ISO.search(line) or _SPELT.search(line)
    return values.moment(match[0]) if match else None


def _folder(names: Sequence[str]) -> str:
    """The folder that contains all of these documents; empty if there is none."""
    folders = [posixpath.dirname(name) for name in names]
    try:
        return posixpath.commonpath(folders)
    except ValueError:
        return ""


MESSAGES = Kind(
    name="messages",
    about="a folder of dated documents as the messages of one thread",
    recognises=lambda name, head: False,
    take=lambda given, around: together([given], around),
    together=together,
    scheme="thread",
)


KINDS: Mapping[str, Kind] = {kind.name: kind for kind in (CONVERSATION, TRANSCRIPT, MESSAGES, documents.DOCUMENT)}
"""Kinds by name. The first kind that recognises a file is used, so documents come last."""


def recognised(name: str, head: bytes) -> Kind:
    """The kind of a file, judged by its name and its first bytes."""
    return next(kind for kind in KINDS.values() if kind.recognises(name, head))
