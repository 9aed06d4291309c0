"""A workspace over a small code tree, its tasks, and the area tools, by call and through a real MCP client."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from mcp import Client
from mcp.types import CallToolResult

from kgd.mcp.server import Surface
from kgd.tools.session import Session
from tests.surfaces.conftest import Ask, ask, code, daemon, session, ws

__all__ = ["Ask", "ask", "code", "daemon", "session", "ws"]

Refused = dict[str, Any]
Query = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Graph:
    """The area tools over MCP: ``await graph.query(operation="get", ...)``; every answer in its envelope."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self._client.call_tool(tool, arguments)
        assert isinstance(result, CallToolResult)
        envelope = result.structured_content
        assert envelope is not None
        assert json.loads(result.content[0].text) == envelope  # type: ignore[union-attr]
        assert result.is_error is not envelope["success"]
        assert set(envelope) == {"success", "error" if result.is_error else "data"}
        return dict(envelope)

    async def query(self, operation: str, **arguments: Any) -> dict[str, Any]:
        return dict((await self.call("query_graph", operation=operation, projectId="shop", **arguments))["data"])

    async def manage(self, operation: str, kind: str, **arguments: Any) -> dict[str, Any]:
        answer = await self.call("manage_graph", operation=operation, entityType=kind, projectId="shop", **arguments)
        assert answer["success"], answer
        return dict(answer["data"])

    async def changelog(self, operation: str, **arguments: Any) -> dict[str, Any]:
        answer = await self.call("manage_changelog", operation=operation, projectId="shop", **arguments)
        assert answer["success"], answer
        return dict(answer["data"])

    async def refused(self, tool: str, **arguments: Any) -> Refused:
        envelope = await self.call(tool, **{"projectId": "shop", **arguments})
        assert envelope["success"] is False, envelope
        error = envelope["error"]
        assert {"code", "message"} <= set(error) <= {"code", "message", "at", "next", "currentVersion"}
        return dict(error)


@pytest.fixture
async def graph(session: Session, anyio_backend: str) -> AsyncIterator[Graph]:
    session.daemon.workspace("shop")
    async with Client(Surface(session.daemon).server) as client:
        yield Graph(client)


@pytest.fixture
def tasks(ask: Ask) -> list[str]:
    """Three tasks that are there; their short ids."""
    names = ["t-1", "t-2", "t-3"]
    ask.put(changes=[{"op": "upsert", "type": "task", "name": name} for name in names])
    return names
