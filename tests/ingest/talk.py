"""Conversations as programs write them, and how a test takes them in without a daemon."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from kgd.ingest import kinds
from kgd.ingest.document_reader import DocumentReader
from kgd.ingest.kind import Around, Given, Taken
from kgd.ingest.message_nodes import REPLIED_BY, Message, listed, read
from kgd.model.node import Node, Source
from kgd.model.uri import Uri
from kgd.workspace.workspace import Workspace
from tests.builders import change

Take = Callable[[Given, Around], Iterable[Taken]]


def lines(*messages: Any) -> str:
    return "\n".join(json.dumps(one) for one in messages)


def said(text: str, second: int = 0, /, role: str = "user", **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": text, "timestamp": f"2026-11-20T10:{second // 60:02}:{second % 60:02}Z", **fields}


def taken(
    ws: Workspace,
    text: str,
    name: str = "standup.jsonl",
    *,
    live: bool = False,
    uri: str = "",
    commits: int = 99,
    take: Take = kinds.take_conversation,
) -> list[Taken]:
    """What a text brought, after the first of its commits are written."""
    source = Source("text", uri.partition("://")[2].partition("/")[2]) if live else Source("file", name)
    given = Given("" if live else name, text.encode("utf-8", "surrogatepass"), source, Uri(uri) if uri else None)
    return written(ws, take(given, Around(ws, DocumentReader())), commits)


def written(ws: Workspace, found: Iterable[Taken], commits: int = 99) -> list[Taken]:
    done = []
    for one in found:
        for edits in one.commits[:commits]:
            ws.submit(change(*edits))
        done.append(one)
    return done


def new(found: Iterable[Taken]) -> int:
    return sum(one.counts["messages_new"] for one in found)


def history(ws: Workspace, thread: Uri, limit: int = 50, **around: Uri) -> list[Message]:
    """The messages of a thread that can be read, in order."""
    return [message for uri in listed(ws, thread, limit, **around) if (message := read(ws, uri))]


def told(ws: Workspace, thread: str, limit: int = 10_000) -> list[tuple[str, str]]:
    """Name and text of all messages of a thread, in order."""
    return [(one.name, one.content) for one in history(ws, Uri(thread), limit)]


def texts(ws: Workspace, thread: str) -> list[str]:
    return [text for _, text in told(ws, thread)]


def replies(ws: Workspace, thread: str) -> set[tuple[str, str]]:
    """Which text was replied to by which."""
    found = {one.uri: ws.node(one.uri) for one in history(ws, Uri(thread), 10_000)}
    nodes: dict[Uri, Node] = {uri: node for uri, node in found.items() if node}
    return {
        (node.content, nodes[relation.target].content)
        for node in nodes.values()
        for relation in node.relations
        if relation.type == REPLIED_BY
    }


def claude_export(*conversations: tuple[str, str, list[dict[str, Any]]]) -> str:
    return json.dumps(
        [
            {"uuid": id, "name": name, "created_at": "2026-11-20T10:00:00Z", "chat_messages": messages}
            for id, name, messages in conversations
        ]
    )


def branch(
    id: str, parent: str | None, text: str | None = None, at: float | None = None, role: str = "user", **fields: Any
) -> Any:
    """A node of the tree in an export of ChatGPT."""
    message = {
        "id": id,
        "author": {"role": role},
        "create_time": at,
        "recipient": "all",
        "content": {"content_type": "text", "parts": [text]},
        **fields,
    }
    return {"id": id, "parent": parent, "message": message if text is not None else None, "children": []}


def chatgpt_export(title: str, *nodes: Any, **fields: Any) -> str:
    return json.dumps(
        [{"title": title, "id": f"id of {title}", "mapping": {one["id"]: one for one in nodes}, **fields}]
    )


def code_line(uuid: str, parent: str | None, content: Any, second: int, type: str = "user", **fields: Any) -> Any:
    return {
        "type": type,
        "uuid": uuid,
        "parentUuid": parent,
        "sessionId": "f1e2d3c4-0000-4000-8000-000000000001",
        "timestamp": f"2026-11-20T10:00:{second:02}.000Z",
        "message": {"role": type, "content": content, **fields},
    }
