"""This file is where an MCP connection's open requests are known, so that a leaving daemon drops none in silence."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Protocol

import orjson

LONG_LIVED = "subscriptions/listen"
"""Answered only when it ends; whoever waits for answers does not wait for this one, the next daemon is asked again."""

ENDS = 4096
"""Bytes that are kept of the beginning and of the end of a message that is too long."""

_ANSWER = re.compile(rb'\{"jsonrpc":"2\.0","id":(\d{1,18}|"[^"\\]*"),"(?:result|error)":').match
"""How our own answers begin: whose they are is known without reading the rest, which may be long."""


class LineReader(Protocol):
    """What `serve_mcp` reads from: one JSON-RPC message a line, ``b""`` at the end."""

    async def readline(self) -> bytes: ...


class LineWriter(Protocol):
    """What `serve_mcp` writes to: whole lines only, then `drain`."""

    def write(self, data: bytes, /) -> None: ...

    async def drain(self) -> None: ...


class Oversized(ValueError):
    """A message beyond the reader's limit. It was read to its end, so the next one can be read."""

    def __init__(self, head: bytes, tail: bytes) -> None:
        super().__init__("a message is too long")
        self.head, self.tail = head, tail


class Outstanding:
    """Both directions of one MCP connection, with a note of each request that has not been answered.

    After `stop_requests` the server sees answers and notifications only. A request that arrives then is dropped
    unexecuted: the client resends it to the next daemon, since it has no answer to it.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._open: dict[str | int, str] = {}
        self._taking_requests = True
        self._settled = asyncio.Event()
        self._settled.set()

    async def readline(self) -> bytes:
        """The next message for the server.

        Raises:
            Oversized: It is longer than the reader's limit.
        """
        while line := await _line(self._reader):
            message = _parse(line)
            method = message.get("method")
            if not isinstance(method, str) or not isinstance(key := message.get("id"), str | int):
                if method == "notifications/cancelled":
                    self._close((message.get("params") or {}).get("requestId"))
                return line
            if self._taking_requests:
                self._open[key] = method
                if method != LONG_LIVED:
                    self._settled.clear()
                return line
        return b""

    def write(self, data: bytes) -> None:
        """Lines for the client. The writer may be gone; that shows at the next read."""
        for line in data.removesuffix(b"\n").split(b"\n"):
            if answer := _ANSWER(line):
                self._close(orjson.loads(answer[1]))
            elif "method" not in (message := _parse(line)):
                self._close(message.get("id"))
        self._writer.write(data)

    async def drain(self) -> None:
        await self._writer.drain()

    def stop_requests(self) -> None:
        self._taking_requests = False

    async def settled(self) -> None:
        """Returns when every request that was passed on, but the long-lived ones, has its answer."""
        await self._settled.wait()

    def __len__(self) -> int:
        return sum(method != LONG_LIVED for method in self._open.values())

    def _close(self, key: Any) -> None:
        if isinstance(key, str | int) and self._open.pop(key, "") and not len(self):
            self._settled.set()


async def _line(reader: asyncio.StreamReader) -> bytes:
    """The next line; `StreamReader.readline` would forget the beginning of one that is too long, and lose its end."""
    head = tail = b""
    while True:
        try:
            end = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            end = error.partial
        except asyncio.LimitOverrunError as error:
            part = await reader.readexactly(error.consumed)
            head, tail = head or part[:ENDS], (tail + part[-ENDS:])[-ENDS:]
            continue
        if head:
            raise Oversized(head, (tail + end)[-ENDS:])
        return end


def _parse(line: bytes) -> dict[str, Any]:
    """The message, or nothing where it is none: refusing it in the protocol's words is the server's work."""
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}
