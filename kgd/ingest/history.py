"""This file is where a thread is read back: its messages in the order in which they were said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kgd.errors import Invalid
from kgd.ingest.conversations import placing
from kgd.ingest.messages import LAST, messages_of
from kgd.model.node import Node
from kgd.model.uri import Uri, name_of, namespace_of, scheme_of, workspace_of

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Message:
    """One message as it is stored. `at` is Unix milliseconds, None where its source had no time for it."""

    uri: Uri
    name: str
    sender: str
    kind: str
    at: int | None
    content: str
    tool_calls: tuple[dict[str, Any], ...] = ()


def history(
    workspace: Workspace, thread: Uri, limit: int = 50, *, before: Uri | None = None, after: Uri | None = None
) -> list[Message]:
    """Up to `limit` messages of a thread, oldest first; O(answer), however long the thread is.

    With `after` those that follow that message, with `before` those right before it; with neither the newest. What
    was acknowledged before the call is there. A message whose file is damaged is left out.

    Raises:
        Invalid: `thread` is no thread.
    """
    uris = listed(workspace, thread, limit, before=before, after=after)
    return [message for uri in uris if (message := read(workspace, uri)) is not None]


def listed(
    workspace: Workspace, thread: Uri, limit: int, *, before: Uri | None = None, after: Uri | None = None
) -> list[Uri]:
    """The URIs of those messages, oldest first."""
    start = messages_of(workspace, check_thread(thread))
    begin = after if after is not None else start
    end = before if before is not None else start + LAST
    if after is not None:
        return workspace.text().between(max(begin, start), end, limit)
    return workspace.text().between(start, end, limit, backward=True)[::-1]


def first_of(workspace: Workspace, thread: Uri) -> Uri:
    """What all messages of a thread come after; it is none of them."""
    return Uri(messages_of(workspace, thread))


def thread_of(message: Uri) -> Uri:
    """The thread that a message belongs to, by its URI; it may have moved since."""
    return Uri(f"thread://{workspace_of(message)}/{namespace_of(message)}")


def check_thread(uri: Uri) -> Uri:
    """The thread itself.

    Raises:
        Invalid: It is none.
    """
    if scheme_of(uri) != "thread":
        raise Invalid("this is no thread", at=uri, next="Messages are read from thread://<workspace>/<thread>.")
    return uri


def read(workspace: Workspace, uri: Uri) -> Message | None:
    """One message; None where it is not there, or cannot be read."""
    node = workspace.readable(uri)
    return message_of(node) if node is not None else None


def message_of(node: Node) -> Message:
    """What a node says as a message, whoever wrote it: a field that is not what it should be is empty."""
    data = node.data
    calls = data.get("toolCalls")
    kind, sender = (data.get(key) if isinstance(data.get(key), str) else "" for key in ("senderType", "senderId"))
    return Message(
        node.uri, node.title, sender or "", kind or "", placing.moment_of(name_of(node.uri)), node.content,
        tuple(call for call in calls if isinstance(call, dict)) if isinstance(calls, list) else (),
    )  # fmt: skip
