"""The MCP server of kgd's tools, for both protocol eras and all transports.

Arguments are validated once, by the tool's own model, and answers are plain data that is serialised without a model.
The SDK's low-level server is used because the SDK's decorators validate twice and silently drop unknown arguments.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.to_thread
import orjson
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.server.apps import client_supports_apps
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.runner import serve_dual_era_loop
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    EmptyResult,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCResponse,
    ListToolsResult,
    NotificationParams,
    PaginatedRequestParams,
    SetLevelRequestParams,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    ToolAnnotations,
    UnsubscribeRequestParams,
    jsonrpc_message_adapter,
)
from mcp.types import Tool as ToolDescription

from kgd import tracing
from kgd.client.connection import OVERSIZED_CODE, OVERSIZED_REASON, request_id
from kgd.client.first_answers import METHODS
from kgd.daemon.calls import LineReader, LineWriter, Oversized
from kgd.daemon.daemon import Daemon
from kgd.errors import NotFound
from kgd.mcp import prompts, resources
from kgd.mcp.notifications import Logs, Subscriptions
from kgd.mcp.prompts import Completing
from kgd.mcp.resources import Resources, may_watch, split
from kgd.mcp.sampling import AnswersNeeded, Roots, asker, sealing, stored_key
from kgd.mcp.short_reads import SERVER, ShortReads, failed, result
from kgd.model.token import TokenRecord
from kgd.tools import LOCAL, TOOLS, TOOLSETS
from kgd.tools.hubs import token_calls
from kgd.tools.operation import Operation
from kgd.tools.parameters import OBJECT, brief_schema, output_schema, read
from kgd.tools.session import Session, answered_at

THREADS = 256
"""Largest number of blocking calls at a time. A write holds a thread until it is durable; group commit helps."""

SERVER_MEMORY = "server-memory"
"""The toolset that replaces another server, and has that server's descriptions."""

RECORD = "kgd.record"
"""Key of the token's record in a request's ASGI scope; absent for this machine's own token."""

Remember = Callable[[str, str, Any, dict[str, Any]], None]

log = logging.getLogger("kgd.mcp")

PARSE_ERROR, INVALID_REQUEST = -32700, -32600


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
        self.daemon, self.tools, self._patience = daemon, dict(tools), patience
        ours = any(name in TOOLS for name in tools)  # else it replaces another server and does not mention kgd
        self.subscriptions = Subscriptions()
        self._logs = Logs()
        self._roots = Roots()
        self._threads: anyio.CapacityLimiter | None = None
        self._listed = ListToolsResult(tools=[describe(tool) for tool in tools.values()])
        served = Resources(self._read_session, tools)
        self.server: Server[Session] = Server(
            SERVER["name"],
            version=SERVER["version"],
            title=SERVER["title"],
            description=SERVER["description"],
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
        self.server.middleware[:] = [_put_answer_in, sealing(_rounds_key(daemon), SERVER["name"])]
        if remember:
            self.server.middleware.insert(0, _reporting(remember))
        daemon.on_commit(partial(self.subscriptions.announce, is_commit=True))
        daemon.on_code(self.subscriptions.announce)
        daemon.open_workspaces.follow(self.subscriptions.workspaces)

    async def serve(self, reads: ShortReads) -> None:
        """Serve one connection over a line stream until it ends."""
        self.subscriptions.start()
        try:
            await serve_stream(self.server, reads.session, self.options(), reads, reads)
        finally:
            self._roots.forget(reads.session)

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
        yield Session(self.daemon, by_agent=True, context_id=self.daemon.contexts.open()[0])

    async def _list_tools(
        self, ctx: ServerRequestContext[Session], params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        record = _record_of(ctx)
        if record is None:
            return self._listed
        known = token_calls.visible(self.tools, record.holder)
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
        with self.subscriptions.listening(params.notifications.resource_subscriptions or ()):
            return await self.subscriptions.listen(ctx, params)

    async def _subscribe(self, ctx: ServerRequestContext[Session], params: SubscribeRequestParams) -> EmptyResult:
        principal = self._read_session(ctx).principal
        if principal is not None and not may_watch(principal, str(params.uri)):
            uri = str(params.uri)
            error = NotFound("there is no such resource for this token", at=uri[:80])
            await self._on_thread(self.daemon.tokens.refused, principal.id, "subscribe", error, split(uri)[0])
            raise MCPError(INVALID_PARAMS, error.message, {"uri": uri})
        return await self.subscriptions.subscribe(ctx, params)

    async def _set_level(self, ctx: ServerRequestContext[Session], params: SetLevelRequestParams) -> EmptyResult:
        return EmptyResult() if self._read_session(ctx).principal else self._logs.set_level(ctx, params)

    async def _call_tool(self, ctx: ServerRequestContext[Session], params: CallToolRequestParams) -> dict[str, Any]:
        try:
            with tracing.during(_request_of(ctx)):  # the context of a session is that of its first request
                tracing.note(operation=params.name if params.name in self.tools else "")
                _answer.get().update(await self._answer(ctx, params))
        except AnswersNeeded as round:
            return round.result()
        return {"content": [], "resultType": "complete"}

    async def _answer(self, ctx: ServerRequestContext[Session], params: CallToolRequestParams) -> dict[str, Any]:
        tool = self.tools.get(params.name)
        log.debug("call", extra={"tool": params.name[:60], "client": _client_name(ctx)})
        try:
            if (record := _record_of(ctx)) is not None:
                found, meta = await self._answer_holder(ctx, params, record)
                return {**result(tool, _for_host(ctx, tool, found)), **({"_meta": meta} if meta else {})}
            if tool is None:
                raise _no_tool(params.name, self.tools)
            session = self._read_session(ctx)
            arguments = read(tool.Params, params.arguments)
            if session.here is None and ctx.request is None and _offers(ctx, "roots"):
                await self._roots.place(ctx, params, session)
            if (answer := tool.at_once(session, arguments)) is None:
                async with self._caller(ctx, params, session) as caller:
                    answer = await self._on_thread(tool.answer, caller, arguments)
                    session.here = caller.here
        except AnswersNeeded:
            raise
        except Exception as error:  # noqa: BLE001 - the boundary of a request
            return failed(tool, params.name, error)
        return result(tool, _for_host(ctx, tool, answer))

    async def _answer_holder(
        self, ctx: ServerRequestContext[Session], params: CallToolRequestParams, record: TokenRecord
    ) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """The answer to a token holder and its `_meta`; `token_calls` checks the holder's rights."""
        session, arguments = self._read_session(ctx), params.arguments or {}
        tool, asked = self.tools.get(params.name), (ctx.params or {}).get("_meta")
        reads = tool is not None and tool.hints.read_only
        async with self._caller(ctx, params, session) as caller:
            call = partial(token_calls.call, caller, record, self.tools, params.name, arguments)
            answer: tuple[Mapping[str, Any], dict[str, Any]] = await self._on_thread(
                partial(answered_at, caller, asked, arguments.get("workspace"), call, reads=reads)
            )
            return answer

    @asynccontextmanager
    async def _caller(
        self, ctx: ServerRequestContext[Session], params: CallToolRequestParams, session: Session
    ) -> AsyncIterator[Session]:
        """The session of one tool call, with functions for questions and progress."""
        restricted = session.principal is not None
        asking = asker(ctx, params, self._seconds) if _offers(ctx, "sampling") else nullcontext()
        async with asking as ask, self._logs.of_call(ctx, restricted=restricted) as progress:
            if ask is not None or progress is not None:
                session = replace(session, ask=ask, progress=progress or session.progress)
            yield session

    async def _on_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        # not abandoned when the client disconnects: a change that has begun is finished, and its commit announced
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(THREADS)
        return await anyio.to_thread.run_sync(function, *arguments, limiter=self._threads)

    def _seconds(self) -> float:
        return self._patience or self.daemon.registry.current().settings.resolver_seconds

    def _read_session(self, ctx: ServerRequestContext[Session]) -> Session:
        """The caller's session. Over HTTP there is no lasting connection, so each request has its own."""
        session = ctx.lifespan_context
        name = _client_name(ctx)
        if ctx.request is not None:
            record = _record_of(ctx)
            known = replace(session, context_id="", client=name)
            return known if record is None else self._held_by(known, record)
        if name:
            session.client = name
        return session

    def _held_by(self, session: Session, record: TokenRecord) -> Session:
        holder = record.holder
        return replace(session, principal=holder, still_live=lambda: self.daemon.tokens.still_live(holder.id))


_answer: ContextVar[dict[str, Any]] = ContextVar("answer")


def _rounds_key(daemon: Daemon) -> bytes:
    """The key that seals the state between two rounds; hubs with shared state have the same key."""
    return daemon.shared.rounds_key if daemon.shared else stored_key(Path(daemon.home.state) / "rounds.key")


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
    if meta := {**result.get("_meta", {}), **answer.get("_meta", {})}:
        answer["_meta"] = meta
    return {**result, **answer}


def _reporting(remember: Remember) -> ServerMiddleware[Any]:
    """The middleware that passes on answers to `first_answers.METHODS` that were sent to local clients."""

    async def report(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        result = await call_next(ctx)
        if ctx.method in METHODS and ctx.request is None and isinstance(result, dict):
            remember("" if ctx.method == "initialize" else ctx.protocol_version, ctx.method, ctx.params, result)
        return result

    return report


@cache
def describe(tool: Operation) -> ToolDescription:
    """The description of a tool for clients. The description is cached, because building it takes milliseconds; do not
    modify it."""
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


def _for_host(ctx: ServerRequestContext[Any], tool: Operation | None, answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The answer for this host, without the page's fields if the host does not show pages."""
    if tool is None or not tool.for_app or client_supports_apps(ctx):
        return answer
    return {name: value for name, value in answer.items() if name not in tool.for_app}


def _record_of(ctx: ServerRequestContext[Any]) -> TokenRecord | None:
    """The record of this request's token, or None."""
    found = _scope_of(ctx).get(RECORD)
    return found if isinstance(found, TokenRecord) else None


def _request_of(ctx: ServerRequestContext[Any]) -> tracing.Request | None:
    """This request over HTTP, for its log line and the audit log."""
    found = _scope_of(ctx).get(tracing.REQUEST)
    return found if isinstance(found, tracing.Request) else None


def _scope_of(ctx: ServerRequestContext[Any]) -> Mapping[str, Any]:
    """The ASGI scope of this request; empty if it did not arrive over HTTP."""
    return getattr(ctx.request, "scope", None) or {}


def _offers(ctx: ServerRequestContext[Any], capability: str) -> bool:
    """Whether the client offers something that its server may ask for: ``roots`` or ``sampling``."""
    return getattr(ctx.session.client_capabilities, capability, None) is not None


def _client_name(ctx: ServerRequestContext[Any]) -> str:
    params = ctx.session.client_params
    if params is None:
        return ""
    return f"{params.client_info.name} {params.client_info.version}".strip()[:200]


async def serve_stream(
    server: Server[Any], state: Any, options: InitializationOptions, reader: LineReader, writer: LineWriter
) -> None:
    """Serve one connection, one JSON-RPC message per line as in MCP's stdio transport, until its reader ends.

    Running calls are then cancelled, except writes.

    Args:
        state: The handlers' `ctx.lifespan_context`.
    """
    incoming_send, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, outgoing_receive = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, reader, writer, incoming_send)
        tasks.start_soon(_write, outgoing_receive, writer)
        await serve_dual_era_loop(server, incoming, outgoing, lifespan_state=state, init_options=options)
        tasks.cancel_scope.cancel()


async def _read(
    reader: LineReader, writer: LineWriter, incoming: MemoryObjectSendStream[SessionMessage | Exception]
) -> None:
    async with incoming:
        while line := await _line(reader, writer):
            message = _message(line)
            if isinstance(message, bytes):
                writer.write(message)
                await writer.drain()
                continue
            try:
                await incoming.send(SessionMessage(message))
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return


async def _line(reader: LineReader, writer: LineWriter) -> bytes:
    """The next non-blank line; empty at the end or after a broken connection. Refuses oversized lines."""
    while True:
        try:
            line = await reader.readline()
        except Oversized as error:
            log.warning("an MCP message was too long")
            writer.write(_error(request_id(error.head, error.tail), OVERSIZED_CODE, OVERSIZED_REASON))
            await writer.drain()
            continue
        except ConnectionError as error:
            log.info("a connection ended", extra={"reason": str(error)[:100]})
            return b""
        if not line or line.strip():
            return line


def _message(line: bytes) -> JSONRPCMessage | bytes:
    """The message, or the refusal of an invalid line, with its id if it can be found."""
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return _error(_id_in(line), PARSE_ERROR, "Parse error: each line must be one JSON-RPC message in valid Unicode")
    key = found.get("id") if isinstance(found, dict) else None
    is_id = isinstance(key, str | int) and not isinstance(key, bool)
    try:
        # With an invalid id a request would look like a notification, and its sender would wait permanently.
        if not isinstance(found, dict) or ("id" in found and not is_id and "error" not in found):
            raise ValueError
        return jsonrpc_message_adapter.validate_python(found, by_name=False)
    except ValueError:
        return _error(key if is_id else None, INVALID_REQUEST, "Invalid request: this is not a JSON-RPC 2.0 message")


def _id_in(line: bytes) -> int | None:
    """The numeric id of a request whose only error is an unpaired surrogate; its sender waits for an answer."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    key = found.get("id") if isinstance(found, dict) else None
    return key if isinstance(key, int) and not isinstance(key, bool) else None


def _error(key: str | int | None, code: int, message: str) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": key, "error": {"code": code, "message": message}}) + b"\n"


async def _write(outgoing: MemoryObjectReceiveStream[SessionMessage], writer: LineWriter) -> None:
    async with outgoing:
        async for item in outgoing:
            try:
                writer.write(_encode(item.message) + b"\n")
                await writer.drain()
            except (ConnectionError, RuntimeError):
                log.debug("a client left before its answer")


def _encode(message: Any) -> bytes:
    # Answers are plain data; serialising through the model costs more than the rest of a small call.
    if isinstance(message, JSONRPCResponse):
        return orjson.dumps({"jsonrpc": "2.0", "id": message.id, "result": message.result})
    if isinstance(message, JSONRPCError):
        error = message.error.model_dump(by_alias=True, exclude_none=True)
        return orjson.dumps({"jsonrpc": "2.0", "id": message.id, "error": error})
    text: str = message.model_dump_json(by_alias=True, exclude_unset=True)
    return text.encode()


def _no_tool(name: str, tools: Iterable[str]) -> NotFound:
    """The refusal of a tool that the client does not have, with another way to the operation."""
    kit = next((kit for kit, offered in TOOLSETS.items() if name in offered), "")
    page = LOCAL.entries[name]["page"] if name in LOCAL else ""
    way = f"Start the server with `kgd mcp --tools {kit}`. " if kit else f"Run {page}. " if page[:5] == "`kgd " else ""
    return NotFound(f"there is no tool '{name[:60]}'", next=f"{way}Known: {', '.join(tools)}.")
