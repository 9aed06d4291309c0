"""What agents want every day is one call each, with the parameters that one would guess: the table of docs/mcp.md."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from mcp import Client
from mcp.types import CallToolResult

from kgd.mcp.server import Surface
from kgd.tools.session import Session
from tests.surfaces.conftest import code, daemon, session

__all__ = ["code", "daemon", "session"]

PAGE = Path(__file__).parents[2] / "docs" / "mcp.md"
GOTCHA, DECISION = "gotcha://shop/Tokens%20outlive%20a%20rotation", "decision://shop/One%20signer"
pytestmark = pytest.mark.anyio
Answer = dict[str, Any]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Row(NamedTuple):
    intention: str
    tool: str
    arguments: dict[str, Any]


def rows() -> list[Row]:
    section = PAGE.read_text().partition("## Everyday intentions\n")[2].partition("\n## ")[0]
    found = re.findall(r"^\| ([^|]+) \| `(\w+)` \| `(\{.*\})` \|$", section, flags=re.M)
    return [Row(intention, tool, json.loads(text)) for intention, tool, text in found]


def uris(answer: Answer) -> list[str]:
    nodes: list[dict[str, Any]] = answer.get("nodes", [])
    return [one["uri"] for one in answer.get("items", nodes)]


DOES: dict[str, Callable[[Answer], object]] = {
    "Remember this": lambda a: a["created"] == [GOTCHA] and a["warnings"] == [],
    "Remember this, with the whole story": lambda a: a["created"][0] == DECISION,
    "What must I know before I touch this?": lambda a: {GOTCHA, DECISION} <= set(uris(a)),
    "What must I know for this task?": lambda a: {GOTCHA, DECISION} <= set(uris(a)),
    "What do we know about it?": lambda a: a["hits"][0]["uri"] == GOTCHA,
    "Which decision was made here?": lambda a: [hit["uri"] for hit in a["hits"]] == [DECISION],
    "Tell me all of it": lambda a: "Two signers drifted apart" in json.dumps(a["nodes"][0]),
    "Who depends on it?": lambda a: GOTCHA in uris(a),
    "This is related to that": lambda a: a["commit"],
    "There is more to say": lambda a: a["nodes"] == [{"uri": GOTCHA, "version": 3}],
    "I was wrong": lambda a: a["nodes"] == [{"uri": GOTCHA, "version": 4}],
    "Undo that": lambda a: a["nodes"] == [{"uri": GOTCHA, "version": 5}],
    "Who changed that, and why?": lambda a: (
        "for a day" in json.dumps(a["commits"][1]["diff"]) and a["commits"][0]["author"]
    ),
    "What changed lately?": lambda a: len(a["commits"]) == 5 and a["commits"][0]["nodes"] == [GOTCHA],
    "What did it say before?": lambda a: a["nodes"][0]["summary"] == "Signed with the old key for a day.",
    "It is still true": lambda a: a["nodes"][0]["uri"] == GOTCHA,
    "This is how this part works": lambda a: a["data"]["atom"]["version"] == 1,
    "How does this part work?": lambda a: (
        (a["data"]["orphanAtoms"][0]["name"], a["data"]["unmatchedPaths"]) == ("Sessions", ["src/checkout.py"])
    ),
    "Note what changed in this part": lambda a: a["data"]["entry"]["summary"] == "Keys are rotated weekly.",
    "Forget it": lambda a: a["deleted"] == [GOTCHA],
    "Is that in conflict?": lambda a: not a["remaining"],
    "Is everything in order?": lambda a: a["workspace"]["id"] == "shop",
}


@pytest.mark.slow
async def test_each_intention_is_one_call(session: Session) -> None:
    assert [row.intention for row in rows()] == list(DOES)
    assert len(DOES) >= 12
    async with Client(Surface(session.daemon).server) as client:
        for intention, tool, arguments in rows():
            result = await client.call_tool(tool, {**arguments, "workspace": "shop"})
            assert isinstance(result, CallToolResult)
            assert not result.is_error, (intention, result.structured_content)
            assert result.structured_content is not None
            assert DOES[intention](result.structured_content), (intention, result.structured_content)
