"""A conversation, a design document and code that speak of one thing are one step from each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.conftest import Ask, ask, code, daemon, session, upsert, ws
from tests.waiting import until

__all__ = ["ask", "code", "daemon", "session", "ws"]

CODE = '''
class LedgerWriter:
    """Writes entries one after the other."""

    def post_entry(self, amount):
        return amount
'''
DESIGN = """# Bookings

## Order of entries

Every booking goes through the ledger writer, which holds one lock for each account.

## Elsewhere

The archive is written at night.
"""
TALK = [
    {"role": "user", "content": "Why is checkout slow on Fridays?", "timestamp": "2026-11-20T10:00:00Z"},
    {"role": "assistant", "content": "LedgerWriter.post_entry waits.", "timestamp": "2026-11-20T10:01:00Z"},
]
CONCEPT = "concept://shop/ledger-writer"
SYMBOL = "symbol://shop/src/billing/ledger.py/LedgerWriter.post_entry"


@pytest.mark.slow
@pytest.mark.requirement("U12")
def test_one_search_finds_talk_design_and_code_about_one_thing_and_the_edges_between_them(ask: Ask, code: Path) -> None:
    (code / "src" / "billing").mkdir(parents=True)
    (code / "src" / "billing" / "ledger.py").write_text(CODE)
    ask.ingest(text="\n".join(map(json.dumps, TALK)), kind="conversation", uri="thread://shop/standup")
    ask.ingest(text=DESIGN, uri="document://shop/design/bookings.md")
    ask.put(changes=upsert("ledger-writer", name="Ledger writer", summary="Serialises bookings"))
    until(lambda: ask.search(query="post_entry", types=["symbol"])["code"], 60)
    found = ask.search(query="Why does the ledger writer wait for an account?", limit=20, max_depth=1)
    hits = {hit["uri"]: hit for hit in (*found["hits"], *found["code"])}
    [message] = [uri for uri in hits if uri.startswith("message://") and "post_entry" in said(ask, uri)]
    [chunk] = [uri for uri in hits if uri.startswith("chunk://shop/design") and "booking" in said(ask, uri)]
    assert {SYMBOL, CONCEPT} <= set(hits)
    edges = {(edge["source"], edge["target"]) for edge in found["edges"] if edge["type"] == "MENTIONS"}
    assert {(message, SYMBOL), (chunk, CONCEPT), (SYMBOL.rpartition(".")[0], CONCEPT)} <= edges
    near = ask.traverse(start=message, edge_types=["MENTIONS"], direction="both", max_cost=2)
    reached = {node["uri"] for node in near["nodes"]}
    assert {SYMBOL, CONCEPT, chunk} <= reached
    assert "Fridays" not in " ".join(said(ask, uri) for uri in reached), "what names nothing of it is not near"


def said(ask: Ask, uri: str) -> str:
    nodes: list[dict[str, Any]] = ask.get(uris=uri)["nodes"]
    return str(nodes[0].get("content", "")) if nodes else ""
