"""Request bodies, with limits on the bytes held in memory, per client and in total.

A body is read only after its client is authenticated, and only if all of it fits.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kgd.daemon.tokens import TooMuch
from kgd.errors import Limit, Unavailable

RECOGNISED = "kgd.recognised"
"""Key in an ASGI scope: a function to call with the client's name after authentication."""
TOTAL = 32 << 20
EACH = 8 << 20
PATIENCE = 10.0
"""Seconds without a byte after which a body is aborted; also the seconds to wait for room."""
SLOWEST = 1 << 10
"""Lowest speed in bytes per second after `PATIENCE`."""


class Bodies:
    """Bodies in flight, from before their first byte until their request is answered. For one event loop.

    Args:
        total: Byte limit for all clients together.
        each: Byte limit per client.
    """

    def __init__(self, total: int = TOTAL, each: int = EACH) -> None:
        self._total, self._each = total, each
        self._held: Counter[str] = Counter()
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def read(
        self, parts: AsyncIterator[bytes], declared: str | None, client: str, limit: int
    ) -> AsyncIterator[bytes]:
        """The whole body; its room is freed when the context ends.

        Args:
            declared: The Content-Length; if it is missing, room for `limit` bytes is needed.

        Raises:
            Limit: The body is larger than `limit`, or arrives too slowly; at most `limit` bytes were read.
            TooMuch: The client's own bodies used all its room for `PATIENCE` seconds.
            Unavailable: The bodies of all clients together used all room for that time.
        """
        size = int(declared) if declared and declared.isdecimal() else limit
        _check(size, limit)
        async with self.room(client, size):
            body = bytearray()
            async for part in steadily(parts):
                body += part
                _check(len(body), limit)
            yield bytes(body)

    @asynccontextmanager
    async def room(self, client: str, size: int) -> AsyncIterator[None]:
        """Reserve this many bytes. Raises as `read` does."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not self._fits(client, size):
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            if self._held[client] + size > self._each:
                raise TooMuch("this token has too many large requests in flight", int(PATIENCE)) from None
            raise Unavailable("too many large requests are in flight", next="Try again.") from None
        self._held[client] += size
        try:
            yield
        finally:
            self._held[client] -= size
            self._held = +self._held  # drops zeros
            self._freed.set()

    def _fits(self, client: str, size: int) -> bool:
        return self._held.total() + size <= self._total and self._held[client] + size <= self._each


async def steadily(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The parts of a body as they arrive. Raises Limit if they arrive too slowly."""
    too_slow = Limit("the request is too slow", next=f"Send at least {SLOWEST} bytes a second.")
    began, size = time.monotonic(), 0
    while True:
        try:
            async with asyncio.timeout(PATIENCE):
                part = await anext(parts, None)
        except TimeoutError:
            raise too_slow from None
        if part is None:
            return
        size += len(part)
        if time.monotonic() - began > PATIENCE + size / SLOWEST:
            raise too_slow
        yield part


def _check(size: int, limit: int) -> None:
    if size > limit:
        bound = f"{limit >> 20} MiB" if limit >> 20 else f"{limit >> 10} KiB"
        raise Limit(f"a request has at most {bound}", at="body", next="Send it in parts.")
