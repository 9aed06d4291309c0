"""The HTTP server for this machine: web pages for browsers and `/v1` for programs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kgd.config import Home
from kgd.config.credentials import token_of
from kgd.daemon import process
from kgd.daemon.daemon import Daemon
from kgd.errors import Invalid, NotFound, Unavailable
from kgd.hub import problem
from kgd.hub.app import HostCheck, tool_routes
from kgd.hub.authentication import of_home
from kgd.hub.connections import HEADER_LIMIT, Connection
from kgd.hub.listen import Listen
from kgd.hub.openapi import own_document
from kgd.hub.v1 import Api
from kgd.tools import EVERY
from kgd.ui.live_updates import Live
from kgd.ui.server import Place, Ui, start_page
from kgd.ui.sessions import Sessions
from kgd.ui.visit import ROOT

LOOPBACK = "127.0.0.1"
BACKLOG = 128
CONNECTIONS_LIMIT = 1_000
STOP_SECONDS = 1
FREE_PORTS, TRIED = range(20_000, 32_000), 8
"""Ports below the range of outgoing connections: such a connection could take a port while the daemon is replaced."""

log = logging.getLogger("kgd.serve")


class PagesServer:
    """A server of pages on loopback. It keeps its port across restarts if possible.

    Call `listen` in any thread, then `serve` on the daemon's loop.

    Args:
        served: Called with the URL when the server answers.
        ended: Called when the server has ended.
    """

    def __init__(
        self,
        daemon: Daemon,
        home: Home,
        sessions: Sessions,
        served: Callable[[str, Live], None],
        ended: Callable[[], None],
    ) -> None:
        self._daemon, self._sessions, self._served, self._on_end = daemon, sessions, served, ended
        self._token = token_of(Path(home.state) / "http.token")
        self._port_file = Path(home.state) / "ui.port"
        self._listening: socket.socket | None = None
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None

    def listen(self) -> None:
        """Take the port in the settings; otherwise the last port, a free port of `FREE_PORTS`, or any free port.

        Raises:
            Unavailable: The port in the settings is in use, or no port is free.
        """
        if named := self._daemon.registry.current().settings.ui_port:
            self._listening = _listen((named,))
        else:
            last = [self._last_port()] if self._last_port() else []
            self._listening = _listen((*last, *random.sample(FREE_PORTS, TRIED), 0))
        port = int(self._listening.getsockname()[1])
        if self._last_port() not in (0, port):
            log.warning("the pages have moved to another port", extra={"port": port, "before": self._last_port()})
        with contextlib.suppress(OSError):
            self._port_file.write_text(f"{port}\n")

    async def serve(self) -> None:
        """Start answering requests."""
        assert self._listening is not None
        port = int(self._listening.getsockname()[1])
        live = Live()
        self._daemon.on_commit(live.announce)
        self._daemon.on_code(live.announce)
        self._daemon.open_workspaces.follow(live.workspaces)
        app = self._application(port, live)
        self._server = _Server(app, live)
        self._serving = asyncio.create_task(self._server.serve(sockets=[self._listening]))
        self._serving.add_done_callback(self._ended)
        self._served(f"http://{LOOPBACK}:{port}", live)
        log.info("serving pages", extra={"port": port})

    async def close(self) -> None:
        """End open streams and release the port."""
        if self._server and self._serving:
            self._server.stop()
            await asyncio.wait([self._serving], timeout=STOP_SECONDS + 2)

    def _application(self, port: int, live: Live) -> Starlette:
        own = f"http://{LOOPBACK}:{port}"
        names = {f"{name}:{port}" for name in (LOOPBACK, "localhost")}
        place = Place(
            takes_host=names.__contains__,
            takes_origin=lambda origin, host: origin == f"http://{host}",
            is_secure=False,
            cookie=f"kgd-{port}",  # cookies ignore ports, so homes on one machine need different names
            path=ROOT,
        )
        ui = Ui(self._daemon, self._sessions, live, place)
        api = Api(self._daemon, of_home(self._daemon, self._token), described=lambda: own_document(EVERY))

        async def other_method(request: Request, error: Exception) -> Response:
            if not request.url.path.startswith("/v1/"):
                return await ui.other_method(request, error)
            return problem(Invalid("this URL needs another method", next="See /v1/openapi.json."), status=405)

        async def nothing(request: Request, error: Exception) -> Response:
            return problem(NotFound("there is nothing here", next=f"The pages are at {own}{ROOT}/."))

        made = Starlette(
            routes=[Route("/", start_page, methods=["GET"]), *ui.routes(), *tool_routes(api)],
            middleware=[Middleware(HostCheck, listen=Listen(LOOPBACK, port))],
            exception_handlers={404: nothing, 405: other_method},
        )
        made.router.redirect_slashes = False
        return made

    def _ended(self, serving: asyncio.Task[None]) -> None:
        """Log an unexpected end; the next request for a link starts the server again."""
        if self._server and not self._server.should_exit:
            log.error("the pages ended unexpectedly", exc_info=None if serving.cancelled() else serving.exception())
        self._on_end()

    def _last_port(self) -> int:
        with contextlib.suppress(OSError, ValueError):
            port = int(self._port_file.read_text())
            return port if 0 < port < 1 << 16 else 0
        return 0


class _Server(uvicorn.Server):
    def __init__(self, app: Starlette, live: Live) -> None:
        self._live = live
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                lifespan="off",
                timeout_graceful_shutdown=STOP_SECONDS,
                http=Connection,
                limit_concurrency=min(CONNECTIONS_LIMIT, process.for_clients() // 2),
                h11_max_incomplete_event_size=HEADER_LIMIT,
            )
        )

    def stop(self) -> None:
        self._live.close()
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[Any]:
        """Leave signals to the daemon, which stops this server."""
        yield


def _listen(ports: tuple[int, ...]) -> socket.socket:
    """A listening socket on the first free port. Raises Unavailable if none is free."""
    for port in ports:
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((LOOPBACK, port))
            listening.listen(BACKLOG)
        except (OSError, OverflowError) as error:
            listening.close()
            reason = os.strerror(getattr(error, "errno", 0) or 0)
            continue
        return listening
    raise Unavailable(
        f"the port {ports[0]} of the pages cannot be used: {reason}",
        next="Change or remove `ui_port` in workspaces.yaml.",
    )
