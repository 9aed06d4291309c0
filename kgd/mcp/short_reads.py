"""Short reads over a line stream, answered without the SDK and with the bytes that it would have sent.

A short read calls a tool that declares `from_memory`. The first request of a kind goes through the SDK. Once it has
accepted the client's description of itself, short reads with the same description take this path; all other messages,
and anything unusual about a short read, stay with the SDK. This module does not import the SDK, so that a daemon can
answer while the SDK is being loaded.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, TypeVar

import orjson

from kgd import __version__
from kgd.client import EARLY
from kgd.client.first_answers import ENVELOPE, PROTOCOL_VERSION
from kgd.daemon.calls import LineReader, LineWriter
from kgd.errors import KgdError, of_defect
from kgd.tools import addressing
from kgd.tools.operation import Operation, as_json, refused
from kgd.tools.parameters import read
from kgd.tools.session import Session

SERVER = {
    "name": "kgd",
    "title": "kgd: shared memory",
    "version": __version__,
    "description": "A graph of what this team's agents learned, kept in git",
}
"""The server's description. Its name is constant, because clients' state between two calls is sealed for it."""

CLIENT_INFO, CAPABILITIES = ENVELOPE + "clientInfo", ENVELOPE + "clientCapabilities"
LOG_LEVEL, SERVER_INFO = ENVELOPE + "logLevel", ENVELOPE + "serverInfo"
OPENING_LIMIT = 16
LONGEST = 2**16
"""Largest size of a short read in bytes; longer lines are not parsed here."""
PAUSE = 3.0
"""Seconds after which the SDK is loaded even if no request needs it yet; loading slows down the first answers."""
IN_TURN = 8
"""Number of reads of one connection, if they arrive together, before other connections have their turn."""
AHEAD_LIMIT = 64
"""Largest number of messages that are read ahead while the SDK is being loaded."""
MESSAGE = frozenset({"jsonrpc", "id", "method", "params"})
PARAMETERS = frozenset({"name", "arguments", "_meta"})

log = logging.getLogger("kgd.mcp")

T = TypeVar("T")
Result = dict[str, Any]
Known = Callable[[str, str, Any], bool]
"""Whether the SDK has answered this request before, given its protocol version, method and parameters."""


def result(tool: Operation | None, answer: Mapping[str, Any]) -> Result:
    """The result of a tool. Text and data are both complete, because some hosts show the model only one of them."""
    return {
        "content": [{"type": "text", "text": tool.text(answer) if tool else as_json(answer)}],
        "structuredContent": answer,
        "isError": False,
    }


def refusal(tool: Operation | None, error: KgdError) -> Result:
    """A tool error. Text and data both contain the next step, because some hosts show the model only one of them."""
    said = tool.refusal(error) if tool else refused(error)
    data = {} if said.data is None else {"structuredContent": said.data}
    return {"content": [{"type": "text", "text": said.text}], **data, "isError": True}


def failed(tool: Operation | None, name: str, error: Exception) -> Result:
    """The result of a call that raised: a refusal, or a logged defect."""
    if isinstance(error, KgdError):
        return refusal(tool, error)
    log.error("a tool failed", exc_info=error, extra={"tool": name[:60]})
    return refusal(tool, of_defect(error))


@dataclass(frozen=True, slots=True)
class _Client:
    """A client's description of itself. `envelope` is empty in the handshake era."""

    envelope: Mapping[str, Any]
    name: str
    has_roots: bool
    has_model: bool

    @classmethod
    def of(cls, method: str, params: Mapping[str, Any]) -> _Client | None:
        """The client that a request describes; None if the request has no description, or not in the form that the SDK
        requires."""
        meta = params.get("_meta")
        envelope = _envelope(meta) if isinstance(meta, dict) else {}
        if method == "initialize":
            envelope, info, capabilities = {}, params.get("clientInfo"), params.get("capabilities")
        elif envelope and LOG_LEVEL not in envelope:
            info, capabilities = envelope.get(CLIENT_INFO), envelope.get(CAPABILITIES)
        else:
            return None
        if not isinstance(info, dict) or not isinstance(capabilities, dict):
            return None
        name = f"{info.get('name')} {info.get('version')}".strip()[:200]
        has_roots, has_model = (capabilities.get(one) is not None for one in ("roots", "sampling"))
        return cls(envelope, name, has_roots, has_model)


class ShortReads:
    """The lines of a connection that are left for the SDK. Short reads are answered here, on the event loop."""

    def __init__(
        self,
        session: Session,
        tools: Mapping[str, Operation],
        reader: LineReader,
        writer: LineWriter,
        threads: Executor | None = None,
    ) -> None:
        self.session = session
        self._tool = tools.get
        self._reader, self._writer, self._threads = reader, writer, threads
        self._client: _Client | None = None
        """The last accepted description."""
        self._opening: dict[str | int, _Client] = {}
        """Descriptions in unanswered requests."""
        self._in_turn = 0
        self._has_begun = False
        self._known: Known | None = None
        self._ahead: deque[asyncio.Task[bytes]] = deque()
        self._running: dict[str | int, asyncio.Task[None]] = {}

    async def readline(self) -> bytes:
        """The next line for the SDK. At the end of input, short reads under way are answered first."""
        return await (self._ahead.popleft() if self._ahead else self._next())

    def write(self, data: bytes) -> None:
        if self._opening:
            self._learn(orjson.loads(data))
        self._writer.write(data)

    async def drain(self) -> None:
        await self._writer.drain()

    async def read_ahead(self, load: Callable[[], asyncio.Future[T]], known: Known) -> T | None:
        """Answer short reads while the SDK is being loaded, and keep the other lines for `readline`.

        Returns None, without loading the SDK, if the client leaves before it needs the SDK.

        Args:
            load: Starts to load the SDK. Called at the first request that needs the SDK, otherwise after `PAUSE`.
        """
        self._known = known
        needed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        keeping = asyncio.create_task(self._keep_lines(needed))
        try:
            await asyncio.wait({needed, keeping}, timeout=PAUSE, return_when=asyncio.FIRST_COMPLETED)
            return None if keeping.done() and not needed.done() else await asyncio.shield(load())
        finally:
            self._known = None
            keeping.cancel()

    async def _keep_lines(self, needed: asyncio.Future[None]) -> None:
        """Read lines; resolve `needed` at the first line that the SDK must answer soon, or when no more lines can be
        read ahead."""
        is_full = False
        while not is_full:
            task = asyncio.create_task(self._next())  # a separate task, since a cancellation must not lose a line
            self._ahead.append(task)
            await asyncio.wait({task})
            if not task.exception() and not task.result():
                return
            is_full = task.exception() is not None or len(self._ahead) == AHEAD_LIMIT
            if not needed.done() and (is_full or _is_awaited(task.result())):
                needed.set_result(None)

    async def _next(self) -> bytes:
        while line := await self._reader.readline():
            if len(line) > LONGEST or (message := _parsed(line)) is None or not await self._takes(message):
                return line
        if self._running:
            await asyncio.wait(self._running.values())
        return b""

    async def _takes(self, message: dict[str, Any]) -> bool:
        """Answer the message, or begin to, if it is a short read; returns whether it is one."""
        method, key, params = message.get("method"), message.get("id"), message.get("params")
        if not isinstance(params, dict):
            params = {}
        if method == "notifications/cancelled":
            if (cancelled := _plain_id(params.get("requestId"))) is not None:
                self._running.pop(cancelled, None)
        elif method == "notifications/roots/list_changed":
            self.session.here = None
        if not isinstance(method, str) or _plain_id(key) is None:
            return False
        client = self._client
        tool = self._tool_of(client, message, params) if client and method == "tools/call" else None
        if client is None or tool is None:
            self._meet(method, key, params)
            return False
        if (
            client.has_roots
            and self.session.here is None
            and not await self._on_thread(addressing.own_workspace, self.session)
        ):
            return False
        return await self._answer(client, key, tool, params.get("arguments"))

    def _tool_of(self, client: _Client, message: Mapping[str, Any], params: Mapping[str, Any]) -> Operation | None:
        """The tool for short reads to which the SDK, after all its checks, would pass this message on."""
        meta, name = params.get("_meta", {}), params.get("name")
        tool = self._tool(name) if isinstance(name, str) else None
        is_short = (
            tool is not None
            and tool.from_memory is not None
            and message.keys() <= MESSAGE
            and message.get("jsonrpc") == "2.0"
            and params.keys() <= PARAMETERS
            and isinstance(params.get("arguments", {}), dict)
            and isinstance(meta, dict)
            and _plain_id(meta.get("progressToken", 0)) is not None
            and _envelope(meta) == client.envelope
            and message["id"] not in self._running
        )
        return tool if is_short else None

    async def _answer(self, client: _Client, key: Any, tool: Operation, given: Any) -> bool:
        session = self.session
        session.client = client.name
        log.debug("call", extra={"tool": tool.name, "client": client.name})
        try:
            arguments = read(tool.Params, given)
            if (answer := tool.at_once(session, arguments)) is not None:
                self._write(client, key, result(tool, answer))
                self._in_turn += 1
                if self._in_turn % IN_TURN == 0:
                    await asyncio.sleep(0)  # give other connections their turn
                return True
        except Exception as error:  # noqa: BLE001 - the boundary of a request
            self._write(client, key, failed(tool, tool.name, error))
            return True
        if client.has_model:
            return False
        self._running[key] = asyncio.create_task(self._answer_later(client, key, tool, arguments))
        return True

    async def _answer_later(self, client: _Client, key: Any, tool: Operation, arguments: Any) -> None:
        try:
            found = result(tool, await self._on_thread(tool.answer, self.session, arguments))
        except Exception as error:  # noqa: BLE001 - the boundary of a request
            found = failed(tool, tool.name, error)
        if self._running.get(key) is asyncio.current_task():  # not cancelled
            del self._running[key]
            self._write(client, key, found)

    async def _on_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    def _write(self, client: _Client, key: Any, found: Result) -> None:
        base = {"content": [], "resultType": "complete", "_meta": {SERVER_INFO: SERVER}} if client.envelope else {}
        self._writer.write(orjson.dumps({"jsonrpc": "2.0", "id": key, "result": {**base, **found}}) + b"\n")

    def _meet(self, method: str, key: Any, params: Mapping[str, Any]) -> None:
        """Note the client's description. The description is used once the SDK has accepted a request with it."""
        client, is_first, self._has_begun = _Client.of(method, params), not self._has_begun, True
        if client is None or client == self._client:
            return
        if is_first and self._known and self._known(str(client.envelope.get(PROTOCOL_VERSION, "")), method, params):
            self._client = client
        elif len(self._opening) < OPENING_LIMIT:
            self._opening[key] = client

    def _learn(self, answer: Mapping[str, Any]) -> None:
        if "method" not in answer and (client := self._opening.pop(answer.get("id", ""), None)) and "result" in answer:
            self._client = client


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _is_awaited(line: bytes) -> bool:
    """Whether the sender of a message waits for the SDK's answer."""
    message = _parsed(line)
    return message is None or not str(message.get("id", EARLY)).startswith(EARLY)


def _plain_id(key: Any) -> str | int | None:
    return key if type(key) in (str, int) else None


def _envelope(meta: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in meta.items() if name.startswith(ENVELOPE)}
