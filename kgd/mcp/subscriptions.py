"""This file is where clients hear that something changed, in both protocol eras, through one `publish`.

Modern clients open `subscriptions/listen`, whose stream hears the bus; legacy ones send `resources/subscribe` and get
a notification on their connection. Events are cues to fetch again: nothing is replayed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import Any

import anyio.lowlevel
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import ListenHandler, ResourceUpdated, ServerEvent
from mcp.types import EmptyResult, SubscribeRequestParams, UnsubscribeRequestParams

log = logging.getLogger("kgd.mcp")

BURST = 256
"""Events between two chances for the streams to drain."""


class Bus:
    """In-process fan-out that knows whether anybody listens, so that a commit nobody watches costs nothing."""

    def __init__(self) -> None:
        self._listeners: dict[object, Callable[[ServerEvent], None]] = {}

    def __len__(self) -> int:
        return len(self._listeners)

    async def publish(self, event: ServerEvent) -> None:
        for listener in list(self._listeners.values()):
            listener(event)
        await anyio.lowlevel.checkpoint()

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        token = object()
        self._listeners[token] = listener
        return lambda: self._listeners.pop(token, None) and None


class Subscriptions:
    """Who wants to hear about which resource. Lives on the event loop; `announce` may be called from any thread."""

    def __init__(self) -> None:
        self.bus = Bus()
        self.listen = ListenHandler(self.bus)
        self._legacy: dict[str, dict[int, ServerSession]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sending: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Remember the running loop; needed before `announce` does anything."""
        self._loop = asyncio.get_running_loop()

    @property
    def watched(self) -> bool:
        return bool(self.bus) or bool(self._legacy)

    def announce(self, uris: Iterable[str]) -> None:
        """Tell everybody who watches one of these resources. Returns at once; never raises."""
        if self._loop is None or not self.watched:
            return
        with contextlib.suppress(RuntimeError):  # the loop has ended: nobody is left to be told
            self._loop.call_soon_threadsafe(self._start_sending, tuple(uris))

    async def publish(self, uris: Iterable[str]) -> None:
        """The same, finished when every stream has the events."""
        for number, uri in enumerate(uris):
            for session in list(self._legacy.get(uri, {}).values()):
                await self._tell(session, uri)
            if self.bus:
                await self.bus.publish(ResourceUpdated(uri=uri))
            elif number % BURST == BURST - 1:
                await anyio.lowlevel.checkpoint()

    async def subscribe(self, ctx: ServerRequestContext[Any, Any], params: SubscribeRequestParams) -> EmptyResult:
        """Legacy `resources/subscribe`. Ends with the connection."""
        key = str(params.uri)
        connection = ctx.session._connection
        watchers = self._legacy.setdefault(key, {})
        if id(connection) not in watchers:
            watchers[id(connection)] = ctx.session
            connection.exit_stack.callback(self._forget, key, id(connection))
        return EmptyResult()

    async def unsubscribe(self, ctx: ServerRequestContext[Any, Any], params: UnsubscribeRequestParams) -> EmptyResult:
        self._forget(str(params.uri), id(ctx.session._connection))
        return EmptyResult()

    def close(self) -> None:
        """End every listen stream gracefully: an open one would keep an HTTP server from stopping."""
        self.listen.close()

    def _start_sending(self, uris: tuple[str, ...]) -> None:
        task = asyncio.get_running_loop().create_task(self.publish(uris))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _tell(self, session: ServerSession, uri: str) -> None:
        try:
            await session.send_resource_updated(uri)
        except Exception:
            log.debug("a subscriber could not be told", exc_info=True)

    def _forget(self, uri: str, connection: int) -> None:
        watchers = self._legacy.get(uri, {})
        watchers.pop(connection, None)
        if not watchers:
            self._legacy.pop(uri, None)
