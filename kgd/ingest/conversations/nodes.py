"""Nodes of messages: one per message, or several if it is longer than a node may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from kgd.ingest.conversations import placing
from kgd.ingest.conversations.said import SourceMessage, ToolCall
from kgd.model.change import Upsert
from kgd.model.node import NAME_LIMIT, Json, Node, Source, cut_at_word
from kgd.model.uri import Uri, name_of

WHOLE = 240 * 1024
"""Bytes of a node's file above which a message is split: the limit of a node, less the indentation in a bulk part."""
PIECE = 100_000
"""Largest file of a piece, in bytes."""
SMALL = 24 * 1024
"""Characters whose encoding never exceeds `WHOLE`."""
IN_DATA = 16 * 1024
"""Characters of tool arguments in a message's data; longer ones go into the content."""
CALLS = 200
"""Tool calls in a message's data; further ones go into the content."""


def as_node(uri: Uri, said: SourceMessage, source: Source) -> Node:
    """The node of a message, named ``senderType:timestamp``."""
    content, calls = _with_calls(said)
    data: dict[str, Json] = {"senderId": said.sender, "senderType": said.kind}
    if said.id:
        data["id"] = said.id
    if calls:
        data["toolCalls"] = calls
    if said.answers:
        data["toolCallId"] = said.answers
    name = f"{said.kind}:{_moment(name_of(uri), said)}"[:NAME_LIMIT]
    summary = cut_at_word(said.title)
    return Node(uri, "message", name, summary, content, data=data, source=source)


def _moment(id: str, said: SourceMessage) -> str:
    """The time of a message; with ``~`` if only an earlier message has a time, else its number."""
    at = placing.moment_of(id)
    if at is None:
        return str(placing.count_of(id))
    return spelt(at) if said.at is not None else f"~{spelt(at)}"


def spelt(at: int) -> str:
    """Unix milliseconds as ISO 8601 in UTC; milliseconds only if not zero."""
    moment = datetime.fromtimestamp(at / 1000, UTC).replace(tzinfo=None)
    return moment.isoformat(timespec="milliseconds" if at % 1000 else "seconds") + "Z"


def upsert_of(node: Node) -> Upsert:
    """The edit that creates this node, or adds its fields to the stored one."""
    return Upsert(
        node.uri, type=node.type, name=node.name or None, summary=node.summary or None, content=node.content or None,
        data=node.data, source=node.source, relations=node.relations,
    )  # fmt: skip


def fitting(said: SourceMessage, size: Callable[[SourceMessage], int]) -> list[SourceMessage]:
    """The message, or pieces of it that each fit; each piece answers the one before it.

    `size` returns the bytes of a message as a node's file. Pieces end at line ends if possible.
    """
    whole = replace(said, text=_with_calls(said)[0], tool_calls=_kept(said))
    if len(whole.text) <= SMALL or size(whole) <= WHOLE:
        return [said]
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
        id = f"{said.id}/part {number}" if said.id else ""
        made.append(replace(piece, id=id, parent=made[-1].id or None, closes=said.id))
    return made


def _cut(text: str) -> int:
    """A place in the middle, at the nearest line end before it."""
    middle = len(text) // 2
    line = text.rfind("\n", middle // 2, middle)
    return line + 1 if line > 0 else middle


def _kept(said: SourceMessage) -> tuple[ToolCall, ...]:
    """The tool calls for which `data` has room, without their arguments if those are long."""
    room = IN_DATA
    kept = []
    for call in said.tool_calls[:CALLS]:
        fits = len(call.arguments) <= room
        room -= len(call.arguments) if fits else 0
        kept.append(call if fits else replace(call, arguments=""))
    return tuple(kept)


def _with_calls(said: SourceMessage) -> tuple[str, list[dict[str, Json]]]:
    """Content and tool calls; calls too long for `data` are appended to the text, so nothing is lost."""
    kept = _kept(said)
    texts = [said.text]
    for number, call in enumerate(said.tool_calls):
        if number >= len(kept) or kept[number] != call:
            texts.append(f"[{call.name}]\n{call.arguments}")
    shown = [
        {key: text for key, text in (("id", c.id), ("name", c.name), ("arguments", c.arguments)) if text} for c in kept
    ]
    return "\n\n".join(filter(None, texts)), [dict(one) for one in shown]
