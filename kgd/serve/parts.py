"""The parts of a daemon: open workspaces, tools, MCP over the socket and over HTTP, pages and their links, and hub."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from kgd.client import first_answers
from kgd.client.first_answers import FirstAnswers, normal
from kgd.config import Home
from kgd.config.registry import RegistryFile
from kgd.daemon.calls import Call, LineReader, LineWriter, Peer
from kgd.daemon.daemon import Daemon
from kgd.errors import KgdError, NotFound, Unavailable
from kgd.git.layout import locate
from kgd.mcp.short_reads import ShortReads
from kgd.model.browser_state import Browser
from kgd.tools import EVERY, chosen
from kgd.tools.operation import Operation
from kgd.tools.session import Session
from kgd.ui.sessions import Sessions, Visitor
from kgd.ui.visit import ROOT, address
from kgd.workspace.workspace import Workspace

if TYPE_CHECKING:
    import socket

    from kgd.daemon.shared_state import SharedState
    from kgd.hub.listen import Listen
    from kgd.mcp.http import HttpServer
    from kgd.mcp.server import Remember, Surface
    from kgd.oidc import Configuration
    from kgd.serve.hub import Hub
    from kgd.serve.pages import PagesServer
    from kgd.ui.live_updates import Live

START_SECONDS = 10.0

log = logging.getLogger("kgd.serve")


class BrowserAccess:
    """The browser sessions of one home, and the server of its pages: a local server or the hub.

    Args:
        loop: The daemon's event loop, on which the pages are served.
        is_hub: Whether the hub serves the pages; it then calls `serve_at`.
    """

    def __init__(self, daemon: Daemon, home: Home, loop: asyncio.AbstractEventLoop, *, is_hub: bool) -> None:
        self._daemon, self._home, self._loop, self._is_hub = daemon, home, loop, is_hub
        shared = daemon.shared.browser_state() if daemon.shared else None
        self.sessions = Sessions(Path(home.state) / "ui-sessions.json", time.time, shared)
        self._lock = threading.Lock()
        self._server: PagesServer | None = None
        self._url = ""
        self._live: Live | None = None
        self._is_served = threading.Event()

    @property
    def url(self) -> str:
        return f"{self._url}{ROOT}/" if self._url else ""

    def serve_at(self, url: str, live: Live) -> None:
        """Record that the pages are served at this URL."""
        self._url, self._live = url, live
        self._is_served.set()

    def stop_serving(self) -> None:
        """Record that the pages are no longer served."""
        self._url, self._live, self._server = "", None, None
        self._is_served.clear()

    def link(self, workspace: str = "") -> str:
        self._serve()
        return f"{self._url}{self.path_for('', workspace)}"

    def path_for(self, token: str, workspace: str) -> str:
        """The path of a single-use sign-in link: for the holder of a token or, without a token, for the local user."""
        to = address(workspace, "overview") if workspace else ""
        return f"{ROOT}/in/{self.sessions.invite(Visitor(token), to)}"

    def browsers(self) -> list[Browser]:
        return self.sessions.browsers()

    def end(self, id: str | None = None) -> int:
        ended = self.sessions.end(id)
        if self._live:
            self._live.look()
        return ended

    def start(self) -> None:
        """Serve the pages if browsers are signed in or the settings name a port. Blocks for a moment."""
        if not self._is_hub and (self._daemon.registry.current().settings.ui_port or self.sessions.some):
            try:
                self._serve()
            except KgdError as error:
                log.warning("no pages are served", extra={"reason": str(error)[:300]})

    async def close(self) -> None:
        """End open streams and release the port."""
        if self._server:
            await self._server.close()

    def _serve(self) -> None:
        """Start the page server if necessary. Raises Unavailable."""
        if self._is_hub:
            if not self._is_served.wait(START_SECONDS):
                raise Unavailable("the hub is still starting", next="Ask again in a moment.")
            return
        from kgd.serve.pages import PagesServer

        with self._lock:
            if not self._is_served.is_set():
                server = PagesServer(self._daemon, self._home, self.sessions, self.serve_at, self.stop_serving)
                server.listen()
                started = asyncio.run_coroutine_threadsafe(server.serve(), self._loop)
                try:
                    started.result(START_SECONDS)
                except TimeoutError:
                    raise Unavailable("the pages are still starting", next="Ask again in a moment.") from None
                self._server = server


WARM_SECONDS = 60.0
"""Seconds before a daemon loads the MCP SDK, unless a client needs it earlier. A daemon that answers a few commands,
or a hub that restarts, does not need it."""

READERS = 64
"""Largest number of concurrent short reads that wait for the disk, or for a workspace that is being opened."""


class Parts:
    """The services behind the endpoint of one daemon; with a listening socket it is also a hub."""

    def __init__(
        self,
        home: Home,
        since: str,
        listen: tuple[Listen, socket.socket] | None = None,
        shared: SharedState | None = None,
        oidc: Configuration | None = None,
    ) -> None:
        self.daemon = Daemon(home, since=since, locate=locate, open_workspace=Workspace.open, shared=shared)
        self._home = home
        self._surfaces: dict[str, asyncio.Task[Surface]] = {}
        """Servers by toolsets, since clients may choose other toolsets than the settings do."""
        self._first_answers = Recorder(home, self.daemon.registry)
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="kgd-read")
        self._http: tuple[HttpServer, asyncio.Task[None]] | None = None
        self._starting: asyncio.Task[None] | None = None
        self._listen, self._oidc = listen, oidc
        self._browsers: BrowserAccess | None = None
        self._hub: Hub | None = None
        self._starting_hub: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the slow parts in the background.

        Importing the MCP SDK takes more than a second. The import is delayed so that it does not slow down the command
        that started this daemon. If possible, it is finished before the first MCP client needs it.
        """
        asyncio.get_running_loop().call_later(WARM_SECONDS, self._usual_surface)
        self._opening = asyncio.create_task(asyncio.to_thread(self.daemon.open_shared))
        self.daemon.organisation.start()
        loop = asyncio.get_running_loop()
        self._browsers = self.daemon.pages = BrowserAccess(
            self.daemon, self._home, loop, is_hub=self._listen is not None
        )
        self._showing = loop.run_in_executor(None, self._browsers.start)
        if port := self.daemon.registry.current().settings.http_port:
            self._starting = asyncio.create_task(self._start_http(port))
        if self._listen:
            self._starting_hub = asyncio.create_task(self._start_hub(*self._listen))

    def dispatch(self, call: Call, name: str, args: dict[str, Any]) -> dict[str, Any]:
        """Answer one call of the command line, in a worker thread. The call has a conversation only if it names one."""
        tool = EVERY.get(name)
        if tool is None:
            raise NotFound(f"this daemon has no call '{name[:60]}'", next="Stop it with `kgd down` and try again.")

        def progress(done: int, total: int | None, message: str) -> None:
            if call.cancelled.is_set():
                raise Unavailable("the client has disconnected")
            call.progress(done, total, message)

        session = Session(
            self.daemon,
            cwd=Path(call.peer.cwd) if call.peer.cwd else None,
            client=call.peer.client,
            context_id=None,
            progress=progress,
        )
        with self.daemon.counted():
            return dict(tool.call(session, args))

    def check(self, peer: Peer) -> None:
        """Refuse a client that asks for unknown toolsets, before its hello is answered."""
        chosen(peer.tools)

    async def serve_mcp(self, peer: Peer, reader: LineReader, writer: LineWriter) -> None:
        toolsets = peer.tools or self._usual_toolsets()
        session = Session(
            self.daemon,
            cwd=Path(peer.cwd) if peer.cwd else None,
            client=peer.client,
            context_id=peer.context_id,
            by_agent=True,
        )
        reads = ShortReads(session, chosen(toolsets), reader, writer, self._readers)
        surface = await reads.read_ahead(
            partial(self._surface_for, toolsets), partial(self._first_answers.knows, normal(toolsets))
        )
        if surface is not None:
            await surface.serve(reads)

    def _usual_surface(self) -> asyncio.Task[Surface]:
        return self._surface_for(self._usual_toolsets())

    def _usual_toolsets(self) -> str:
        return self.daemon.registry.current().settings.tools

    def _surface_for(self, toolsets: str) -> asyncio.Task[Surface]:
        tools, toolsets = chosen(toolsets), normal(toolsets)
        if toolsets not in self._surfaces:
            remember = partial(self._first_answers.remember, toolsets)
            self._surfaces[toolsets] = asyncio.create_task(asyncio.to_thread(_surface, self.daemon, tools, remember))
        return self._surfaces[toolsets]

    async def drain(self) -> None:
        """Let a load balancer notice that this hub is about to stop."""
        if self._hub:
            await self._hub.drain()

    async def close(self) -> None:
        """Stop HTTP, then close every workspace once running writes and publications have finished."""
        self._first_answers.confirm()
        if self._browsers:
            await self._browsers.close()
        if self._hub:
            await self._hub.close()
        if self._http:
            server, serving = self._http
            server.stop()
            await asyncio.wait([serving], timeout=3)
        await asyncio.to_thread(self.daemon.close)

    async def _start_http(self, port: int) -> None:
        surface = await self._usual_surface()
        from kgd.config.credentials import token_of
        from kgd.mcp.http import HttpServer

        server = HttpServer(surface, token_of(Path(self._home.state) / "http.token"), port)
        self._http = server, asyncio.create_task(server.serve())
        log.info("serving HTTP", extra={"port": port})

    async def _start_hub(self, listen: Listen, listening: socket.socket) -> None:
        try:
            from kgd.serve.hub import Hub

            assert self._browsers is not None
            self._hub = Hub(self.daemon, listen, listening, self._browsers, self._oidc)
            await self._hub.start(self._usual_surface)
        except Exception:
            # The user who started the hub must see the failure.
            log.critical("the hub could not be started", exc_info=True)
            sys.stderr.write("kgd: the hub could not be started; its log has the reason\n")
            os.kill(os.getpid(), signal.SIGTERM)
            return
        sys.stderr.write(f"kgd: serving {self.daemon.listening}\n")
        sys.stderr.flush()


def _surface(daemon: Daemon, tools: Mapping[str, Operation], remember: Remember) -> Surface:
    from kgd.mcp.server import Surface

    return Surface(daemon, tools, remember=remember)


LIMIT = 48
"""Largest number of answers in the file; the oldest are dropped. Each client has its own `initialize`, and each modern
client its own lists.
"""
LENGTH_LIMIT = 2**18
"""Largest number of characters of an answer with its key; a longer answer is not kept."""


class Recorder:
    """Writes the file of `first_answers`. Belongs to the event loop. A failure only makes the next start slower."""

    def __init__(self, home: Home, registry: RegistryFile) -> None:
        self._home, self._registry = home, registry
        self._installation = first_answers.installation()
        """The stamp of the running code: once kgd is upgraded, this daemon no longer writes the file."""
        self._kept: FirstAnswers | None = None

    def remember(self, toolsets: str, version: str, method: str, parameters: Any, result: dict[str, Any]) -> None:
        """Keep an answer for a later client that sends the same request."""
        key = first_answers.key_of(toolsets, version, method, parameters)
        text = orjson.dumps(result).decode()
        if key is None or len(key) + len(text) > LENGTH_LIMIT:
            return
        answers = self._loaded().answers
        if answers.get(key) == text:
            self.confirm()
            return
        answers[key] = text
        while len(answers) > LIMIT:
            del answers[next(iter(answers))]
        self._settings_changed()
        self._write()

    def knows(self, toolsets: str, version: str, method: str, parameters: Any) -> bool:
        """Whether the same request was answered in the past."""
        return first_answers.key_of(toolsets, version, method, parameters) in self._loaded().answers

    def confirm(self) -> None:
        """Update the file to the current registry, so that the next client can use it."""
        if self._settings_changed() and self._loaded().answers:
            self._write()

    def _loaded(self) -> FirstAnswers:
        if self._kept is None:
            self._kept = first_answers.read(self._home, self._installation) or FirstAnswers()
        return self._kept

    def _settings_changed(self) -> bool:
        """Note the toolsets that the registry file chooses, if it can be read."""
        kept, stamp = self._loaded(), first_answers.registry_stamp(self._home)
        usual = first_answers.normal(self._registry.current().settings.tools)
        if self._registry.problem or stamp != first_answers.registry_stamp(self._home):
            return False
        before = kept.registry, kept.usual
        kept.registry, kept.usual = stamp, usual
        return (stamp, usual) != before

    def _write(self) -> None:
        try:
            if first_answers.installation() == self._installation != "":
                first_answers.write(self._home, self._installation, self._loaded())
        except OSError as error:
            log.info("the answers for the next start could not be written", extra={"reason": str(error)[:100]})
