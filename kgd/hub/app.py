"""The hub's ASGI application and server: routes, the check of Host and Origin, and accepting connections."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from kgd.errors import Forbidden, Invalid, NotFound
from kgd.hub import problem
from kgd.hub.connections import HEADER_LIMIT, HEADER_SECONDS, Connections, HubConnection, block_of
from kgd.hub.listen import Listen
from kgd.hub.operating import Observed, Operating
from kgd.hub.v1 import Api

STOP_SECONDS, DRAIN_SECONDS = 1, 10
"""Seconds that running requests get to finish when the hub stops, and after it has drained; then their connections end.
"""
KEEP_ALIVE_SECONDS = 75
TAKEN_AT_ONCE, REFUSED_AT_ONCE = 4, 64
"""Number of connections accepted or refused per turn of the loop. The kernel's queue must not overflow: a client for
which it has no room waits seconds before it tries again.
"""
REST_SECONDS = 0.2
"""Seconds without accepting connections when the process has no free file descriptor."""

log = logging.getLogger("kgd.hub")


def application(
    listen: Listen,
    api: Api,
    operating: Operating,
    *,
    git: ASGIApp | None = None,
    mcp: ASGIApp | None = None,
    pages: Sequence[Route] = (),
    sign_in: Sequence[Route] = (),
    running: Callable[[], AbstractAsyncContextManager[None]] | None = None,
) -> Starlette:
    """The application. `mcp`, `pages` and `sign_in` authenticate clients themselves; `running` is its lifespan."""

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with running() if running else contextlib.nullcontext():
            yield

    routes = [
        Route("/health", operating.live),
        *operating.routes(),
        Route("/v1/tokens", api.mint_child, methods=["POST"]),
        Route("/v1/links", api.link, methods=["POST"]),
        *sign_in,  # before the tools, whose addresses have the same form
        *tool_routes(api),
        *pages,
    ]
    if git is not None:
        routes.append(Route("/git/{workspace}/{rest:path}", endpoint=git))
    if mcp is not None:
        # An exact route: a mount would answer POST /mcp with a redirect, which some clients do not follow.
        routes.append(Route("/mcp", endpoint=mcp))
    return Starlette(
        routes=routes,
        middleware=[Middleware(Observed, readiness=operating.readiness), Middleware(HostCheck, listen=listen)],
        lifespan=lifespan,
        exception_handlers={404: _no_such_place, 405: _other_method},
    )


def tool_routes(api: Api) -> list[Route]:
    """The part of `/v1` that a hub and a user's own daemon share."""
    return [
        Route("/v1/openapi.json", api.openapi, methods=["GET"]),
        Route("/v1/workspaces", api.workspaces, methods=["GET"]),
        Route("/v1/{workspace}/{tool}", api.tool, methods=["POST"]),
    ]


async def _no_such_place(request: Request, error: Exception) -> Response:
    return problem(NotFound("there is nothing here", next="See /v1/openapi.json."))


async def _other_method(request: Request, error: Exception) -> Response:
    response = problem(Invalid("this URL needs another method", next="See /v1/openapi.json."), status=405)
    response.headers.update(getattr(error, "headers", None) or {})
    return response


class HostCheck:
    """Refuses requests with a foreign Host, or from pages of another site, before their body is read."""

    def __init__(self, app: ASGIApp, listen: Listen) -> None:
        self._app, self._listen = app, listen

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        hosts, origins = (
            [value.decode("latin-1") for name, value in scope["headers"] if name == wanted]
            for wanted in (b"host", b"origin")
        )
        host, origin = "".join(hosts[:1]), "".join(origins[:1])
        if len(hosts) > 1 or len(origins) > 1:
            refused = problem(Invalid("a request can have only one Host and one Origin", at="Host, Origin"), status=400)
        elif not self._listen.takes_host(host):
            refused = problem(Invalid("this hub does not serve this host name", at="Host"), status=421)
        elif origin and not self._listen.takes_origin(origin, host):
            refused = problem(Forbidden("other sites' pages may not call this hub", at="Origin"))
        else:
            await self._app(scope, receive, send)
            return
        await refused(scope, receive, send)


class HubServer(uvicorn.Server):
    """Serves an application on a listening socket.

    Args:
        closing: Called first when the server stops, to end open streams.
    """

    def __init__(self, app: ASGIApp, listen: Listen, listening: socket.socket, closing: Callable[[], None]) -> None:
        self._listening, self._closing = listening, closing
        self._connections = Connections(by_address=not listen.behind_proxy)
        config = uvicorn.Config(
            app,
            log_config=None,
            log_level=logging.ERROR,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=STOP_SECONDS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            ssl_certfile=listen.cert or None,
            ssl_keyfile=listen.key or None,
            h11_max_incomplete_event_size=HEADER_LIMIT,
            http=HubConnection,
        )
        super().__init__(config)

    @property
    def port(self) -> int:
        return int(self._listening.getsockname()[1])

    async def run_here(self) -> None:
        """Serve on the running loop until `stop`."""
        await self.serve(sockets=[self._listening])

    def stop(self, seconds: int = STOP_SECONDS) -> None:
        """Ask the server to stop, which takes little more than these seconds."""
        self.config.timeout_graceful_shutdown = seconds
        self._closing()
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Like uvicorn's `startup`, but connections are accepted or refused here, before any handshake."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise RuntimeError("the hub's application did not start")
        self.servers = []
        self._listening.setblocking(False)
        self._accept_on()
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._accept_off()
        await super().shutdown(sockets)

    def _accept_on(self) -> None:
        if not self.should_exit:
            asyncio.get_running_loop().add_reader(self._listening, self._accept)

    def _accept_off(self) -> None:
        asyncio.get_running_loop().remove_reader(self._listening)

    def _accept(self) -> None:
        taken = refused = 0
        while taken < TAKEN_AT_ONCE and refused < REFUSED_AT_ONCE:
            try:
                accepted, (host, *_) = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.error("no connection can be accepted", extra={"reason": error.strerror})
                self._connections.drop_a_stranger()
                self._accept_off()
                asyncio.get_running_loop().call_later(REST_SECONDS, self._accept_on)
                return
            address = block_of(host)
            if self._connections.make_room(address):
                self._open(accepted, address)
                taken += 1
            else:
                accepted.close()
                refused += 1

    def _open(self, accepted: socket.socket, address: str) -> None:
        accepted.setblocking(False)
        connection = HubConnection(
            self._connections,
            address,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )
        self._connections.add(connection)

        async def opened() -> None:
            try:
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: connection,
                    accepted,
                    ssl=self.config.ssl,
                    ssl_handshake_timeout=HEADER_SECONDS if self.config.ssl else None,
                )
            except (OSError, asyncio.CancelledError):  # a failed or cancelled handshake
                self._connections.remove(connection)
                accepted.close()

        connection.opening = asyncio.create_task(opened())

    @contextlib.contextmanager
    def capture_signals(self) -> Any:
        """Leave signals to the daemon, which stops this server."""
        yield
