"""This file is where MCP over HTTP is served to holders of tokens: each request is let in by itself, or not at all.

A session belongs to the token that began it: with another one it is not found. Scopes are those of the request, not of
the session's first; a token that was revoked ends its open streams too.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio.to_thread
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kgd.errors import KgdError
from kgd.mcp.http import BODY_LIMIT
from kgd.mcp.server import RECORD, Surface
from kgd.model.token import TokenRecord

LOOK_SECONDS = 1.0
"""How often a stream that is written to asks whether its token still holds."""

Admit = Callable[[str, int], TokenRecord]
"""The record for an Authorization header and a body of so many bytes; raises KgdError. Blocks."""


class HubHttp:
    """`/mcp` for many principals, as an ASGI application; run `running` around it."""

    def __init__(
        self, surface: Surface, admit: Admit, still_live: Callable[[TokenRecord], None],
        refuse: Callable[[KgdError], ASGIApp],
    ) -> None:  # fmt: skip
        self._surface, self._admit, self._still_live, self._refuse = surface, admit, still_live, refuse
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
        headers = dict(scope["headers"])
        size = headers.get(b"content-length", b"0").decode("latin-1")
        try:
            record = await anyio.to_thread.run_sync(
                self._admit, headers.get(b"authorization", b"").decode("latin-1"), int(size) if size.isdecimal() else 0
            )
        except KgdError as error:
            await self._refuse(error)(scope, receive, send)
            return
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
                    await anyio.to_thread.run_sync(self._still_live, record)
                except KgdError:
                    ended = True
                    message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        return checked
