"""Reader for the export of a ChatGPT account: `conversations.json`, a tree of messages per conversation.

A repeated question or a regenerated answer makes a branch; all branches are kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from kgd.ingest.conversations import values
from kgd.ingest.conversations.values import Conversation, Read, SourceMessage, ToolCall, line


def read(text: str) -> Read:
    """One thread per conversation, with messages by time, or in tree order if they have no times."""
    return values.read_list(text, _conversation)


def looks_so(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("mapping"), Mapping)


def _conversation(value: Any, place: str, trouble: list[str]) -> Conversation | None:
    if not looks_so(value):
        trouble.append(f"{place}: not a conversation of a ChatGPT export")
        return None
    messages: list[SourceMessage] = []
    gone: dict[str, str | None] = {}
    left_out: Counter[str] = Counter()
    for id, node in _walked(value["mapping"]):
        where = f"{place}, message {id[:40]}"
        parent = line(node.get("parent"))
        message = node.get("message")
        made = _messages(message, id, parent, where, left_out) if isinstance(message, Mapping) else []
        messages += made
        if not made:
            gone[id] = parent
    title = line(value.get("title"))
    trouble += values.report(left_out, f"{place} ({title or 'untitled'})")
    return Conversation(
        values.in_order(messages),
        line(value.get("conversation_id") or value.get("id")),
        title,
        status="archived" if value.get("is_archived") is True else None,
        gone=gone,
    )


def _walked(mapping: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every node of the tree once, parents before children; cycles in a damaged tree are harmless."""
    nodes = {line(id): node for id, node in mapping.items() if isinstance(node, Mapping)}
    below: dict[str, list[str]] = {}
    for id, node in nodes.items():
        parent = line(node.get("parent"))
        below.setdefault(parent if parent in nodes else "", []).append(id)
    seen: set[str] = set()
    for start in [*below.get("", []), *nodes]:  # nodes reached only through a cycle come last
        waiting = [start]
        while waiting:
            id = waiting.pop()
            if id in seen:
                continue
            seen.add(id)
            yield id, nodes[id]
            waiting += reversed(below.get(id, []))


def _messages(
    message: Mapping[str, Any], id: str, parent: str, place: str, left_out: Counter[str]
) -> list[SourceMessage]:
    about = message.get("metadata")
    if isinstance(about, Mapping) and about.get("is_visually_hidden_from_conversation") is True:
        return []
    author = message.get("author")
    author = author if isinstance(author, Mapping) else {}
    role = line(author.get("role"), 60)
    kind = values.kind_of(role) or "user"
    recipient, content = line(message.get("recipient")), message.get("content")
    found = _content(content if isinstance(content, Mapping) else {}, left_out)
    if kind == "assistant" and recipient not in ("", "all"):
        found.calls.append(ToolCall(recipient, found.text))
        found.texts.clear()
    base = SourceMessage(
        "", line(author.get("name")) or kind, kind, values.moment(message.get("create_time")), id, parent, place=place
    )
    return values.messages(found, base)


def _content(content: Mapping[str, Any], left_out: Counter[str]) -> values.Blocks:
    kind = line(content.get("content_type"), 40)
    if kind in ("thoughts", "reasoning_recap"):
        left_out[kind] += 1
        return values.Blocks()
    if isinstance(content.get("parts"), list):
        return values.blocks(content["parts"], left_out)
    for key in ("text", "result", "content"):
        if isinstance(content.get(key), str):
            return values.Blocks([values.clean(content[key])])
    return values.blocks(dict(content), left_out) if content and kind else values.Blocks()
