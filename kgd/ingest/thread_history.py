"""Reading a thread: its messages in order."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any

from kgd.errors import Invalid
from kgd.ingest.conversations import message_nodes, values
from kgd.model.uri import Uri, name_of, namespace_of, scheme_of, workspace_of
from kgd.workspace.workspace import Workspace

REPLIED_BY = "REPLIED_BY"
LAST = "\U0010ffff"
MOST_ORDERED = 20_000
"""Largest number of messages of one thread that can be ordered by their replies."""


@dataclass(frozen=True, slots=True)
class Message:
    """A stored message. `at` is in Unix milliseconds, None if its source had no time."""

    uri: Uri
    name: str
    sender: str
    kind: str
    at: int | None
    content: str
    tool_calls: tuple[dict[str, Any], ...] = ()


def messages_of(workspace: Workspace, thread: Uri) -> str:
    """The common prefix of the URIs of a thread's messages, which do not change when the thread is moved."""
    current = workspace.graph.resolve(thread)
    former = [uri for uri in workspace.graph.aliases(current) if uri.startswith("thread:")]
    starts = [f"message:{uri.partition(':')[2]}/" for uri in (current, *former)]
    if not former:
        return starts[0]
    return next((start for start in starts if workspace.text().between(start, start + LAST, 1)), starts[0])


def listed(
    workspace: Workspace, thread: Uri, limit: int, *, before: Uri | None = None, after: Uri | None = None
) -> list[Uri]:
    """The URIs of up to `limit` messages of a thread, oldest first; O(answer), however long the thread is.

    With `after`, these are the messages after that message; with `before`, the messages right before it; otherwise the
    newest messages. Acknowledged writes are included. O(thread) if a program named the messages itself.

    Raises:
        Invalid: `thread` is not the URI of a thread.
    """
    start = messages_of(workspace, check_thread(thread))
    last = workspace.text().between(start, start + LAST, 1, backward=True)
    if last and not message_nodes.is_id(name_of(last[0])):  # their names sort after ids
        ordered = _said_in_order(workspace, workspace.text().between(start, start + LAST, MOST_ORDERED))
        at = {uri: number for number, uri in enumerate(ordered)}
        if after is not None:
            return ordered[at.get(after, -1) + 1 :][:limit]
        return ordered[: at.get(before, len(ordered)) if before is not None else None][-limit:]
    begin = after if after is not None else start
    end = before if before is not None else start + LAST
    if after is not None:
        return workspace.text().between(max(begin, start), end, limit)
    return workspace.text().between(start, end, limit, backward=True)[::-1]


def _said_in_order(workspace: Workspace, uris: list[Uri]) -> list[Uri]:
    """Messages in the order of their REPLIED_BY relations, then by time, then by URI."""
    known = set(uris)
    answers = {uri: [e.target for e in workspace.graph.out(uri) if e.type == REPLIED_BY] for uri in uris}
    waits = Counter(target for targets in answers.values() for target in targets if target in known)
    ready = [(_moment_in(uri), uri) for uri in uris if not waits[uri]]
    heapify(ready)
    ordered: list[Uri] = []
    while ready:
        _, uri = heappop(ready)
        ordered.append(uri)
        for target in answers[uri]:
            waits[target] -= 1
            if target in known and not waits[target]:
                heappush(ready, (_moment_in(target), target))
    left = known.difference(ordered)  # replies in a cycle
    return [*ordered, *sorted(left, key=lambda uri: (_moment_in(uri), uri))]


def _moment_in(uri: Uri) -> int:
    """Unix milliseconds in a message's name: in its id, or as ``user:<time>``; 0 if it has no time."""
    name = name_of(uri)
    stamp = name.partition(":")[2] or name
    return (
        message_nodes.moment_of(name)
        or values.moment(stamp)
        or (int(stamp) if re.fullmatch(r"[0-9]{1,19}", stamp) else 0)
    )


def first_of(workspace: Workspace, thread: Uri) -> Uri:
    """A position before all messages of a thread."""
    return Uri(messages_of(workspace, thread))


def thread_of(message: Uri) -> Uri:
    """The URI of a message's thread, derived from the message's URI. The thread may have been moved since then."""
    return Uri(f"thread://{workspace_of(message)}/{namespace_of(message)}")


def check_thread(uri: Uri) -> Uri:
    """The URI, if it is a thread's.

    Raises:
        Invalid: The URI is not a thread's.
    """
    if scheme_of(uri) != "thread":
        raise Invalid("this is not a thread", at=uri, next="Use thread://<workspace>/<thread>.")
    return uri


def read(workspace: Workspace, uri: Uri) -> Message | None:
    """One message, in which invalid fields are empty; None if it does not exist or its file is damaged."""
    node = workspace.readable(uri)
    if node is None:
        return None
    data = node.data
    calls = data.get("toolCalls")
    kind, sender = (data.get(key) if isinstance(data.get(key), str) else "" for key in ("senderType", "senderId"))
    return Message(
        node.uri,
        node.title,
        sender or "",
        kind or "",
        message_nodes.moment_of(name_of(node.uri)),
        node.content,
        tuple(call for call in calls if isinstance(call, dict)) if isinstance(calls, list) else (),
    )
