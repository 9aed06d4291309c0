"""The project of a host that starts servers elsewhere, by the roots that its client offers.

Only for connections of this machine in the handshake era, in which a server may ask. The directory that the host chose
wins while it is in a workspace; else the first root that is in one takes its place.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import anyio
import anyio.to_thread
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import ListRootsRequest, ListRootsResult, NotificationParams
from pydantic import ValidationError

from kgd.tools import addressing
from kgd.tools.session import Session

ANSWER_SECONDS = 5.0
"""How long a client may take to name its roots, before the call goes on without."""
MOST = 20


@dataclass(slots=True)
class _Known:
    """One connection: the directory it was started in, and the roots of its client while these hold."""

    started: Path | None
    roots: asyncio.Task[list[Path]] | None = None


class Roots:
    """Moves sessions into workspaces. Lives on the event loop."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}

    async def place(self, ctx: ServerRequestContext[Session], session: Session) -> None:
        """Set the session's directory to the first root in a workspace, where its own is in none.

        A client is asked once, and again after it said that its roots changed.
        """
        capabilities = ctx.session.client_capabilities
        if session.here is not None or ctx.request is not None or not ctx.session.can_send_request:
            return
        if capabilities is None or capabilities.roots is None:
            return
        if await anyio.to_thread.run_sync(addressing.here, session):
            return
        known = self._known.setdefault(id(session), _Known(session.cwd))
        if known.roots is None:
            known.roots = asyncio.create_task(_asked(ctx))
        roots = await asyncio.shield(known.roots)
        await anyio.to_thread.run_sync(_move, session, roots)

    async def changed(self, ctx: ServerRequestContext[Session], params: NotificationParams) -> None:
        """`notifications/roots/list_changed`: the next call asks again."""
        session = ctx.lifespan_context
        if known := self._known.pop(id(session), None):
            session.cwd, session.here = known.started, None

    def forget(self, session: Session) -> None:
        """To be called when the session's connection ends."""
        if (known := self._known.pop(id(session), None)) and known.roots:
            known.roots.cancel()


async def _asked(ctx: ServerRequestContext[Any]) -> list[Path]:
    with anyio.move_on_after(ANSWER_SECONDS):
        try:
            found = await ctx.session.send_request(ListRootsRequest(), ListRootsResult)
        except (MCPError, ValidationError):
            return []
        return [_path(str(root.uri)) for root in found.roots[:MOST]]
    return []


def _move(session: Session, roots: list[Path]) -> None:
    for root in roots:
        there = replace(session, cwd=root, here=None)
        if workspace := addressing.here(there):
            session.cwd, session.here = root, workspace
            return


def _path(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))
