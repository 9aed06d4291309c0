"""MCP as lines over a stream: the messages of `kgd mcp`, and hostile ones."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from kgd.daemon.endpoint import Outstanding
from kgd.mcp.server import Surface
from kgd.mcp.short_reads import ShortReads
from kgd.tools.session import Session
from tests.surfaces.conftest import upsert

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def surface(session: Session) -> Surface:
    return Surface(session.daemon)


class Line:
    """The client's end: writes raw bytes, reads messages."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, message: Any) -> None:
        raw = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.writer.write(raw + b"\n")
        await self.writer.drain()

    async def receive(self) -> Any:
        return json.loads(await self.reader.readline())

    async def ask(self, key: int, method: str, params: Any = None) -> Any:
        await self.send({"jsonrpc": "2.0", "id": key, "method": method, "params": params or {}})
        while (message := await self.receive()).get("id") != key:
            pass
        return message

    async def initialize(self, client: str = "raw") -> None:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": client, "version": "1"}}
        assert (await self.ask(0, "initialize", params))["result"]["serverInfo"]["name"] == "kgd"
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})


@contextlib.asynccontextmanager
async def connected(surface: Surface, tmp_path: Path, cwd: Path | None = None) -> AsyncIterator[Line]:
    served = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = Outstanding(reader, writer)
        try:
            session = Session(surface.daemon, cwd=cwd, client="pump", context_id="conversation", by_agent=True)
            await surface.serve(ShortReads(session, surface.tools, line, line))
        finally:
            writer.close()
            served.set()

    server = await asyncio.start_unix_server(serve, tmp_path / "s", limit=2**20)
    line = Line(*await asyncio.open_unix_connection(str(tmp_path / "s"), limit=2**23))
    try:
        yield line
    finally:
        line.writer.close()
        await asyncio.wait_for(served.wait(), 60)
        server.close()


async def test_a_write_is_attributed_to_the_named_client_and_its_directory(
    surface: Surface, tmp_path: Path, code: Path
) -> None:
    async with connected(surface, tmp_path, code) as line:
        await line.initialize("claude-code")
        answer = await line.ask(1, "tools/call", {"name": "put", "arguments": {"changes": upsert("a", summary="s")}})
        assert answer["result"]["isError"] is False
        told = await line.ask(2, "tools/call", {"name": "history", "arguments": {"uri": "a"}})
        assert told["result"]["structuredContent"]["commits"][0]["client"] == "claude-code 1"
        walk = await line.ask(3, "tools/call", {"name": "traverse", "arguments": {"start": "a"}})
        assert walk["result"]["structuredContent"]["context_id"] == "conversation"


NO_MESSAGES = [
    b"nonsense",
    b"{",
    b"[]",
    b"null",
    b"7",
    b'"text"',
    b"{}",
    b'{"jsonrpc": "1.0", "id": 1, "method": "ping"}',
    b'{"jsonrpc": "2.0", "id": 1}',
    b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}',
    b"\xff\xfe\x00",
    b"[" * 100_000,
    b'{"a":' * 50_000,
    b'{"jsonrpc": "2.0", "id": 1, "method": 5}',
    b'[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]',
    b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": 5}',
    b'{"jsonrpc": "2.0", "id": 1e400, "method": "ping"}',
]


async def test_an_invalid_message_gets_a_json_rpc_error_and_the_next_call_is_answered(
    surface: Surface, tmp_path: Path
) -> None:
    async with connected(surface, tmp_path) as line:
        await line.initialize()
        for number, frame in enumerate(NO_MESSAGES):
            await line.send(frame)
            answer = await line.receive()
            assert answer["error"]["code"] in (-32700, -32600, -32602), frame[:50]
            assert "result" in await line.ask(100 + number, "tools/list")


WRONG_REQUESTS: list[tuple[str, Any]] = [
    ("tools/call", {}),
    ("tools/call", {"name": 5}),
    ("tools/call", {"name": "get", "arguments": []}),
    ("no/such/method", {}),
    ("resources/read", {"uri": 5}),
    ("resources/read", {"uri": "file:///etc/passwd"}),
    ("resources/subscribe", {}),
    ("prompts/get", {"name": "x"}),
    ("completion/complete", {"ref": {}}),
]


async def test_wrong_requests_get_an_error_each(surface: Surface, tmp_path: Path) -> None:
    async with connected(surface, tmp_path) as line:
        await line.initialize()
        for number, (method, params) in enumerate(WRONG_REQUESTS):
            answer = await line.ask(100 + number, method, params)
            assert answer["error"]["code"] in (-32601, -32602, -32600), method


TEXT = "x" * (3 * 2**20)
INSIDE = {"jsonrpc": "2.0", "id": 9, "method": "ping"}
TOO_LONG: list[tuple[bytes, Any]] = [
    (json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"a": TEXT}}).encode(), 7),
    (json.dumps({"method": "tools/call", "params": {"a": TEXT}, "jsonrpc": "2.0", "id": "seven"}).encode(), "seven"),
    (json.dumps({"params": {"a": TEXT}, "id": 7, "method": "tools/call"}).encode() + b" \r", 7),
    (json.dumps({"jsonrpc": "2.0", "method": "notifications/x", "params": {"a": TEXT, "id": 9}}).encode(), None),
    (json.dumps({"jsonrpc": "2.0", "method": "notifications/x", "params": {"a": TEXT, "b": INSIDE}}).encode(), None),
    (json.dumps({"jsonrpc": "2.0", "id": 7, "result": {"text": TEXT}}).encode(), None),
    (TEXT.encode() + json.dumps(INSIDE).encode(), None),
]


@pytest.mark.parametrize(("frame", "key"), TOO_LONG, ids=range(len(TOO_LONG)))
async def test_a_message_that_is_too_long_is_refused_under_its_own_id_and_the_next_one_is_answered(
    surface: Surface, tmp_path: Path, frame: bytes, key: Any
) -> None:
    async with connected(surface, tmp_path) as line:
        await line.initialize()
        await line.send(frame)
        refused = await line.receive()
        assert (refused["id"], refused["error"]["code"]) == (key, -32600)
        assert "8 MiB. Send it in several calls" in refused["error"]["message"]
        assert (await line.ask(1, "tools/list"))["result"]["tools"]


async def test_a_client_that_disconnects_during_a_write_leaves_all_of_it_or_nothing(
    surface: Surface, tmp_path: Path, code: Path, session: Session
) -> None:
    ws = session.daemon.workspace("shop")
    for number in range(5):
        names = [f"concept://shop/late{number}/n{n}" for n in range(20)]
        async with connected(surface, tmp_path, code) as line:
            await line.initialize()
            request = {"name": "put", "arguments": {"changes": [upsert(name, summary="s") for name in names]}}
            await line.send({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": request})
            await anyio.sleep(number * 0.003)
        assert len({name in ws.graph for name in names}) == 1


async def test_requests_before_the_handshake_get_errors(surface: Surface, tmp_path: Path) -> None:
    async with connected(surface, tmp_path) as line:
        answer = await line.ask(1, "tools/call", {"name": "status", "arguments": {}})
        assert "error" in answer
