"""MCP over HTTP: on loopback with the token of the home, and on a hub for token holders.

On loopback it is off by default, and web pages cannot reach it, because Host and Origin must name this machine. On a
hub each request is authenticated separately. A session belongs to the token that started it and cannot be found with
another token; each request uses the token's current scopes. Revoking a token ends its open streams.
"""

from __future__ import annotations

import contextlib
import hmac
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol

import anyio.to_thread
import uvicorn
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kgd import __version__
from kgd.daemon.request_bodies import RECOGNISED, Bodies
from kgd.errors import KgdError
from kgd.mcp.server import RECORD, Surface
from kgd.model.token import TokenRecord

LOOPBACK = "127.0.0.1"
NAMES = ("127.0.0.1", "localhost", "[::1]")
BODY_LIMIT = 4 * 2**20
LOOK_SECONDS = 1.0
"""Seconds between two checks of the token of an active stream."""


def security(port: int) -> TransportSecuritySettings:
    """The allowed hosts and origins."""
    return TransportSecuritySettings(
        allowed_hosts=[*NAMES, *(f"{name}:{port}" for name in NAMES)],  # a pattern would allow `127.0.0.1:1.example`
        allowed_origins=[f"http://{name}{any_port}" for name in NAMES for any_port in ("", ":*")],
    )


def application(surface: Surface, token: str, port: int) -> Starlette:
    """Serve `/mcp` with the token, and the liveness probe `/health`."""
    surface.server.streamable_http_app(transport_security=security(port), max_request_body_size=BODY_LIMIT)
    manager = surface.server.session_manager

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            try:
                yield
            finally:
                surface.close()

    return Starlette(
        # An exact route: a mount would answer POST /mcp with a redirect, which some clients do not follow.
        routes=[
            Route("/health", _health),
            Route("/mcp", endpoint=RequireAuthMiddleware(StreamableHTTPASGIApp(manager), [])),
        ],
        middleware=[
            Middleware(AuthenticationMiddleware, backend=BearerAuthBackend(_HomeToken(token))),
            Middleware(AuthContextMiddleware),
        ],
        lifespan=lifespan,
    )


class HttpServer(uvicorn.Server):
    """Serves `application`. Before it stops, it ends listen streams, since they would keep it running."""

    def __init__(self, surface: Surface, token: str, port: int) -> None:
        self._surface = surface
        config = uvicorn.Config(
            application(surface, token, port),
            host=LOOPBACK,
            port=port,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=3,
            server_header=False,
        )
        super().__init__(config)

    def stop(self) -> None:
        """Ask the server to stop; `serve` returns soon after."""
        self._surface.close()
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        """Leave signals to the daemon, which stops this server."""
        yield


class _HomeToken:
    """Verifies one token in constant time."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def verify_token(self, token: str) -> AccessToken | None:
        if not hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self._token):
            return None
        return AccessToken(token="local", client_id="local", scopes=[], subject="local")


async def _health(request: Request) -> JSONResponse:
    return JSONResponse({"status": "ok", "version": __version__})


# ---- for a hub


class Authenticator(Protocol):
    """Authentication; implemented by `kgd.hub.authentication.Gate`. Each method may block."""

    def admit(self, authorization: str) -> TokenRecord:
        """The record for an Authorization header; counts the request. Raises KgdError."""

    def spend(self, record: TokenRecord, size: int) -> None:
        """Count bytes. Raises TooMuch."""

    def still_live(self, record: TokenRecord) -> None:
        """Raise Unauthorized if the token has been revoked."""


class HubHttp:
    """`/mcp` for many principals, as an ASGI application; `running` is its lifespan."""

    def __init__(
        self, surface: Surface, auth: Authenticator, bodies: Bodies, refuse: Callable[[KgdError], ASGIApp]
    ) -> None:
        self._surface, self._auth, self._bodies, self._refuse = surface, auth, bodies, refuse
        # The hub checks Host and Origin for all routes.
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
                self.close()

    def close(self) -> None:
        """End open streams."""
        self._surface.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            record = await anyio.to_thread.run_sync(self._auth.admit, request.headers.get("authorization", ""))
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
            await anyio.to_thread.run_sync(self._auth.spend, record, len(body))
            arrived: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

            async def receive() -> Message:
                return arrived.pop() if arrived else await request.receive()

            await self._run(request.scope, receive, send, record)

    async def _run(self, scope: Scope, receive: Receive, send: Send, record: TokenRecord) -> None:
        id = record.holder.id
        user = AuthenticatedUser(AccessToken(token=id, client_id=id, subject=id, scopes=[]))
        await self._app({**scope, "user": user, RECORD: record}, receive, self._watched(record, send))

    def _watched(self, record: TokenRecord, send: Send) -> Send:
        """A `send` that ends the stream when the token is no longer live."""
        looked, ended = time.monotonic(), False

        async def checked(message: Message) -> None:
            nonlocal looked, ended
            if ended:
                return
            more = message["type"] == "http.response.body" and message.get("more_body", False)
            if more and time.monotonic() - looked >= LOOK_SECONDS:
                looked = time.monotonic()
                try:
                    await anyio.to_thread.run_sync(self._auth.still_live, record)
                except KgdError:
                    ended = True
                    message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        return checked
