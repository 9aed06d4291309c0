"""MCP over a line stream: one JSON-RPC message per line, as in MCP's stdio transport.

`kgd mcp` forwards the bytes of a host. One connection is one conversation.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import anyio
import orjson
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.lowlevel import Server
from mcp.server.models import InitializationOptions
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCMessage, JSONRPCResponse, jsonrpc_message_adapter

from kgd.client import oversized
from kgd.daemon.calls import LineReader, LineWriter, Oversized

log = logging.getLogger("kgd.mcp")

PARSE_ERROR, INVALID_REQUEST = -32700, -32600


async def serve(
    server: Server[Any], state: Any, options: InitializationOptions, reader: LineReader, writer: LineWriter
) -> None:
    """Serve one connection until its reader ends. Running calls are then cancelled, except writes.

    Args:
        state: The handlers' `ctx.lifespan_context`.
    """
    incoming_send, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, outgoing_receive = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, reader, writer, incoming_send)
        tasks.start_soon(_write, outgoing_receive, writer)
        await serve_dual_era_loop(server, incoming, outgoing, lifespan_state=state, init_options=options)
        tasks.cancel_scope.cancel()


async def _read(
    reader: LineReader, writer: LineWriter, incoming: MemoryObjectSendStream[SessionMessage | Exception]
) -> None:
    async with incoming:
        while line := await _line(reader, writer):
            message = _message(line)
            if isinstance(message, bytes):
                writer.write(message)
                await writer.drain()
                continue
            try:
                await incoming.send(SessionMessage(message))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return


async def _line(reader: LineReader, writer: LineWriter) -> bytes:
    """The next non-blank line; empty at the end or after a broken connection. Refuses oversized lines."""
    while True:
        try:
            line = await reader.readline()
        except Oversized as error:
            log.warning("an MCP message was too long")
            writer.write(_error(oversized.request_id(error.head, error.tail), oversized.CODE, oversized.REASON))
            await writer.drain()
            continue
        except ConnectionError as error:
            log.info("a connection ended", extra={"reason": str(error)[:100]})
            return b""
        if not line or line.strip():
            return line


def _message(line: bytes) -> JSONRPCMessage | bytes:
    """The message, or the refusal of an invalid line, with its id if it can be found."""
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return _error(_id_in(line), PARSE_ERROR, "Parse error: each line must be one JSON-RPC message in valid Unicode")
    key = found.get("id") if isinstance(found, dict) else None
    is_id = isinstance(key, str | int) and not isinstance(key, bool)
    try:
        # With an invalid id a request would look like a notification, and its sender would wait permanently.
        if not isinstance(found, dict) or ("id" in found and not is_id and "error" not in found):
            raise ValueError
        return jsonrpc_message_adapter.validate_python(found, by_name=False)
    except ValueError:
        return _error(key if is_id else None, INVALID_REQUEST, "Invalid request: this is not a JSON-RPC 2.0 message")


def _id_in(line: bytes) -> int | None:
    """The numeric id of a request whose only error is an unpaired surrogate; its sender waits for an answer."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    key = found.get("id") if isinstance(found, dict) else None
    return key if isinstance(key, int) and not isinstance(key, bool) else None


def _error(key: str | int | None, code: int, message: str) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": key, "error": {"code": code, "message": message}}) + b"\n"


async def _write(outgoing: MemoryObjectReceiveStream[SessionMessage], writer: LineWriter) -> None:
    async with outgoing:
        async for item in outgoing:
            try:
                writer.write(_encode(item.message) + b"\n")
                await writer.drain()
            except (ConnectionError, RuntimeError):
                log.debug("a client left before its answer")


def _encode(message: Any) -> bytes:
    # Answers are plain data; serialising through the model costs more than the rest of a small call.
    if isinstance(message, JSONRPCResponse):
        return orjson.dumps({"jsonrpc": "2.0", "id": message.id, "result": message.result})
    if isinstance(message, JSONRPCError):
        error = message.error.model_dump(by_alias=True, exclude_none=True)
        return orjson.dumps({"jsonrpc": "2.0", "id": message.id, "error": error})
    text: str = message.model_dump_json(by_alias=True, exclude_unset=True)
    return text.encode()
