"""The MCP server of kgd's tools, for both protocol eras and all transports.

Arguments are validated once, by the tool's own model, and answers are plain data that is serialised without a model.
The SDK's low-level server is used because its decorators validate twice and silently drop unknown arguments.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import anyio.to_thread
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    EmptyResult,
    ListToolsResult,
    NotificationParams,
    PaginatedRequestParams,
    SetLevelRequestParams,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    ToolAnnotations,
    UnsubscribeRequestParams,
)
from mcp.types import Tool as ToolDescription

from kgd import __version__
from kgd.client.first_answers import METHODS
from kgd.daemon.calls import LineReader, LineWriter
from kgd.daemon.daemon import Daemon
from kgd.errors import KgdError, NotFound, of_defect
from kgd.mcp import prompts, resources, stream
from kgd.mcp.completion import Completing
from kgd.mcp.notifications import Logs
from kgd.mcp.resources import Resources, changed_resources, may_watch
from kgd.mcp.roots import Roots
from kgd.mcp.sampling import AnswersNeeded, asker, sealing
from kgd.mcp.subscriptions import Subscriptions
from kgd.model.token import TokenRecord
from kgd.model.uri import Uri
from kgd.tools import TOOLS
from kgd.tools.hubs import token_calls
from kgd.tools.operation import Operation, as_json, refused
from kgd.tools.parameters import read
from kgd.tools.schemas import OBJECT, brief_schema, output_schema
from kgd.tools.session import Session

NAME = "kgd"
"""Constant, because the clients' state between two calls is sealed for this name."""

THREADS = 256
"""Concurrent blocking calls. A write holds a thread until it is durable; group commit keeps that short."""

SERVER_MEMORY = "server-memory"
"""The toolset that replaces another server: its descriptions equal that server's."""

RECORD = "kgd.record"
"""Key of the token's record in a request's ASGI scope; absent for this machine's own token."""

Remember = Callable[[str, str, Any, dict[str, Any]], None]

log = logging.getLogger("kgd.mcp")


class Surface:
    """The MCP server of one daemon. `server` is the SDK's; it belongs to the event loop of its first use.

    Args:
        patience: Seconds that a client has to answer a question during its call; by default the setting.
        remember: Receives protocol version, method, parameters and result of each answer that is the same for every
            local client (`first_answers.METHODS`).
    """

    def __init__(
        self,
        daemon: Daemon,
        tools: Mapping[str, Operation] = TOOLS,
        *,
        patience: float | None = None,
        remember: Remember | None = None,
    ) -> None:
        self._daemon, self._tools, self._patience = daemon, tools, patience
        ours = any(name in TOOLS for name in tools)  # otherwise it replaces another server and does not mention kgd
        self.subscriptions = Subscriptions()
        self._logs = Logs()
        self._roots = Roots()
        self._threads: anyio.CapacityLimiter | None = None
        self._listed = ListToolsResult(tools=[describe(tool) for tool in tools.values()])
        served = Resources(self._read_session, tools)
        self.server: Server[Session] = Server(
            NAME,
            version=__version__,
            title="kgd: shared memory",
            description="A graph of what this team's agents learned, kept in git",
            instructions=prompts.INSTRUCTIONS if ours else None,
            lifespan=self._lifespan,
            on_list_tools=self._list_tools,
            on_call_tool=cast(Any, self._call_tool),  # returns plain data instead of a model, see `_put_answer_in`
            on_list_resources=served.list,
            on_list_resource_templates=served.templates,
            on_read_resource=served.read,
            on_list_prompts=prompts.listed if ours else None,
            on_get_prompt=prompts.get if ours else None,
            on_subscriptions_listen=self._listen,
            on_completion=Completing(self._read_session),
        )
        self.server.add_request_handler("resources/subscribe", SubscribeRequestParams, self._subscribe)
        self.server.add_request_handler(
            "resources/unsubscribe", UnsubscribeRequestParams, self.subscriptions.unsubscribe
        )
        self.server.add_request_handler("logging/setLevel", SetLevelRequestParams, self._set_level)
        self.server.add_notification_handler(
            "notifications/roots/list_changed", NotificationParams, self._roots.changed
        )
        self.server.extensions |= resources.extensions(tools)
        # Replaces the SDK's tracing spans, which are not exported and took a tenth of a small call.
        self.server.middleware[:] = [_put_answer_in, sealing(Path(daemon.home.state) / "rounds.key", NAME)]
        if remember:
            self.server.middleware.insert(0, _reporting(remember))
        daemon.on_commit(self._committed)
        daemon.on_code(self._changed)

    async def serve(
        self,
        reader: LineReader,
        writer: LineWriter,
        *,
        cwd: str = "",
        client: str = "",
        context_id: str = "",
    ) -> None:
        """Serve one connection over a line stream until it ends."""
        session = self._session(cwd=Path(cwd) if cwd else None, client=client, context_id=context_id)
        self.subscriptions.start()
        try:
            await stream.serve(self.server, session, self.options(), reader, writer)
        finally:
            self._roots.forget(session)

    def options(self) -> InitializationOptions:
        return self.server.create_initialization_options(
            NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        )

    def close(self) -> None:
        """End listen streams, so that a server can close its connections and stop."""
        self.subscriptions.close()

    @asynccontextmanager
    async def _lifespan(self, _: Server[Session]) -> AsyncIterator[Session]:
        self.subscriptions.start()
        yield self._session(context_id=self._daemon.contexts.open()[0])

    def _session(self, **known: Any) -> Session:
        return Session(self._daemon, by_agent=True, **known)

    async def _list_tools(
        self, ctx: ServerRequestContext[Session], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        record = _record_of(ctx)
        if record is None:
            return self._listed
        known = token_calls.visible(self._tools, record.holder)
        return ListToolsResult(tools=[one for one in self._listed.tools if one.name in known])

    async def _listen(
        self, ctx: ServerRequestContext[Session], params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        """Drop resources that the caller may not read, as the protocol requires."""
        session, wanted = self._read_session(ctx), params.notifications
        if session.principal is not None:
            allowed = [uri for uri in wanted.resource_subscriptions or () if may_watch(session.principal, uri)]
            wanted = wanted.model_copy(update={"resource_subscriptions": allowed})
            params = params.model_copy(update={"notifications": wanted})
        return await self.subscriptions.listen(ctx, params)

    async def _subscribe(self, ctx: ServerRequestContext[Session], params: SubscribeRequestParams) -> EmptyResult:
        principal = self._read_session(ctx).principal
        if principal is not None and not may_watch(principal, str(params.uri)):
            workspace = str(params.uri).partition("://")[2].partition("/")[0]
            error = NotFound("there is no such resource for this token", at=str(params.uri)[:80])
            await self._on_thread(self._daemon.tokens.refused, principal.id, "subscribe", error, workspace)
            raise MCPError(INVALID_PARAMS, "there is no such resource for this token", {"uri": str(params.uri)})
        return await self.subscriptions.subscribe(ctx, params)

    async def _set_level(self, ctx: ServerRequestContext[Session], params: SetLevelRequestParams) -> EmptyResult:
        return EmptyResult() if self._read_session(ctx).principal else self._logs.set_level(ctx, params)

    async def _call_tool(self, ctx: ServerRequestContext[Session], params: CallToolRequestParams) -> dict[str, Any]:
        try:
            _answer.get().update(await self._answer(ctx, params))
        except AnswersNeeded as round:
            return round.result()
        return {"content": [], "resultType": "complete"}

    async def _answer(self, ctx: ServerRequestContext[Session], params: CallToolRequestParams) -> dict[str, Any]:
        tool = self._tools.get(params.name)
        log.debug("call", extra={"tool": params.name[:60], "client": _client_name(ctx)})
        try:
            if (record := _record_of(ctx)) is not None:
                return _result(tool, resources.for_host(ctx, tool, await self._answer_holder(ctx, params, record)))
            if tool is None:
                raise NotFound(f"there is no tool '{params.name[:60]}'", next=f"Known: {', '.join(self._tools)}.")
            session = self._read_session(ctx)
            arguments = read(tool.Params, params.arguments)
            await self._roots.place(ctx, params, session)
            if tool.from_memory(session, arguments):
                answer = tool.run(session, arguments)
            else:
                async with self._caller(ctx, params, session) as caller:
                    answer = await self._on_thread(tool.answer, caller, arguments)
                    session.here = caller.here
        except KgdError as error:
            return refusal(tool, error)
        except AnswersNeeded:
            raise
        except Exception as error:
            log.exception("a tool failed", extra={"tool": params.name[:60]})
            return refusal(tool, of_defect(error))
        return _result(tool, resources.for_host(ctx, tool, answer))

    async def _answer_holder(
        self, ctx: ServerRequestContext[Session], params: CallToolRequestParams, record: TokenRecord
    ) -> Mapping[str, Any]:
        """The answer to a token holder; `token_calls` checks its rights."""
        session = self._read_session(ctx)
        async with self._caller(ctx, params, session) as caller:
            answer: Mapping[str, Any] = await self._on_thread(
                token_calls.call, caller, record, self._tools, params.name, params.arguments or {}
            )
            return answer

    @asynccontextmanager
    async def _caller(
        self, ctx: ServerRequestContext[Session], params: CallToolRequestParams, session: Session
    ) -> AsyncIterator[Session]:
        """The session of one tool call, with functions for questions and progress."""
        restricted = session.principal is not None
        async with (
            asker(ctx, params, self._seconds) as ask,
            self._logs.of_call(ctx, restricted=restricted) as progress,
        ):
            if ask is not None or progress is not None:
                session = replace(session, ask=ask, progress=progress or session.progress)
            yield session

    async def _on_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        # Not abandoned when the client disconnects: a started change is finished and its commit announced.
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(THREADS)
        return await anyio.to_thread.run_sync(function, *arguments, limiter=self._threads)

    def _seconds(self) -> float:
        return self._patience or self._daemon.registry.current().settings.resolver_seconds

    def _read_session(self, ctx: ServerRequestContext[Session]) -> Session:
        """The caller's session. Over HTTP there is no lasting connection, so each request has its own."""
        session = ctx.lifespan_context
        name = _client_name(ctx)
        if ctx.request is not None:
            record = _record_of(ctx)
            known = replace(session, context_id="", client=name, trusted=False)
            return known if record is None else self._held_by(known, record)
        if name:
            session.client = name
        return session

    def _held_by(self, session: Session, record: TokenRecord) -> Session:
        holder = record.holder
        return replace(session, principal=holder, still_live=lambda: self._daemon.tokens.still_live(holder.id))

    def _committed(self, workspace: str, uris: frozenset[Uri]) -> None:
        self._changed(workspace, uris)
        self.subscriptions.announce((f"kgd://{workspace}/conflicts",))

    def _changed(self, workspace: str, uris: frozenset[Uri]) -> None:
        self.subscriptions.announce(changed_resources(workspace, uris))


_answer: ContextVar[dict[str, Any]] = ContextVar("answer")


async def _put_answer_in(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Add the answer of `tools/call` after the SDK's own check of results.

    The check traverses the whole answer twice and drops nulls, which are values in `data`, diffs and conflicts. It
    therefore receives an empty result, to which the answer is added.
    """
    if ctx.method != "tools/call":
        return await call_next(ctx)
    answer: dict[str, Any] = {}
    token = _answer.set(answer)
    try:
        result = await call_next(ctx)
    finally:
        _answer.reset(token)
    assert isinstance(result, dict)
    return {**result, **answer}


def _reporting(remember: Remember) -> ServerMiddleware[Any]:
    """The middleware that passes the answers of `first_answers.METHODS` on, as far as they went to local clients."""

    async def report(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method in METHODS and ctx.request is None and isinstance(result, dict):
            remember("" if ctx.method == "initialize" else ctx.protocol_version, ctx.method, ctx.params, result)
        return result

    return report


@cache
def describe(tool: Operation) -> ToolDescription:
    """The description of a tool for clients. Cached, since building it takes milliseconds; do not change it."""
    hints = tool.hints
    return ToolDescription(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=brief_schema(tool.Params),
        output_schema=output_schema(tool.Result) if tool.offered == SERVER_MEMORY else OBJECT,
        annotations=ToolAnnotations(
            read_only_hint=hints.read_only,
            destructive_hint=hints.destructive,
            idempotent_hint=hints.idempotent,
            open_world_hint=hints.open_world,
        ),
        _meta=resources.meta(tool),
    )


def refusal(tool: Operation | None, error: KgdError) -> dict[str, Any]:
    """A tool error; both text and data contain the next step, since hosts show the model either part."""
    said = tool.refusal(error) if tool else refused(error)
    data = {} if said.data is None else {"structuredContent": said.data}
    return {"content": [{"type": "text", "text": said.text}], **data, "isError": True}


def _result(tool: Operation | None, answer: Mapping[str, Any]) -> dict[str, Any]:
    """The result of a tool; text and data are both complete, since hosts show the model either part."""
    return {
        "content": [{"type": "text", "text": tool.text(answer) if tool else as_json(answer)}],
        "structuredContent": answer,
        "isError": False,
    }


def _record_of(ctx: ServerRequestContext[Any]) -> TokenRecord | None:
    """The record of this request's token, or None."""
    scope = getattr(ctx.request, "scope", None)
    found = scope.get(RECORD) if scope is not None else None
    return found if isinstance(found, TokenRecord) else None


def _client_name(ctx: ServerRequestContext[Any]) -> str:
    params = ctx.session.client_params
    if params is None:
        return ""
    return f"{params.client_info.name} {params.client_info.version}".strip()[:200]
