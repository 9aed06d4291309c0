"""The framing that `kgd mcp` carries, between the SDK's client and a surface of this process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
from mcp import Client
from mcp.shared.message import SessionMessage
from mcp.types import jsonrpc_message_adapter

from kgd.mcp.server import Surface
from kgd.mcp.short_reads import ShortReads
from kgd.tools.session import Session


def client(surface: Surface, mode: Literal["auto", "legacy"], cwd: Path | None = None, **callbacks: Any) -> Client:
    """A client whose messages really are lines, from a host that was started in this directory."""
    return Client(_transport(surface, cwd), mode=mode, **callbacks)


@asynccontextmanager
async def _transport(surface: Surface, cwd: Path | None) -> AsyncIterator[Any]:
    here, there = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=here, limit=2**23)
    far_reader, far_writer = await asyncio.open_connection(sock=there)
    reads = ShortReads(Session(surface.daemon, cwd=cwd, by_agent=True), surface.tools, far_reader, far_writer)
    serving = asyncio.create_task(surface.serve(reads))
    to_client, incoming = anyio.create_memory_object_stream[SessionMessage](0)
    outgoing, from_client = anyio.create_memory_object_stream[SessionMessage](0)

    async def read() -> None:
        async with to_client:
            while line := await reader.readline():
                await to_client.send(SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False)))

    async def write() -> None:
        async with from_client:
            async for item in from_client:
                writer.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await writer.drain()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        async with incoming, outgoing:
            yield incoming, outgoing
        tasks.cancel_scope.cancel()
    writer.close()
    await asyncio.wait_for(serving, 60)
    far_writer.close()
