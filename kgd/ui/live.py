"""This file is where open pages hear that something changed: one stream of events a page, a cue to look again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

PING_SECONDS = 15.0
"""A stream says something at least so often, so that both ends notice when the other one is gone."""
REST_SECONDS = 0.2
"""Between two cues: a burst of commits is looked at once."""
STREAMS_LIMIT = 200
RETRY_MILLISECONDS = 1_500


class Live:
    """Who listens to which workspace. Lives on the event loop; `announce` may be called from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._streams: dict[asyncio.Event, str] = {}
        self._closed = False

    def announce(self, workspace: str) -> None:
        """Tell the pages of a workspace; returns at once."""
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody is left to be told
            self._loop.call_soon_threadsafe(self._wake, workspace)

    async def stream(self, workspace: str) -> AsyncIterator[bytes]:
        """What one page is sent, until it goes away or `close`."""
        changed = asyncio.Event()
        if len(self._streams) >= STREAMS_LIMIT:
            self._streams.pop(next(iter(self._streams)))
        self._streams[changed] = workspace
        number = 0
        try:
            yield b"retry: %d\nevent: open\ndata: 0\n\n" % RETRY_MILLISECONDS
            while not self._closed and changed in self._streams:
                try:
                    await asyncio.wait_for(changed.wait(), PING_SECONDS)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                changed.clear()
                if not self._closed:
                    number += 1
                    yield b"event: changed\ndata: %d\n\n" % number
                    await asyncio.sleep(REST_SECONDS)
        finally:
            self._streams.pop(changed, None)

    def close(self) -> None:
        """End every stream; an open one would keep a server from stopping."""
        self._closed = True
        for changed in self._streams:
            changed.set()

    def _wake(self, workspace: str) -> None:
        for changed, wanted in self._streams.items():
            if wanted == workspace:
                changed.set()
