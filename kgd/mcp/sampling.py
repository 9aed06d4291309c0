"""Questions that a call asks its client, in both protocol eras: to its model (MCP sampling), and for its roots.

In the modern protocol the call ends with the questions, and the client calls again with the answers and a sealed state.
In the older protocol, the questions are sent while the call waits. In both protocols, the tool calls `Ask` on its
worker thread. The server keeps no state between two rounds.

Roots serve hosts that start their servers outside the project, on local connections only. The server's directory is
used if it is in a workspace, otherwise the first root that is in a workspace.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import anyio
import anyio.to_thread
import orjson
from anyio.abc import TaskGroup
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp.types import (
    CallToolRequestParams,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ListRootsRequest,
    ListRootsResult,
    NotificationParams,
    SamplingMessage,
    TextContent,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from kgd.errors import Unavailable
from kgd.resolution import Ask, Prompt, Reply
from kgd.tools import addressing
from kgd.tools.session import Session

KEY_LENGTH = 32
ROOTS = "roots"
"""The id of the question for roots; questions to a model have the ids of conflicts."""
STATE_SECONDS = 3600.0
"""Seconds that a client has between two rounds; its user may have to allow each question."""

ROOTS_SECONDS = 5.0
"""Seconds for a client to name its roots; then the call continues without them."""
MOST_ROOTS = 20


class AnswersNeeded(Exception):
    """Ends a call by asking questions (modern protocol); nothing has been written. The client calls again with
    answers."""

    def __init__(self, requests: Mapping[str, CreateMessageRequest | ListRootsRequest]) -> None:
        super().__init__()
        self.requests = requests

    def result(self) -> dict[str, Any]:
        """The answer to the client, before its state is sealed. Equal questions give an equal state."""
        requests = {
            id: request.model_dump(by_alias=True, mode="json", exclude_none=True)
            for id, request in self.requests.items()
        }
        state = orjson.dumps({"asked": sorted(self.requests)}).decode()
        return {"resultType": "input_required", "inputRequests": requests, "requestState": state}


def asked_before(params: CallToolRequestParams) -> set[str]:
    """The ids of the questions of an earlier round."""
    return set(orjson.loads(params.request_state)["asked"]) if params.request_state else set()


def sealing(key: bytes, audience: str) -> RequestStateBoundary:
    """The middleware that seals the clients' state between rounds, and refuses states that it did not seal."""
    return RequestStateBoundary(RequestStateSecurity(keys=[key], ttl=STATE_SECONDS), default_audience=audience)


def stored_key(path: Path) -> bytes:
    """The key in a file, so that a round of questions survives a restart. The file is created on first use, and is
    readable only by its owner."""
    with contextlib.suppress(OSError):
        if not path.stat().st_mode & 0o077 and len(found := path.read_bytes()) == KEY_LENGTH:
            return found
        path.unlink()  # the key is readable by others, or damaged by a crash: make a new one, and ask open rounds again
    made = os.urandom(KEY_LENGTH)
    with contextlib.suppress(OSError):  # the disk cannot be written, so no round outlives this process
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(made)
    return made


@asynccontextmanager
async def asker(
    ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams, patience: Callable[[], float]
) -> AsyncIterator[Ask | None]:
    """The function with which this call's tools ask the model that its client offers; None if it cannot be asked.

    Args:
        patience: Returns the seconds that a client of the older protocol has for its answers.
    """
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        yield _RoundsAsk(params)
    elif not ctx.session.can_send_request:
        yield None
    else:
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            try:
                yield _LiveAsk(ctx, tasks, asyncio.get_running_loop(), patience())
            except Exception as error:  # noqa: BLE001 - raised below, since the group would wrap it
                failure = error
        if failure is not None:
            raise failure


class _RoundsAsk:
    """Questions end the call; the next call has the answers. Models are asked in a single round; conflicts that are
    still open after this round stay open.
    """

    def __init__(self, params: CallToolRequestParams) -> None:
        asked = asked_before(params) - {ROOTS}
        given = params.input_responses or {}
        self.open = not asked
        self._replies = {id: _reply(given[id]) for id in asked & set(given)}

    @property
    def answered(self) -> Collection[str]:
        return self._replies.keys()

    def __call__(self, prompts: Mapping[str, Prompt], /) -> Mapping[str, Reply]:
        if self.open:
            raise AnswersNeeded({id: _request(prompt) for id, prompt in prompts.items()})
        return {id: reply for id, reply in self._replies.items() if id in prompts}


@dataclass(frozen=True, slots=True)
class _LiveAsk:
    """Questions are sent while the call waits, all at once, on the call's own stream."""

    ctx: ServerRequestContext[Any, Any]
    tasks: TaskGroup
    loop: asyncio.AbstractEventLoop
    patience: float

    @property
    def open(self) -> bool:
        return True

    @property
    def answered(self) -> Collection[str]:
        return ()

    def __call__(self, prompts: Mapping[str, Prompt], /) -> Mapping[str, Reply]:
        # The task belongs to the call, not to this thread, so that it ends when the client cancels the call.
        done: Future[dict[str, Reply]] = Future()
        self.loop.call_soon_threadsafe(self.tasks.start_soon, self._ask_all, prompts, done)
        return done.result()

    async def _ask_all(self, prompts: Mapping[str, Prompt], done: Future[dict[str, Reply]]) -> None:
        late = Reply(problem=f"the client did not answer within {self.patience:g} seconds")
        replies = dict.fromkeys(prompts, late)
        try:
            with anyio.move_on_after(self.patience):
                async with anyio.create_task_group() as each:
                    for id, prompt in prompts.items():
                        each.start_soon(self._ask_one, id, prompt, replies)
            done.set_result(replies)
        finally:
            if not done.done():
                done.set_exception(Unavailable("the client no longer waits for this; nothing was written"))

    async def _ask_one(self, id: str, prompt: Prompt, replies: dict[str, Reply]) -> None:
        related = ServerMessageMetadata(related_request_id=self.ctx.request_id)
        try:
            # Some clients answer with a list of parts, which the plain result type does not know.
            found = await self.ctx.session.send_request(
                _request(prompt), CreateMessageResultWithTools, metadata=related
            )
        except MCPError as error:
            replies[id] = Reply(problem=f"the client refused: {error.error.message[:100]}")
        except ValidationError:
            replies[id] = Reply(problem="the client's answer is invalid")
        else:
            replies[id] = _reply(found)


def _request(prompt: Prompt) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt.user))
    return CreateMessageRequest(
        params=CreateMessageRequestParams(messages=[message], system_prompt=prompt.system, max_tokens=prompt.max_tokens)
    )


def _reply(found: Any) -> Reply:
    """The text of an answer; None unless it is complete and only text."""
    if not isinstance(found, CreateMessageResult | CreateMessageResultWithTools):
        return Reply(problem="the client's answer is for another question")
    blocks = found.content if isinstance(found.content, list) else [found.content]
    model = found.model
    if found.stop_reason == "maxTokens":
        return Reply(model=model, problem="the answer was cut at the token limit")
    if not blocks or not all(isinstance(block, TextContent) for block in blocks):
        return Reply(model=model, problem="the answer is not text")
    return Reply("".join(block.text for block in blocks if isinstance(block, TextContent)), model)


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

        A client that offers roots is asked once; in the handshake era, it is asked again after its roots change.

        Raises:
            AnswersNeeded: The client must call again with its roots.
        """
        if await anyio.to_thread.run_sync(addressing.own_workspace, session):
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
    with anyio.move_on_after(ROOTS_SECONDS):
        try:
            found = await ctx.session.send_request(ListRootsRequest(), ListRootsResult)
        except (MCPError, ValidationError):
            return []
        return _folders(found)
    return []


def _folders(found: object) -> list[Path]:
    """The folders in an answer; empty if it answers a different question."""
    uris = [str(root.uri) for root in found.roots[:MOST_ROOTS]] if isinstance(found, ListRootsResult) else []
    return [Path(unquote(urlsplit(uri).path)) for uri in uris]


def _move(session: Session, roots: list[Path]) -> None:
    for root in roots:
        there = replace(session, cwd=root, found=None)
        if workspace := addressing.own_workspace(there):
            session.cwd, session.here = root, workspace
            return
