"""MCP over loopback HTTP: the token, checked host names, and a clean stop."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from kgd.config.credentials import token_of
from kgd.errors import Forbidden
from kgd.mcp.http import HttpServer
from kgd.mcp.server import Surface
from kgd.tools.session import Session
from tests.ports import free_port
from tests.surfaces.conftest import upsert

pytestmark = pytest.mark.anyio
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def served(session: Session, token: str) -> AsyncIterator[tuple[HttpServer, str]]:
    server = HttpServer(Surface(session.daemon), token, port := free_port())
    serving = asyncio.create_task(server.serve())
    with anyio.fail_after(10):
        while not server.started:  # noqa: ASYNC110 - uvicorn has a flag, no event
            await anyio.sleep(0.01)
    try:
        yield server, f"http://127.0.0.1:{port}"
    finally:
        server.stop()
        await asyncio.wait_for(serving, 60)


def test_the_token_is_made_once_and_readable_by_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "http.token"
    token = token_of(path)
    assert len(token) >= 32
    assert token_of(path) == token
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)
    with pytest.raises(Forbidden):
        token_of(path)


def test_half_a_token_is_none(tmp_path: Path) -> None:
    path = tmp_path / "http.token"
    path.touch(0o600)
    assert len(token_of(path)) >= 32


@pytest.mark.slow
async def test_without_the_token_or_with_foreign_names_nothing_is_served(session: Session) -> None:
    async with served(session, "t" * 40) as (_, url), httpx2.AsyncClient(timeout=60) as web:
        good = {**HEADERS, "authorization": f"Bearer {'t' * 40}"}
        assert (await web.get(f"{url}/health")).json()["status"] == "ok"
        for headers, status in [
            (HEADERS, 401),
            ({**HEADERS, "authorization": "Bearer wrong"}, 401),
            ({**good, "host": "evil.example"}, 421),
            ({**good, "host": f"{url.removeprefix('http://')}.evil"}, 421),
            ({**good, "origin": "https://evil.example"}, 403),
            (good, 200),
        ]:
            answer = await web.post(f"{url}/mcp", json=INITIALIZE, headers=headers)
            assert answer.status_code == status, headers
        assert (await web.post(f"{url}/mcp", content=b"x" * (5 * 2**20), headers=good)).status_code == 413


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_with_the_token_reads_writes_and_keeps_its_context_by_id(session: Session, mode: str) -> None:
    token = "t" * 40
    async with served(session, token) as (_, url):
        web = httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=60)
        transport = streamable_http_client(f"{url}/mcp", http_client=web)
        async with web, Client(transport, mode=mode) as client:
            await client.call_tool("put", {"workspace": "shop", "changes": upsert("a", summary="s")})
            walk = await client.call_tool("traverse", {"start": "concept://shop/a"})
            first = walk.structured_content or {}
            again = await client.call_tool("traverse", {"start": "concept://shop/a", "context_id": first["context_id"]})
            assert "hint" in first
            assert "hint" not in (again.structured_content or {})
            other = await client.call_tool("traverse", {"start": "concept://shop/a"})
            assert (other.structured_content or {})["context_id"] != first["context_id"]


async def test_it_stops_soon_with_a_listen_stream_open(session: Session) -> None:
    token = "t" * 40
    async with served(session, token) as (server, url):
        web = httpx2.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=60)
        transport = streamable_http_client(f"{url}/mcp", http_client=web)
        listening = Client(transport)
        async with web, listening as client, client.listen(resource_subscriptions=["kgd://shop/status"]) as events:
            server.stop()
            with anyio.fail_after(3):
                assert [event async for event in events] == []
