"""Request bodies: a bound on how many bytes of them are held at a time, by one client and by all.

A body is read only after its client is known, and only while there is room for all of it.
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
"""In an ASGI scope, the key of a function to call with the client's name once its credentials have proven valid."""
TOTAL = 32 << 20
EACH = 8 << 20
PATIENCE = 10.0
"""Seconds without a byte after which a body is broken off, and seconds to wait for room for one."""
SLOWEST = 1 << 10
"""Bytes a second that a body comes with at least, once `PATIENCE` has passed."""


class Bodies:
    """Bodies in flight, from before their first byte until their request is answered. For one event loop.

    Args:
        total: Bytes of all of them.
        each: Bytes of those of one client.
    """

    def __init__(self, total: int = TOTAL, each: int = EACH) -> None:
        self._total, self._each = total, each
        self._held: Counter[str] = Counter()
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def read(
        self, parts: AsyncIterator[bytes], declared: str | None, client: str, limit: int
    ) -> AsyncIterator[bytes]:
        """The whole body, held as long as the context lasts.

        Args:
            declared: The Content-Length, where there is one; without it there has to be room for `limit` bytes.

        Raises:
            Limit: It is larger than `limit`, or comes too slowly; no more than the limit was read.
            TooMuch: The client has no room left, and none gets free within `PATIENCE`.
            Unavailable: All clients together have none.
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
        """Keep room for so many bytes. Raises as `read`."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not self._fits(client, size):
                    self._freed.clear()
                    await self._freed.wait()
        except TimeoutError:
            if self._held[client] + size > self._each:
                raise TooMuch("this token has too many large requests under way", int(PATIENCE)) from None
            raise Unavailable("too many large requests are under way", next="Try again.") from None
        self._held[client] += size
        try:
            yield
        finally:
            self._held[client] -= size
            self._held = +self._held  # without those that hold nothing
            self._freed.set()

    def _fits(self, client: str, size: int) -> bool:
        return self._held.total() + size <= self._total and self._held[client] + size <= self._each


async def steadily(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The parts of a body as they come. Raises Limit where they come too slowly."""
    too_slow = Limit("the request comes too slowly", next=f"Send at least {SLOWEST} bytes a second.")
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
