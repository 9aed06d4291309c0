"""Notifications in both protocol eras: progress, log messages, and changed resources to their subscribers.

One task per receiver sends the messages in order. It drops messages while the client does not read, so that a slow
client does not delay work. No notification of a call follows its answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any
from urllib.parse import quote

import anyio
import anyio.lowlevel
from mcp.server.context import ServerRequestContext
from mcp.server.session import ServerSession
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ResourceUpdated
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp.types import (
    LOG_LEVEL_META_KEY,
    EmptyResult,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
    ProgressNotification,
    ProgressNotificationParams,
    RequestId,
    ServerNotification,
    SetLevelRequestParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from kgd.daemon.process import log_fields
from kgd.mcp.resources import split
from kgd.tools.session import Progress

PROGRESS_SECONDS = 0.25
"""Shortest time in seconds between two progress notifications of a call."""
WAITING = 64
"""Largest number of notifications that are queued for a client; later ones are dropped."""

LEVELS = {
    "debug": 10,
    "info": 20,
    "notice": 25,
    "warning": 30,
    "error": 40,
    "critical": 50,
    "alert": 60,
    "emergency": 70,
}
"""MCP's severities (RFC 5424) on Python's scale."""

log = logging.getLogger("kgd.mcp")


class Outbox:
    """Notifications for one request or one connection. `put` works from any thread."""

    def __init__(self, session: ServerSession, request: RequestId | None = None, level: int | None = None) -> None:
        self.level = level
        """Lowest level of log records to send; None for no records."""
        self._session, self._request = session, request
        self._loop = asyncio.get_running_loop()
        self._send, self._waiting = anyio.create_memory_object_stream[ServerNotification](WAITING)
        self._sending = self._loop.create_task(self._send_all())

    def put(self, notification: ServerNotification) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._put, notification)

    async def finish(self) -> None:
        """Send queued notifications, and accept no more."""
        self._send.close()
        await self._sending

    def close(self) -> None:
        """Drop queued notifications."""
        self._send.close()
        self._sending.cancel()

    def _put(self, notification: ServerNotification) -> None:
        with contextlib.suppress(anyio.WouldBlock, anyio.BrokenResourceError, anyio.ClosedResourceError):
            self._send.send_nowait(notification)

    async def _send_all(self) -> None:
        with self._waiting:
            async for notification in self._waiting:
                try:
                    await self._session.send_notification(notification, self._request)
                except Exception:
                    log.debug("a notification could not be sent", exc_info=True)


_call: ContextVar[Outbox | None] = ContextVar("call", default=None)
"""The outbox of the current request."""


class Logs(logging.Handler):
    """Sends the daemon's log records to clients that requested them.

    In the handshake era, a connection receives all records from a level on after `logging/setLevel`. In later
    protocols, a request names the level in its envelope and receives the records of its own call. Token holders receive
    none, because records name nodes that they may not read. The handler is installed only while a client wants records.
    """

    def __init__(self) -> None:
        super().__init__()
        self._connections: dict[int, Outbox] = {}
        self._listeners = 0

    def set_level(self, ctx: ServerRequestContext[Any, Any], params: SetLevelRequestParams) -> EmptyResult:
        """Handle `logging/setLevel`; the level lasts until the connection ends."""
        connection = ctx.session._connection
        level = LEVELS[params.level]
        if id(connection) in self._connections:
            self._connections[id(connection)].level = level
        else:
            self._connections[id(connection)] = self._listen(ctx.session, None, level)
            connection.exit_stack.callback(self._forget, id(connection))
        return EmptyResult()

    @asynccontextmanager
    async def of_call(self, ctx: ServerRequestContext[Any, Any], *, restricted: bool) -> AsyncIterator[Progress | None]:
        """Send the block's log records to the client of this request; yields a function for its progress, or None.

        Args:
            restricted: Whether the caller may not see log records.
        """
        token = progress_token_from_params(ctx.params)
        level = None if restricted else _level_asked(ctx)
        if token is None and level is None:
            yield None
            return
        outbox = self._listen(ctx.session, ctx.request_id, level)
        before = _call.set(outbox)
        try:
            yield None if token is None else _throttled(outbox, token)
            await outbox.finish()
        finally:
            outbox.close()
            _call.reset(before)
            self._leave(level)

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "kgd.mcp" and record.levelno < logging.INFO:
            return  # sending this record could cause another one
        receivers = list(self._connections.values())
        if (own := _call.get()) is not None:
            receivers.append(own)
        receivers = [one for one in receivers if one.level is not None and record.levelno >= one.level]
        if receivers:
            params = LoggingMessageNotificationParams(
                level=_severity(record), logger=record.name, data={"message": record.getMessage(), **log_fields(record)}
            )
            for one in receivers:
                one.put(LoggingMessageNotification(params=params))

    def _listen(self, session: ServerSession, request: RequestId | None, level: int | None) -> Outbox:
        if level is not None:
            if not self._listeners:
                logging.getLogger("kgd").addHandler(self)
            self._listeners += 1
        return Outbox(session, request, level)

    def _leave(self, level: int | None) -> None:
        if level is not None:
            self._listeners -= 1
            if not self._listeners:
                logging.getLogger("kgd").removeHandler(self)

    def _forget(self, connection: int) -> None:
        outbox = self._connections.pop(connection)
        outbox.close()
        self._leave(outbox.level)


def _throttled(outbox: Outbox, token: str | int) -> Progress:
    """A progress function that sends at most one notification per `PROGRESS_SECONDS`.

    A tool counts each phase from zero, but the protocol requires increasing numbers: so each phase continues the count
    of the previous phase.
    """
    base, last, sent, due = 0, 0, -1, 0.0

    def report(done: int, total: int | None, message: str) -> None:
        nonlocal base, last, sent, due
        if done < last:
            base += last
        last = done
        if base + done <= sent or time.monotonic() < due:
            return
        sent, due = base + done, time.monotonic() + PROGRESS_SECONDS
        params = ProgressNotificationParams(
            progress_token=token, progress=sent, total=None if total is None else base + total, message=message or None
        )
        outbox.put(ProgressNotification(params=params))

    return report


def _level_asked(ctx: ServerRequestContext[Any, Any]) -> int | None:
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return None
    meta = (ctx.params or {}).get("_meta")
    return LEVELS.get(str(meta.get(LOG_LEVEL_META_KEY))) if isinstance(meta, dict) else None


def _severity(record: logging.LogRecord) -> Any:
    return next(name for name, level in reversed(LEVELS.items()) if level <= max(record.levelno, logging.DEBUG))


def _changed(workspace: str, uris: Iterable[str], *, is_commit: bool) -> Iterator[str]:
    """The resources that change with these nodes. A node has two spellings, because subscriptions match by exact
    text."""
    for uri in uris:
        yield f"kgd://{workspace}/nodes/{uri}"
        yield f"kgd://{workspace}/nodes/{quote(uri, safe='')}"
    yield f"kgd://{workspace}/status"
    if is_commit:
        yield f"kgd://{workspace}/conflicts"


class Subscriptions:
    """The subscribers of each resource. Lives on the event loop; `announce` may be called from any thread."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
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
        return bool(self._legacy or +self._listened)

    def workspaces(self) -> set[str]:
        """The workspaces whose resources have subscribers. May be called from any thread."""
        return {split(uri)[0] for uri in self._legacy.copy()} | (+self._listened).keys()

    @contextlib.contextmanager
    def listening(self, uris: Iterable[str]) -> Iterator[None]:
        """Within the block, a stream listens to these resources."""
        ids = [split(uri)[0] for uri in uris]
        self._listened.update(ids)
        try:
            yield
        finally:
            self._listened.subtract(ids)

    def announce(self, workspace: str, uris: Iterable[str], *, is_commit: bool = False) -> None:
        """Notify the subscribers of these nodes and of their workspace. Returns at once; never raises."""
        if self._loop is None or not self.watched:
            return
        with contextlib.suppress(RuntimeError):  # the loop has ended
            changed = tuple(_changed(workspace, uris, is_commit=is_commit))
            self._loop.call_soon_threadsafe(self._start_sending, changed)

    async def publish(self, uris: Iterable[str]) -> None:
        """Notify the subscribers; returns when every stream has the events."""
        for uri in uris:
            for session in list(self._legacy.get(uri, {}).values()):
                await self._notify(session, uri)
            await self.bus.publish(ResourceUpdated(uri=uri))

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
