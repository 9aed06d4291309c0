"""A conflict is settled by the language model of the client that comes by, in both protocol eras."""

from __future__ import annotations

import json
from typing import Any

import pytest
from mcp import Client
from mcp.types import CreateMessageRequestParams, CreateMessageResult, TextContent

from kgd.mcp.server import Surface
from kgd.tools.session import Session
from tests.mcp.conftest import disagree
from tests.surfaces.conftest import Ask

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def answers(context: Any, params: CreateMessageRequestParams) -> CreateMessageResult:
    text = json.dumps({"summary": {"value": "one and three"}})
    return CreateMessageResult(role="assistant", model="test-model", content=TextContent(type="text", text=text))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_clients_model_settles_a_conflict(session: Session, mode: Any) -> None:
    ask = Ask(session)
    id = disagree(ask, "keys")
    async with Client(Surface(session.daemon).server, mode=mode, sampling_callback=answers) as client:
        result = await client.call_tool("resolve_conflicts", {"workspace": "shop"})
    answer = result.structured_content or {}
    assert [(one["id"], one["by"], one["model"]) for one in answer["resolved"]] == [(id, "sampling", "test-model")]
    assert answer["open"] == 0
    assert ask.get(uris="keys")["nodes"][0]["summary"] == "one and three"
