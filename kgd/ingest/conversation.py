"""Ingest of conversations: exports, sessions, logs, and text that is appended message by message."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import replace

from kgd.errors import Invalid
from kgd.ingest import message_ingest
from kgd.ingest.conversations import detection, transcript
from kgd.ingest.conversations.source_messages import Conversation, Read
from kgd.ingest.kind import Around, Given, Kind, Taken
from kgd.ingest.readers.result import Unreadable, characters
from kgd.ingest.thread_history import check_thread

LIMIT = 128 << 20
"""Bytes of one export."""
TEXT = "text"
"""Source type of text that did not come from a file."""
TROUBLES = 200
"""Reported problems of one source; of further ones only the number."""


def take(given: Given, around: Around) -> Iterator[Taken]:
    """The changes of each conversation in a file to its thread."""
    yield from _taken(detection.read(_text(given)), given, around)


def take_transcript(given: Given, around: Around) -> Iterator[Taken]:
    """The changes of a transcript, whose lines begin with the speaker's name."""
    yield from _taken(transcript.read(_text(given)), given, around)


def _text(given: Given) -> str:
    """The text of a file; invalid UTF-8 costs a character, not the file."""
    head = given.data[:4]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return characters(given.data)
    return given.data.decode("utf-8-sig", "replace")


def _taken(read: Read, given: Given, around: Around) -> Iterator[Taken]:
    trouble = _first(read.trouble)
    conversations = [one for one in read.conversations if one.messages or one.title]
    if not conversations:
        why = f": {read.trouble[0]}" if read.trouble else ""
        raise Unreadable(f"there is no message in it{why}", next="docs/messages.md lists the formats.")
    thread = check_thread(given.uri) if given.uri is not None else None
    if thread is not None and len(conversations) > 1:
        raise Invalid(
            f"the file has {len(conversations)} conversations, but one uri was given",
            at="uri",
            next="Leave out uri: each becomes a thread of its own.",
        )
    is_live = given.source.type == TEXT
    now = around.workspace.now() * 1000 if is_live else None
    for one in conversations:
        taken = message_ingest.take(
            around.workspace, _named(one, given), given.source.id, thread=thread, now=now, sees=around.sees
        )
        yield replace(taken, trouble=(*trouble, *_first(taken.trouble)))
        trouble = ()


def _named(one: Conversation, given: Given) -> Conversation:
    """A conversation without a name takes the name of its file."""
    stem = posixpath.splitext(posixpath.basename(given.name))[0]
    return one if one.title or one.id or not stem else replace(one, title=stem)


def _first(trouble: tuple[str, ...]) -> tuple[str, ...]:
    rest = len(trouble) - TROUBLES
    return trouble if rest <= 0 else (*trouble[:TROUBLES], f"and {rest} more lines like these")


CONVERSATION = Kind(
    name="conversation",
    about="messages: an export of Claude or ChatGPT, a session of Claude Code, JSON lines, a transcript",
    recognises=detection.is_conversation,
    take=take,
    limit=LIMIT,
    in_folder=lambda name: name.lower().endswith(detection.SUFFIXES),
    names_itself=detection.has_ids,
    scheme="thread",
)
TRANSCRIPT = Kind(
    name="transcript",
    about="a conversation as text: lines that begin with a name and a colon",
    recognises=lambda name, head: False,
    take=take_transcript,
    scheme="thread",
)
