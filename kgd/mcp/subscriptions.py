"""Notifications about changed resources, in both protocol eras.

Modern clients open `subscriptions/listen`, a stream of the bus. Legacy clients send `resources/subscribe` and receive
notifications on their connection. Events have no content and are not replayed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import anyio.lowlevel
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import ListenHandler, ResourceUpdated, ServerEvent
from mcp.types import EmptyResult, SubscribeRequestParams, UnsubscribeRequestParams

log = logging.getLogger("kgd.mcp")

BURST = 256
"""Number of events between two chances for the streams to drain."""


class Bus:
    """In-process fan-out that counts its listeners, so that a commit costs nothing if there are no listeners."""

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
    """The subscribers of each resource. Lives on the event loop; `announce` may be called from any thread."""

    def __init__(self) -> None:
        self.bus = Bus()
        self.listen = ListenHandler(self.bus)
        self._legacy: dict[str, dict[int, ServerSession]] = {}
        self._listened: Counter[str] = Counter()
        """Workspaces by the number of listen streams about them."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sending: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Remember the running loop; until then, `announce` does nothing."""
        self._loop = asyncio.get_running_loop()

    @property
    def watched(self) -> bool:
        return bool(self.bus) or bool(self._legacy)

    def workspaces(self) -> set[str]:
        """The workspaces whose resources have subscribers. May be called from any thread."""
        return {_workspace_in(uri) for uri in self._legacy.copy()} | (+self._listened).keys()

    @contextlib.contextmanager
    def listening(self, uris: Iterable[str]) -> Iterator[None]:
        """Within the block, a stream listens to these resources."""
        ids = [_workspace_in(uri) for uri in uris]
        self._listened.update(ids)
        try:
            yield
        finally:
            self._listened.subtract(ids)

    def announce(self, uris: Iterable[str]) -> None:
        """Notify the subscribers of these resources. Returns at once; never raises."""
        if self._loop is None or not self.watched:
            return
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._start_sending, tuple(uris))

    async def publish(self, uris: Iterable[str]) -> None:
        """Notify the subscribers; returns when every stream has the events."""
        for number, uri in enumerate(uris):
            for session in list(self._legacy.get(uri, {}).values()):
                await self._notify(session, uri)
            if self.bus:
                await self.bus.publish(ResourceUpdated(uri=uri))
            elif number % BURST == BURST - 1:
                await anyio.lowlevel.checkpoint()

    async def subscribe(self, ctx: ServerRequestContext[Any, Any], params: SubscribeRequestParams) -> EmptyResult:
        """Handle the legacy `resources/subscribe`; lasts until the connection ends."""
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
        """End every listen stream; an open stream would keep an HTTP server running."""
        self.listen.close()

    def _start_sending(self, uris: tuple[str, ...]) -> None:
        task = asyncio.get_running_loop().create_task(self.publish(uris))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _notify(self, session: ServerSession, uri: str) -> None:
        try:
            await session.send_resource_updated(uri)
        except Exception:
            log.debug("a subscriber could not be notified", exc_info=True)

    def _forget(self, uri: str, connection: int) -> None:
        watchers = self._legacy.get(uri, {})
        watchers.pop(connection, None)
        if not watchers:
            self._legacy.pop(uri, None)


def _workspace_in(resource: str) -> str:
    return resource.partition("://")[2].partition("/")[0]
