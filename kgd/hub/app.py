"""The hub's ASGI application and server: routes, the check of Host and Origin, and accepting connections.

Operators' programs ask `/live`, `/ready` and `/metrics`. Probes need no token, so their answers name no workspace,
server or person. Each request is counted and has an id.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kgd import __version__, metrics, tracing
from kgd.daemon.metrics import text
from kgd.errors import Forbidden, Invalid, KgdError, NotFound
from kgd.hub.connections import HEADER_LIMIT, HEADER_SECONDS, Connections, HubConnection, block_of
from kgd.hub.listen import Listen
from kgd.hub.problem_details import problem
from kgd.hub.v1 import Api
from kgd.model.access import Verb
from kgd.tools import SERVED

if TYPE_CHECKING:
    from kgd.daemon.daemon import Daemon
    from kgd.hub.authentication import Gate

CHECK_SECONDS = 1.0
"""Seconds for which a result of the checks is reused, because anyone may ask."""
WARM_SECONDS = 3.0
"""Seconds after which a hub is ready although workspaces are still being opened: calls open them when needed."""
RETRY_SECONDS, RETRIED = 5.0, 8
"""Seconds between two rounds with failing upstreams, and their largest number."""

OK, LOST = "ok", "unreachable"
SURFACES = {"v1": "v1", "mcp": "mcp", "git": "git", "ui": "pages"}
PROBE, GONE = "probe", 499
"""The surface of probes; the status if the client left before its answer."""
PROBES = ("health", "live", "ready", "metrics")
GIT = ("refs", "git-upload-pack", "git-receive-pack")

requests_log = logging.getLogger("kgd.requests")
R = TypeVar("R")


class Readiness:
    """Whether a load balancer should send requests to this hub. For use by one thread at a time."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon, self._since = daemon, time.monotonic()
        self._checked_at, self._retried_at = float("-inf"), float("-inf")
        self._checks: dict[str, str] = {}
        self.is_draining = self.is_suspect = False
        """`is_suspect`: a call was answered 503 since the last round, so an upstream may have failed."""

    def checks(self) -> dict[str, str]:
        """The result of each check: `ok`, or the problem. Blocks for at most five seconds."""
        if time.monotonic() - self._checked_at > CHECK_SECONDS:
            self._checks = {"state": self._state(), "upstream": self._upstream(), "warm": self._warm()}
            self._checked_at = time.monotonic()
        return self._checks

    def _state(self) -> str:
        shared = self._daemon.shared
        return OK if shared is None or shared.is_reachable else LOST

    def _warm(self) -> str:
        is_late = time.monotonic() - self._since > WARM_SECONDS
        return OK if self._daemon.is_warm or is_late else "opening workspaces"

    def _upstream(self) -> str:
        """One slow or broken upstream concerns only its workspace; if all fail, this hub is cut off."""
        syncings = [(one, machine) for one in self._daemon.syncings().values() if (machine := one.upstream_machine)]
        failing = [one for one, machine in syncings if machine.trouble]
        reached = [one for one, machine in syncings if not machine.trouble]
        if (failing or self.is_suspect) and time.monotonic() - self._retried_at > RETRY_SECONDS:
            self._retried_at, self.is_suspect = time.monotonic(), False
            for one in [*failing, *reached][:RETRIED]:  # the regular rounds with a failing one are minutes apart
                one.retry()
        return LOST if failing and not reached else OK


class Operating:
    """The routes of one hub."""

    def __init__(self, daemon: Daemon, gate: Gate, readiness: Readiness) -> None:
        self._daemon, self._gate, self.readiness = daemon, gate, readiness
        self._threads: anyio.CapacityLimiter | None = None

    def routes(self) -> list[Route]:
        return [Route("/live", self.live), Route("/ready", self.ready), Route("/metrics", self.metrics)]

    async def live(self, request: Request) -> Response:
        """Liveness probe: this process answers."""
        return JSONResponse({"status": "ok", "version": __version__})

    async def ready(self, request: Request) -> Response:
        """Readiness probe: 200, or 503 with the checks that failed."""
        if self.readiness.is_draining:
            return JSONResponse({"status": "draining"}, 503)
        checks = await self._on_thread(self.readiness.checks)
        is_ready = all(found == OK for found in checks.values())
        status = "ready" if is_ready else "not ready"
        return JSONResponse({"status": status, "checks": checks}, 200 if is_ready else 503)

    async def metrics(self, request: Request) -> Response:
        """Metrics, for tokens with `admin`. Metrics of a workspace need `admin` there."""
        try:
            found = await self._on_thread(partial(self._metrics, request.headers.get("authorization", "")))
        except KgdError as error:
            return problem(error)
        return Response(found, media_type=metrics.MEDIA_TYPE)

    async def _on_thread(self, function: Callable[[], R]) -> R:
        """Run one probe at a time: while PostgreSQL hangs, many of them must not take the threads of other calls."""
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(1)
        return await anyio.to_thread.run_sync(function, limiter=self._threads)

    def _metrics(self, authorization: str) -> str:
        record = self._gate.admit(authorization)
        workspaces = {one.workspace for one in record.holder.scopes if Verb.ADMIN in one.verbs and one.is_whole}
        if not workspaces:
            raise Forbidden(
                "metrics need a token with admin", at="Authorization", next="Run `kgd hub top` on the hub's machine."
            )
        return text(self._daemon, workspaces)


class Observed:
    """Middleware: counts each request, logs it with its id, and ends connections while the hub drains."""

    def __init__(self, app: ASGIApp, readiness: Readiness) -> None:
        self._app, self._readiness = app, readiness

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 0
        made = tracing.arrived(Headers(scope=scope), lambda: secrets.token_hex(16))
        surface, operation = _place(scope["path"])

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                metrics.REQUEST_SECONDS.observe(time.monotonic() - began, surface)
                headers = MutableHeaders(scope=message)
                headers.setdefault("x-request-id", made.id)
                if self._readiness.is_draining:
                    headers["connection"] = "close"
            await send(message)

        with tracing.during(made):
            try:
                with _span(surface, operation) as span:
                    await self._app({**scope, tracing.REQUEST: made}, receive, answer)
                    if span:
                        span.set_attribute("http.response.status_code", status)
            finally:
                operation = made.facts.pop("operation", operation)
                metrics.REQUESTS.add(surface, operation, str(status or GONE))
                if surface != PROBE:
                    self._readiness.is_suspect |= status == 503
                    took = round((time.monotonic() - began) * 1_000, 1)
                    facts = {"surface": surface, "operation": operation, "status": status or GONE, "ms": took}
                    requests_log.info("request", extra={**facts, **made.facts})


def _span(surface: str, operation: str) -> AbstractContextManager[tracing.Span | None]:
    if surface == PROBE:
        return nullcontext()
    return tracing.span("request", surface=surface, operation=operation)


def _place(path: str) -> tuple[str, str]:
    """The surface and the operation of a path, from fixed lists: clients cannot add labels."""
    parts = [*path.split("/")[1:5], "", "", ""]
    if parts[0] in PROBES:
        return PROBE, parts[0]
    surface = SURFACES.get(parts[0], "other")
    if surface == "v1":
        return surface, parts[2] if parts[2] in SERVED else "other"
    if surface == "git":
        return surface, {"info": "refs"}.get(parts[2], parts[2]) if parts[2] in (*GIT, "info") else "other"
    return surface, ""


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
