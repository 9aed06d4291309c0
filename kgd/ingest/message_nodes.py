"""Ids and nodes of messages, and reading a thread in order. Ids are stable names that sort by time within a thread.

The id is a ULID: 48 bits of milliseconds, 20 bits that count the messages of one millisecond, and 60 bits of a hash of
the source's own id or, without one, of sender and text. So if the same export, or a longer one, is ingested again, each
message keeps its id.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from heapq import heapify, heappop, heappush
from typing import Any

from kgd.errors import Invalid, Limit
from kgd.ingest import conversation_values as values
from kgd.ingest.conversation_values import OLDEST_KNOWN, SourceMessage, ToolCall
from kgd.model.node import NAME_LIMIT, Json, Node, Source, cut_at_word
from kgd.model.uri import Uri, namespace_of, scheme_of, workspace_of
from kgd.model.uri import name_of as uri_name
from kgd.workspace.workspace import Workspace

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_TIME, _COUNT, _HASH = 10, 4, 12
"""Number of digits of the three parts of an id."""
MOST_TOGETHER = 1 << 20


@dataclass(frozen=True, slots=True)
class Placed:
    """A message and its id. `is_new` is set unless the thread already has it."""

    message: SourceMessage
    id: str
    is_new: bool


def place(messages: Sequence[SourceMessage], stored: Iterable[str], now: int | None = None) -> list[Placed]:
    """The messages with their ids, in the given order.

    A message without a time gets the time of the message before it. If no message has a time or an id, all get the time
    `now` (a live conversation), and messages at the beginning that repeat the end of the thread are not new; without
    `now`, times count from 0.

    Args:
        stored: Ids of the thread, in order: at least the ids between the first and the last time of `messages`, and all
            ids unless every message has a time.

    Raises:
        Limit: More than a million messages have the same millisecond.
    """
    known = _Known(stored)
    names = [_hash(one) for one in messages]
    bare = now is not None and all(one.at is None and not one.id for one in messages)
    repeated = _overlap(known.ids, names) if bare else 0
    placed = [Placed(messages[n], known.ids[len(known.ids) - repeated + n], False) for n in range(repeated)]
    at = now if now is not None else 0
    for one, name in zip(messages[repeated:], names[repeated:], strict=True):
        if one.at is None and at == now:
            one = replace(one, at=now)
        at = at if one.at is None else one.at
        there = None if bare else known.take(name, at, by_name=bool(one.id) and one.at in (None, now))
        placed.append(Placed(one, there or known.add(name, at), there is None))
    return placed


def is_id(name: str) -> bool:
    """Whether a message's name is a sortable id as made here."""
    return len(name) == _TIME + _COUNT + _HASH and _number(name) is not None


def moment_of(id: str) -> int | None:
    """The time of a message in Unix milliseconds, from its id; None if its source had no time, or if this is not the id
    of a message."""
    at = _number(id[:_TIME]) if len(id) == _TIME + _COUNT + _HASH else None
    return at if at is not None and at >= OLDEST_KNOWN else None


def count_of(id: str) -> int:
    """The number of a message within its millisecond, from 1."""
    return (_number(id[_TIME : _TIME + _COUNT]) or 0) + 1


def beginning(at: int) -> str:
    """The common prefix of all ids of this millisecond."""
    return _text(at, _TIME)


def name_in(id: str) -> str:
    """The part of an id that identifies the message itself."""
    return id[_TIME + _COUNT :]


def name_of(id: str) -> str:
    """The identifying part for a message that has an id in its source."""
    return _hashed("id", id)


def _hash(one: SourceMessage) -> str:
    if one.id:
        return name_of(one.id)
    return _hashed("text", one.kind, one.sender, one.text, *(call.arguments for call in one.tool_calls))


def _hashed(*parts: str) -> str:
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).digest()
    return _text(int.from_bytes(digest[:8], "big") >> 4, _HASH)


class _Known:
    """The old and new ids of a thread. The order of equal messages within one millisecond distinguishes them."""

    def __init__(self, stored: Iterable[str]) -> None:
        self.ids = list(stored)
        self._of: dict[tuple[str, str], list[str]] = defaultdict(list)
        self._named: dict[str, list[str]] = defaultdict(list)
        self._last: dict[str, int] = {}
        for id in self.ids:
            time, count, name = id[:_TIME], id[_TIME : _TIME + _COUNT], id[_TIME + _COUNT :]
            self._of[time, name].append(id)
            self._named[name].append(id)
            self._last[time] = max(self._last.get(time, -1), _number(count) or 0)
        for ids in (*self._of.values(), *self._named.values()):
            ids.reverse()

    def take(self, name: str, at: int, *, by_name: bool) -> str | None:
        """The next equal stored message; each is taken only once. With `by_name`, its time may differ, because the new
        message has no known time."""
        found = self._named.get(name) if by_name else self._of.get((_text(at, _TIME), name))
        return found.pop() if found else None

    def add(self, name: str, at: int) -> str:
        time = _text(at, _TIME)
        count = self._last[time] = self._last.get(time, -1) + 1
        if count >= MOST_TOGETHER:
            raise Limit("more than a million messages have the same time", next="Give the messages their own times.")
        return f"{time}{_text(count, _COUNT)}{name}"


def _overlap(stored: Sequence[str], names: Sequence[str]) -> int:
    """The number of messages at the beginning that repeat the end of the thread. O(messages)."""
    pattern: list[str | None] = [*names, None, *(id[_TIME + _COUNT :] for id in stored[-len(names) :])] if names else []
    longest = [0] * len(pattern)
    for n in range(1, len(pattern)):
        length = longest[n - 1]
        while length and pattern[n] != pattern[length]:
            length = longest[length - 1]
        longest[n] = length + (pattern[n] == pattern[length])
    return min(longest[-1], len(names), len(stored)) if longest else 0


def _text(number: int, digits: int) -> str:
    return "".join(_DIGITS[number >> shift & 31] for shift in range(5 * (digits - 1), -1, -5))


def _number(text: str) -> int | None:
    number = 0
    for digit in text:
        place = _DIGITS.find(digit)
        if place < 0:
            return None
        number = number << 5 | place
    return number


WHOLE = 240 * 1024
"""Bytes of a node's file above which a message is split: a node's limit, less the indentation in a bulk part."""
PIECE = 100_000
"""Largest file of a piece, in bytes."""
SMALL = 24 * 1024
"""Number of characters whose encoding never exceeds `WHOLE`."""
IN_DATA = 16 * 1024
"""Largest number of characters of tool arguments in a message's data; longer arguments go into the content."""
CALLS = 200
"""Largest number of tool calls in a message's data; further calls go into the content."""


def as_node(uri: Uri, message: SourceMessage, source: Source) -> Node:
    """The node of a message, named ``senderType:timestamp``."""
    content, calls = _with_calls(message)
    more: dict[str, Json] = {"id": message.id, "toolCalls": [*calls], "toolCallId": message.answers}
    about = {"senderId": message.sender, "senderType": message.kind}
    data: dict[str, Json] = {**about, **{key: value for key, value in more.items() if value}}
    name = f"{message.kind}:{_moment(uri_name(uri), message)}"[:NAME_LIMIT]
    summary = cut_at_word(message.title)
    return Node(uri, "message", name, summary, content, data=data, source=source)


def _moment(id: str, message: SourceMessage) -> str:
    """The time of a message, marked ``~`` if it was taken from an earlier message; the message's number if there is no
    time."""
    at = moment_of(id)
    if at is None:
        return str(count_of(id))
    return spelt(at) if message.at is not None else f"~{spelt(at)}"


def spelt(at: int) -> str:
    """Unix milliseconds as ISO 8601 in UTC; milliseconds only if not zero."""
    moment = datetime.fromtimestamp(at / 1000, UTC).replace(tzinfo=None)
    return moment.isoformat(timespec="milliseconds" if at % 1000 else "seconds") + "Z"


def fitting(message: SourceMessage, size: Callable[[SourceMessage], int]) -> list[SourceMessage]:
    """The message, or pieces of it that each fit; each piece answers the one before it. `size` returns the number of
    bytes of the message's node file. Pieces end at line ends if possible.
    """
    whole = replace(message, text=_with_calls(message)[0], tool_calls=_kept(message))
    if len(whole.text) <= SMALL or size(whole) <= WHOLE:
        return [message]
    pieces = [whole]
    at = 0
    while at < len(pieces):
        one = pieces[at]
        if len(one.text) > SMALL and size(one) > PIECE:
            cut = _cut(one.text)
            rest = replace(one, text=one.text[cut:], tool_calls=())
            pieces[at : at + 1] = [replace(one, text=one.text[:cut]), rest]
        else:
            at += 1
    made = [replace(pieces[0], text=pieces[0].text)]
    for number, piece in enumerate(pieces[1:], 2):
        id = f"{message.id}/part {number}" if message.id else ""
        made.append(replace(piece, id=id, parent=made[-1].id or None, closes=message.id))
    return made


def _cut(text: str) -> int:
    """Where to cut the text: at the last line end before its middle, if that is near."""
    middle = len(text) // 2
    line = text.rfind("\n", middle // 2, middle)
    return line + 1 if line > 0 else middle


def _kept(message: SourceMessage) -> tuple[ToolCall, ...]:
    """The tool calls for which `data` has room, without arguments that are too long."""
    room = IN_DATA
    kept = []
    for call in message.tool_calls[:CALLS]:
        fits = len(call.arguments) <= room
        room -= len(call.arguments) if fits else 0
        kept.append(call if fits else replace(call, arguments=""))
    return tuple(kept)


def _with_calls(message: SourceMessage) -> tuple[str, list[dict[str, Json]]]:
    """Content and tool calls; calls too long for `data` are appended to the text, so that nothing is lost."""
    kept = _kept(message)
    texts = [message.text]
    for number, call in enumerate(message.tool_calls):
        if number >= len(kept) or kept[number] != call:
            texts.append(f"[{call.name}]\n{call.arguments}")
    shown = [
        {key: text for key, text in (("id", c.id), ("name", c.name), ("arguments", c.arguments)) if text} for c in kept
    ]
    return "\n\n".join(filter(None, texts)), [dict(one) for one in shown]


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
    if last and not is_id(uri_name(last[0])):  # their names sort after ids
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
    name = uri_name(uri)
    stamp = name.partition(":")[2] or name
    return moment_of(name) or values.moment(stamp) or (int(stamp) if re.fullmatch(r"[0-9]{1,19}", stamp) else 0)


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
        moment_of(uri_name(node.uri)),
        node.content,
        tuple(call for call in calls if isinstance(call, dict)) if isinstance(calls, list) else (),
    )
