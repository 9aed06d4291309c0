"""This file is where MCP over HTTP is served to holders of tokens: each request is let in by itself, or not at all.

A session belongs to the token that began it: with another one it is not found. Scopes are those of the request, not of
the session's first; a token that was revoked ends its open streams too.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

import anyio.to_thread
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kgd.daemon.bodies import RECOGNISED, Bodies
from kgd.errors import KgdError
from kgd.mcp.http import BODY_LIMIT
from kgd.mcp.server import RECORD, Surface
from kgd.model.token import TokenRecord

LOOK_SECONDS = 1.0
"""How often a stream that is written to asks whether its token still holds."""


class Door(Protocol):
    """Who is let in. Each method may block."""

    def admit(self, authorization: str) -> TokenRecord:
        """The record for an Authorization header; counts the request. Raises KgdError."""

    def spend(self, record: TokenRecord, size: int) -> None:
        """Count so many bytes. Raises TooMuch."""

    def still_live(self, record: TokenRecord) -> None:
        """Raises Unauthorized where it was revoked meanwhile."""


class HubHttp:
    """`/mcp` for many principals, as an ASGI application; run `running` around it."""

    def __init__(self, surface: Surface, door: Door, bodies: Bodies, refuse: Callable[[KgdError], ASGIApp]) -> None:
        self._surface, self._door, self._bodies, self._refuse = surface, door, bodies, refuse
        # Host and Origin are judged at the hub's own door, for this route as for all others.
        open_to_all = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        self._manager = StreamableHTTPSessionManager(
            surface.server, security_settings=open_to_all, max_request_body_size=BODY_LIMIT
        )
        self._app = StreamableHTTPASGIApp(self._manager)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self._manager.run():
            try:
                yield
            finally:
                self._surface.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            record = await anyio.to_thread.run_sync(self._door.admit, request.headers.get("authorization", ""))
            scope[RECOGNISED](record.holder.line)
            if request.method == "POST":
                await self._with_body(request, record, send)
            else:
                await self._run(scope, receive, send, record)
        except KgdError as error:
            await self._refuse(error)(scope, receive, send)
        except ClientDisconnect:
            pass

    async def _with_body(self, request: Request, record: TokenRecord, send: Send) -> None:
        declared = request.headers.get("content-length")
        async with self._bodies.read(aiter(request.stream()), declared, record.holder.line, BODY_LIMIT) as body:
            await anyio.to_thread.run_sync(self._door.spend, record, len(body))
            arrived: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

            async def receive() -> Message:
                return arrived.pop() if arrived else await request.receive()

            await self._run(request.scope, receive, send, record)

    async def _run(self, scope: Scope, receive: Receive, send: Send, record: TokenRecord) -> None:
        id = record.holder.id
        user = AuthenticatedUser(AccessToken(token=id, client_id=id, subject=id, scopes=[]))
        await self._app({**scope, "user": user, RECORD: record}, receive, self._watched(record, send))

    def _watched(self, record: TokenRecord, send: Send) -> Send:
        """What is sent, as long as the token holds; then the stream ends."""
        looked, ended = time.monotonic(), False

        async def checked(message: Message) -> None:
            nonlocal looked, ended
            if ended:
                return
            more = message["type"] == "http.response.body" and message.get("more_body", False)
            if more and time.monotonic() - looked >= LOOK_SECONDS:
                looked = time.monotonic()
                try:
                    await anyio.to_thread.run_sync(self._door.still_live, record)
                except KgdError:
                    ended = True
                    message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        return checked
