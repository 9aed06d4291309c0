"""This file is where MCP is served over loopback HTTP: one token, checked names, nothing beyond this machine.

Off unless the settings ask for it. The token lies in a file of the home that only its owner can read; a page in a
browser cannot reach the server, because Host and Origin must be those of this machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend, RequireAuthMiddleware
from mcp.server.auth.provider import AccessToken
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from kgd import __version__
from kgd.mcp.server import Surface

LOOPBACK = "127.0.0.1"
NAMES = ("127.0.0.1", "localhost", "[::1]")
BODY_LIMIT = 4 * 2**20


def security(port: int) -> TransportSecuritySettings:
    """The hosts and origins by which this machine is called."""
    return TransportSecuritySettings(
        allowed_hosts=[*NAMES, *(f"{name}:{port}" for name in NAMES)],  # a pattern would take `127.0.0.1:1.example`
        allowed_origins=[f"http://{name}{any_port}" for name in NAMES for any_port in ("", ":*")],
    )


def application(surface: Surface, token: str, port: int) -> Starlette:
    """`/mcp` behind the token, and `/health`, the liveness probe."""
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
            Middleware(AuthenticationMiddleware, backend=BearerAuthBackend(_OneToken(token))),
            Middleware(AuthContextMiddleware),
        ],
        lifespan=lifespan,
    )


class HttpServer(uvicorn.Server):
    """Serves `application`; ends listen streams first, since an open one would keep it from stopping for ever."""

    def __init__(self, surface: Surface, token: str, port: int) -> None:
        self._surface = surface
        config = uvicorn.Config(
            application(surface, token, port), host=LOOPBACK, port=port, log_config=None, access_log=False,
            timeout_graceful_shutdown=3, server_header=False,
        )  # fmt: skip
        super().__init__(config)

    def stop(self) -> None:
        """Ask it to end; `serve` returns soon after."""
        self._surface.close()
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        """Signals belong to the daemon, which stops this server among others."""
        yield


class _OneToken:
    """Knows one token, by its hash; the comparison takes the same time whatever was sent."""

    def __init__(self, token: str) -> None:
        self._digest = _digest(token)

    async def verify_token(self, token: str) -> AccessToken | None:
        if not hmac.compare_digest(_digest(token), self._digest):
            return None
        return AccessToken(token=self._digest, client_id="local", scopes=[], subject="local")


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


async def _health(request: Request) -> JSONResponse:
    return JSONResponse({"status": "ok", "version": __version__})
