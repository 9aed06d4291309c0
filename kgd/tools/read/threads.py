"""Messages of a thread, from its start, its end or a given message, as pages of an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kgd.errors import Invalid
from kgd.ingest import thread_history
from kgd.ingest.conversations.message_nodes import spelt
from kgd.ingest.thread_history import LAST, REPLIED_BY
from kgd.model.uri import Uri, scheme_of
from kgd.tools.nodes import MessageAnswer
from kgd.tools.paging import LEAST, Room, fitting

if TYPE_CHECKING:
    from kgd.ingest.thread_history import Message
    from kgd.tools.nodes import Found

ONWARD, BACK = "messages", "messages_back"
"""Parts of an answer. ONWARD: oldest first, from the thread's start or after a message. BACK: newest first, from the
thread's end or before a message."""
PAGE = 25
"""Number of messages per look-up."""
AROUND = 400
"""Number of bytes of a message in an answer, apart from its text."""


def check(include: Sequence[str], as_of: str | None, *, is_far: bool) -> None:
    """Check that the call can be answered.

    Raises:
        Invalid: The call includes messages, and reads a past commit or a workspace on a hub.
    """
    if (ONWARD in include or BACK in include) and (as_of or is_far):
        raise Invalid(
            "messages are read at the present commit, from workspaces of this machine",
            at="include",
            next="Search for them there, or get each by its own URI.",
        )


def part(include: Sequence[str]) -> str | None:
    """The included part; ONWARD if both parts are included, None without messages."""
    return ONWARD if ONWARD in include else BACK if BACK in include else None


def page(found: Found, way: str, room: Room, last: str) -> tuple[list[MessageAnswer], str | None]:
    """The messages of one page, and the position after which the next page starts; None at the end.

    O(answer). A message larger than a whole page is cut; reading its own URI returns all of it. Hidden messages are
    left out. Nodes other than threads and messages have no messages.

    Args:
        way: ONWARD or BACK.
        room: Reduced by the size of the messages.
        last: The position returned with the previous page; empty for the first page.
    """
    if scheme_of(found.uri) not in ("thread", "message"):
        return [], None
    thread = found.uri if scheme_of(found.uri) == "thread" else thread_history.thread_of(found.uri)
    begin = thread_history.first_of(found.workspace, thread)
    ends = begin if way == ONWARD else Uri(begin + LAST)
    at = Uri(last) if last else ends if thread == found.uri else found.uri
    made: list[MessageAnswer] = []
    while uris := _next(found, thread, at, way):
        for number, uri in enumerate(uris):
            before = at if way == ONWARD else uris[number + 1] if number + 1 < len(uris) else None
            message = thread_history.read(found.workspace, uri) if found.sees is None or found.sees(uri) else None
            if message is not None and not _take(made, _answer(found, message, before), room, must=bool(last)):
                return made, at
            at = uri
    return made, None


def _next(found: Found, thread: Uri, at: Uri, way: str) -> list[Uri]:
    if way == BACK:
        return thread_history.listed(found.workspace, thread, PAGE, before=at)[::-1]
    return thread_history.listed(found.workspace, thread, PAGE, after=at)


def _take(made: list[MessageAnswer], answer: MessageAnswer, room: Room, *, must: bool) -> bool:
    """Add a message to the page; returns False if there is no room.

    The first message of a page is cut if there is room for a part of it, or if it `must` be added so that paging
    advances.
    """
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
        "uri": message.uri,
        "sender": message.sender,
        "sender_type": message.kind,
        "content": message.content,
    }
    if message.at is not None:
        answer["at"] = spelt(message.at)
    answered = [edge.target for edge in found.workspace.graph.into(message.uri) if edge.type == REPLIED_BY]
    if answered and before not in answered and (found.sees is None or found.sees(answered[0])):
        answer["answers"] = answered[0]
    if message.tool_calls:
        answer["tool_calls"] = [dict(call) for call in message.tool_calls]
    return answer
