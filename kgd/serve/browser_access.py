"""Sign-in links for browsers, and the start of the page server on demand."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.errors import KgdError, Unavailable
from kgd.model.token import Browser
from kgd.ui.sessions import Sessions, Visitor
from kgd.ui.visit import ROOT, address

if TYPE_CHECKING:
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
