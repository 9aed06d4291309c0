"""Several clients ingest the same document, or add to the same conversation, at one moment: none is refused."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kgd.model.uri import Uri
from kgd.workspace.workspace import Workspace
from tests.surfaces.conftest import Ask, ask, code, daemon, session, ws

__all__ = ["ask", "code", "daemon", "session", "ws"]

CLIENTS = 8
SECTIONS = "".join(f"## Part {n}\n\n{f'Sentence {n} of the handbook, by NOBODY. ' * 14}\n\n" for n in range(6))


def at_once(ask: Ask, texts: list[str], **more: Any) -> Counter[str]:
    """All answers together."""
    with ThreadPoolExecutor(len(texts)) as clients:
        answers = list(clients.map(lambda text: ask.ingest(text=text, **more), texts))
    return sum((Counter(answer["counts"]) for answer in answers), Counter[str]())


def test_one_document_by_many_is_there_once(ask: Ask, ws: Workspace) -> None:
    counted = at_once(ask, [SECTIONS] * CLIENTS, uri="document://shop/hand")
    assert (counted["documents_new"], counted["documents_unchanged"]) == (1, CLIENTS - 1)


def test_versions_of_one_document_leave_one_of_them_whole(ask: Ask, ws: Workspace) -> None:
    people = [f"Person{n}" for n in range(CLIENTS)]
    at_once(ask, [SECTIONS.replace("NOBODY", who) for who in people], uri="document://shop/hand")
    chunks = [ws.node(uri) for uri in ws.text().by_source("text", "hand") if uri.startswith("chunk://")]
    said = " ".join(node.content for node in chunks if node)
    assert len([who for who in people if who in said]) == 1
    assert said.count("Part") == 6


def test_all_concurrent_additions_to_a_conversation_are_stored(ask: Ask, ws: Workspace) -> None:
    thread = Uri("thread://shop/standup")
    lines = [
        [{"role": "user", "content": f"{n} of {who}", "id": f"{who}-{n}"} for n in range(5)] for who in range(CLIENTS)
    ]
    texts = ["\n".join(json.dumps(line) for line in some) for some in lines]
    at_once(ask, texts, kind="conversation", uri=thread)
    (node,) = ask.get(uris=thread, include=["messages"], budget=20_000)["nodes"]
    contents = sorted(message["content"].strip() for message in node["messages"])
    assert contents == sorted(line["content"] for some in lines for line in some)
