"""This file is where the pages are served to the browsers of this machine, once somebody asked to see them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette

from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.errors import Unavailable
from kgd.ui.asked import ROOT
from kgd.ui.live import Live
from kgd.ui.server import Place, Ui
from kgd.ui.sessions import Sessions, Visitor

LOOPBACK = "127.0.0.1"
START_SECONDS = 10.0
BACKLOG = 128

log = logging.getLogger("kgd.serve")


class Pages:
    """A server of pages on loopback. Its port stays the same from one start to the next where it can.

    Args:
        loop: The daemon's, on which the server runs.
    """

    def __init__(self, daemon: Daemon, home: Home, sessions: Sessions, loop: asyncio.AbstractEventLoop) -> None:
        self._daemon, self._sessions, self._loop = daemon, sessions, loop
        self._port_file = Path(home.state) / "ui.port"
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self._serving: asyncio.Task[None] | None = None

    def link(self) -> str:
        """An address that lets one browser in, once. Starts the server where it does not run; may block for a moment.

        Raises:
            Unavailable: No port can be had.
        """
        with self._lock:
            port = self._server.port if self._server else self._start()
        return f"http://{LOOPBACK}:{port}{ROOT}/in/{self._sessions.invite(Visitor())}"

    def start_again(self) -> None:
        """Serve those who have a page open already. Blocks for a moment."""
        if self._sessions.some:
            with self._lock, contextlib.suppress(Unavailable):
                if not self._server:
                    self._start()

    async def close(self) -> None:
        """Let go of the port; open streams end first."""
        if self._server and self._serving:
            self._server.stop()
            await asyncio.wait([self._serving], timeout=3)

    def _start(self) -> int:
        listening = _listen(self._wanted())
        started = asyncio.run_coroutine_threadsafe(self._serve(listening), self._loop)
        started.result(START_SECONDS)
        port = int(listening.getsockname()[1])
        self._port_file.write_text(f"{port}\n")
        log.info("serving pages", extra={"port": port})
        return port

    async def _serve(self, listening: socket.socket) -> None:
        port = int(listening.getsockname()[1])
        live = Live()
        self._daemon.on_commit(lambda workspace, uris: live.announce(workspace))
        names = {f"{name}:{port}" for name in (LOOPBACK, "localhost")}
        # Cookies know no ports: two homes of one machine keep theirs apart by name.
        place = Place(takes_host=names.__contains__, is_secure=False, cookie=f"kgd-{port}")
        app = Starlette(routes=Ui(self._daemon, self._sessions, live, place).routes())
        self._server = _Server(app, listening, live)
        self._serving = asyncio.create_task(self._server.serve(sockets=[listening]))

    def _wanted(self) -> int:
        with contextlib.suppress(OSError, ValueError):
            return int(self._port_file.read_text())
        return 0


class _Server(uvicorn.Server):
    def __init__(self, app: Starlette, listening: socket.socket, live: Live) -> None:
        self._listening, self._live = listening, live
        super().__init__(
            uvicorn.Config(
                app, log_config=None, access_log=False, server_header=False, proxy_headers=False, lifespan="off",
                timeout_graceful_shutdown=1,
            )
        )  # fmt: skip

    @property
    def port(self) -> int:
        return int(self._listening.getsockname()[1])

    def stop(self) -> None:
        self._live.close()
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[Any]:
        """Signals belong to the daemon, which stops this server among others."""
        yield


def _listen(wanted: int) -> socket.socket:
    for port in dict.fromkeys((wanted, 0)):
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((LOOPBACK, port))
            listening.listen(BACKLOG)
        except OSError as error:
            listening.close()
            reason = os.strerror(error.errno or 0)
            continue
        return listening
    raise Unavailable(f"no port can be had for the pages: {reason}", next="`kgd doctor` says how this machine is.")
