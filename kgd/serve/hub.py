"""The parts of a hub: API, git, MCP, pages, and their server."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.routing import Route

from kgd.daemon.daemon import Daemon
from kgd.daemon.request_bodies import Bodies
from kgd.hub import problem
from kgd.hub.app import DRAIN_SECONDS, STOP_SECONDS, HubServer, application
from kgd.hub.authentication import Gate
from kgd.hub.listen import Listen
from kgd.hub.operating import Operating, Readiness
from kgd.hub.push_execution import Receiving
from kgd.hub.sign_in import SignInApi
from kgd.hub.smart_http import SmartHttp
from kgd.hub.v1 import Api
from kgd.ui.live_updates import Live
from kgd.ui.server import Place, Ui, start_page
from kgd.ui.visit import ROOT

if TYPE_CHECKING:
    import socket

    from starlette.types import Receive, Scope, Send

    from kgd.daemon.sign_in import SignIns
    from kgd.mcp.http import HubHttp
    from kgd.mcp.server import Surface
    from kgd.oidc import Configuration
    from kgd.serve.parts import BrowserAccess

LAST_SECONDS = 1.8
"""Seconds for the server's own steps, after the time for running requests has passed."""

log = logging.getLogger("kgd.serve")


class LazyMcp:
    """`/mcp` as an ASGI application; `running` is its lifespan.

    The first request loads the MCP SDK. Importing it takes half a second of CPU, and many clients use only git
    or `/v1`.
    """

    def __init__(self, load: Callable[[], Awaitable[HubHttp]]) -> None:
        self._load = load
        self._requested = asyncio.Event()
        self._http: asyncio.Future[HubHttp] = asyncio.get_running_loop().create_future()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._requested.set()
        http = await asyncio.shield(self._http)
        await http(scope, receive, send)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        serving = asyncio.create_task(self._serve())
        try:
            yield
        finally:
            serving.cancel()
            await asyncio.wait([serving])

    async def _serve(self) -> None:
        """Run the sessions in one task, as their task group requires."""
        await self._requested.wait()
        try:
            http = await self._load()
        except Exception as error:
            self._http.set_exception(error)
            raise
        async with http.running():
            self._http.set_result(http)
            await asyncio.Event().wait()

    def close(self) -> None:
        """End open streams."""
        if self._http.done() and not self._http.exception():
            self._http.result().close()


class Hub:
    """The hub of one daemon, from its listening socket to its last answer."""

    def __init__(
        self,
        daemon: Daemon,
        listen: Listen,
        listening: socket.socket,
        browsers: BrowserAccess,
        oidc: Configuration | None = None,
    ) -> None:
        self._daemon, self._listen, self._listening, self._browsers = daemon, listen, listening, browsers
        self._server: HubServer | None = None
        self._serving: asyncio.Task[None] | None = None
        self._sign_ins = _sign_ins(daemon, listen, oidc) if oidc else None
        self._gate = gate = Gate(daemon, listen, *([self._sign_ins.keep_alive] if self._sign_ins else []))
        home = daemon.home
        self._readiness = Readiness(daemon)
        self._operating = Operating(daemon, gate, self._readiness)
        self._bodies = Bodies()
        self._api = Api(daemon, gate.caller, invite=browsers.path_for, bodies=self._bodies)
        self._receiving = Receiving(daemon, gate, Path(os.path.dirname(home.socket)) / "hub.sock")
        self._git = SmartHttp(daemon, gate, self._receiving, Path(home.state) / "hub-hooks")

    async def start(self, surface: Callable[[], Awaitable[Surface]]) -> None:
        """Start answering requests, and publish the hub's URL in the daemon. `surface` loads the MCP SDK."""
        self._git.write_hooks()
        await self._receiving.start()

        async def load() -> HubHttp:
            loaded = await surface()
            from kgd.mcp.http import HubHttp

            return HubHttp(loaded, self._gate, self._bodies, problem)

        mcp = LazyMcp(load)
        live = Live(self._daemon.position)
        self._daemon.on_commit(live.announce)
        self._daemon.on_code(live.announce)
        self._daemon.open_workspaces.follow(live.workspaces)
        signing_in = SignInApi(self._sign_ins, self._bodies, self._daemon.tokens.now) if self._sign_ins else None
        app = application(
            self._listen,
            self._api,
            self._operating,
            git=self._git,
            mcp=mcp,
            running=mcp.running,
            pages=self._pages(live),
            sign_in=signing_in.routes() if signing_in else (),
        )

        def closing() -> None:
            if not self._readiness.is_draining:
                self._git.close()
            live.close()
            mcp.close()

        self._server = HubServer(app, self._listen, self._listening, closing)
        self._daemon.listening = self._listen.url(self._server.port)
        self._serving = asyncio.create_task(self._server.run_here())
        self._serving.add_done_callback(self._ended)
        self._browsers.serve_at(self._listen.browser_url(self._server.port), live)
        log.info("serving as a hub", extra={"url": self._daemon.listening})

    def _pages(self, live: Live) -> list[Route]:
        """The routes of the web pages."""
        listen, port = self._listen, int(self._listening.getsockname()[1])
        place = Place(
            takes_host=listen.takes_host,
            takes_origin=listen.is_own_page,
            is_secure=listen.is_encrypted,
            cookie="__Host-kgd" if listen.is_encrypted else f"kgd-{port}",
            path="/" if listen.is_encrypted else ROOT,  # the prefix __Host- requires the path /
        )
        ui = Ui(self._daemon, self._browsers.sessions, live, place, self._gate, self._bodies, self._sign_ins)
        return [Route("/", ui.guarded(start_page), methods=["GET"]), *ui.routes()]

    def _ended(self, serving: asyncio.Task[None]) -> None:
        """After an unexpected end, stop the daemon as well, so that a service manager restarts both."""
        if self._daemon.listening:
            log.critical("the hub ended unexpectedly", exc_info=None if serving.cancelled() else serving.exception())
            os.kill(os.getpid(), signal.SIGTERM)

    async def drain(self) -> None:
        """Report 503 at `/ready` and continue to serve for the configured seconds, so that a load balancer notices."""
        if self._listen.drain:
            self._readiness.is_draining = True
            log.info("draining", extra={"seconds": self._listen.drain})
            await asyncio.sleep(self._listen.drain)

    async def close(self) -> None:
        """Answer the requests that were already read, for a bounded time, and release the port."""
        self._daemon.listening = ""
        if self._server and self._serving:
            seconds = DRAIN_SECONDS if self._readiness.is_draining else STOP_SECONDS
            self._server.stop(seconds)
            await asyncio.wait([self._serving], timeout=seconds + LAST_SECONDS)
        self._git.close()
        self._receiving.close()
        self._listening.close()


def _sign_ins(daemon: Daemon, listen: Listen, oidc: Configuration) -> SignIns:
    """Sign-in with accounts. Imported here because only a hub with `--oidc` needs PyJWT."""
    from kgd.daemon.sign_in import SignIns, grants_of

    return SignIns(oidc, daemon.tokens, lambda: grants_of(daemon, listen.workspaces))
