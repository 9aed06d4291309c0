"""The project of a host that starts its servers in another directory, from the client's roots.

Only for local connections. The server's directory is used if it is in a workspace, otherwise the first root that is in
a workspace. In the handshake era, the call waits for the roots. In the modern protocol, the call ends with a question
for the roots, and the client calls again with the answer.
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
from mcp.types import CallToolRequestParams, ListRootsRequest, ListRootsResult, NotificationParams
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from kgd.mcp.sampling import ROOTS, AnswersNeeded, asked_before
from kgd.tools import addressing
from kgd.tools.session import Session

ANSWER_SECONDS = 5.0
"""Seconds for a client to name its roots; then the call continues without them."""
MOST = 20


@dataclass(slots=True)
class _Known:
    """The start directory and the current roots of one connection."""

    started: Path | None
    roots: asyncio.Future[list[Path]] | None = None


class Roots:
    """Moves sessions into workspaces. Lives on the event loop."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}

    async def place(self, ctx: ServerRequestContext[Session], params: CallToolRequestParams, session: Session) -> None:
        """Set the session's directory to the first root in a workspace, if its own directory is not in one.

        A client is asked once; in the handshake era, it is asked again after its roots change.

        Raises:
            AnswersNeeded: The client must call again with its roots.
        """
        capabilities = ctx.session.client_capabilities
        if session.here is not None or ctx.request is not None:
            return
        if capabilities is None or capabilities.roots is None:
            return
        if await anyio.to_thread.run_sync(addressing.here, session):
            return
        known = self._known.setdefault(id(session), _Known(session.cwd))
        if known.roots is None and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            if (params.arguments or {}).get("workspace"):
                return
            if ROOTS not in asked_before(params):
                raise AnswersNeeded({ROOTS: ListRootsRequest()})
            known.roots = asyncio.get_running_loop().create_future()
            known.roots.set_result(_folders((params.input_responses or {}).get(ROOTS)))
        elif known.roots is None:
            if not ctx.session.can_send_request:
                return
            known.roots = asyncio.create_task(_asked(ctx))
        roots = await asyncio.shield(known.roots)
        await anyio.to_thread.run_sync(_move, session, roots)

    async def changed(self, ctx: ServerRequestContext[Session], params: NotificationParams) -> None:
        """`notifications/roots/list_changed`: the next call asks again."""
        session = ctx.lifespan_context
        if known := self._known.pop(id(session), None):
            session.cwd, session.here = known.started, None

    def forget(self, session: Session) -> None:
        """Forget a session; call this when its connection ends."""
        if (known := self._known.pop(id(session), None)) and known.roots:
            known.roots.cancel()


async def _asked(ctx: ServerRequestContext[Any]) -> list[Path]:
    with anyio.move_on_after(ANSWER_SECONDS):
        try:
            found = await ctx.session.send_request(ListRootsRequest(), ListRootsResult)
        except (MCPError, ValidationError):
            return []
        return _folders(found)
    return []


def _folders(found: object) -> list[Path]:
    """The folders in an answer; empty if it answers a different question."""
    return [_path(str(root.uri)) for root in found.roots[:MOST]] if isinstance(found, ListRootsResult) else []


def _move(session: Session, roots: list[Path]) -> None:
    for root in roots:
        there = replace(session, cwd=root, found=None)
        if workspace := addressing.here(there):
            session.cwd, session.here = root, workspace
            return


def _path(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))
