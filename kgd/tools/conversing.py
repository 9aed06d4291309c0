"""This file is where the messages of a thread, or those around one of them, become part of an answer, page by page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kgd.errors import Invalid
from kgd.ingest import history
from kgd.ingest.conversations.placing import spelt
from kgd.ingest.messages import LAST, REPLIED_BY
from kgd.model.uri import Uri, scheme_of
from kgd.tools.budget import LEAST, Room, fitting
from kgd.tools.nodes import MessageAnswer

if TYPE_CHECKING:
    from kgd.ingest.history import Message
    from kgd.tools.nodes import Found

ONWARD, BACK = "messages", "messages_back"
"""Parts of an answer: messages from the first on, or from behind this one; the newest first, or those before it."""
PAGE = 25
"""Messages that are looked up together."""
AROUND = 400
"""Bytes of a message beside its text."""


def check(include: Sequence[str], as_of: str | None, *, is_far: bool) -> None:
    """Return if this part can be answered at all.

    Raises:
        Invalid: Messages are asked for as they were, or of another machine.
    """
    if (ONWARD in include or BACK in include) and (as_of or is_far):
        raise Invalid(
            "messages are read as they are now, of workspaces of this machine", at="include",
            next="Search for them there, or get each by its own URI.",
        )  # fmt: skip


def part(include: Sequence[str]) -> str | None:
    """Which of the two parts is asked for; onward where both are."""
    return ONWARD if ONWARD in include else BACK if BACK in include else None


def page(found: Found, way: str, room: Room, last: str) -> tuple[list[MessageAnswer], str | None]:
    """As many messages as there is room for, behind the one that was the last, and the last one if there are more.

    O(answer). A message that is longer than all the room is cut; it is whole under its own URI.
    """
    if scheme_of(found.uri) not in ("thread", "message"):
        return [], None
    thread = found.uri if scheme_of(found.uri) == "thread" else history.thread_of(found.uri)
    begin = history.first_of(found.workspace, thread)
    ends = begin if way == ONWARD else Uri(begin + LAST)
    at = Uri(last) if last else ends if thread == found.uri else found.uri
    made: list[MessageAnswer] = []
    while uris := _next(found, thread, at, way):
        for number, uri in enumerate(uris):
            before = at if way == ONWARD else uris[number + 1] if number + 1 < len(uris) else None
            message = history.read(found.workspace, uri) if found.sees is None or found.sees(uri) else None
            if message is not None and not _take(made, _answer(found, message, before), room, must=bool(last)):
                return made, at
            at = uri
    return made, None


def _next(found: Found, thread: Uri, at: Uri, way: str) -> list[Uri]:
    if way == BACK:
        return history.listed(found.workspace, thread, PAGE, before=at)[::-1]
    return history.listed(found.workspace, thread, PAGE, after=at)


def _take(made: list[MessageAnswer], answer: MessageAnswer, room: Room, *, must: bool) -> bool:
    """Put the message into the answer; one that `must` be in, so that the next page is another one, is cut."""
    if room.take(answer):
        made.append(answer)
        return True
    if made or (room.left < LEAST + AROUND and not must):
        return False
    content = answer["content"]
    answer.pop("tool_calls", None)
    end = fitting(content, max(LEAST, room.left - AROUND))
    answer["content"], answer["content_cut"] = content[:end], {"start": 0, "end": end, "of": len(content)}
    room.left = 0
    made.append(answer)
    return True


def _answer(found: Found, message: Message, before: Uri | None) -> MessageAnswer:
    answer: MessageAnswer = {
        "uri": message.uri, "sender": message.sender, "sender_type": message.kind, "content": message.content,
    }  # fmt: skip
    if message.at is not None:
        answer["at"] = spelt(message.at)
    answered = [edge.target for edge in found.workspace.graph.into(message.uri) if edge.type == REPLIED_BY]
    if answered and before not in answered and (found.sees is None or found.sees(answered[0])):
        answer["answers"] = answered[0]
    if message.tool_calls:
        answer["tool_calls"] = [dict(call) for call in message.tool_calls]
    return answer
