"""The daemon's unix socket, which speaks JSON lines (framing in docs/mcp.md).

A connection starts with one hello line each way, then carries concurrent calls or MCP's stdio framing. Calls run in
worker threads, so that slow calls and slow or vanished clients do not block others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import socket
import struct
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson

from kgd.config import program_stamp
from kgd.daemon import process
from kgd.daemon.calls import Call, Dispatch, LineReader, LineWriter, Oversized, Peer, answer
from kgd.errors import Forbidden, Invalid, KgdError, Limit, Unavailable, of_defect

LINE_LIMIT = 8 * 2**20
CONNECTIONS_LIMIT = 512
WAITING_CONNECTIONS = 256
ACCEPTED_AT_ONCE = 16
"""Number of connections accepted in one turn of the loop, before any of them can be refused."""
REFUSED_AT_ONCE = 16
"""Number of clients that are sent a refusal at the same time; further ones are closed without a message."""
CALLS_PER_CONNECTION = 64
WORKERS = 64
HELLO_SECONDS = 10.0
RETIRE_SECONDS = 20.0
"""Seconds that a replaced daemon waits for running calls."""
STOP_SECONDS = 1.2
"""Seconds that a stopping daemon waits for running calls; the whole stop takes less than two."""
LAST_WORDS_SECONDS = 0.3
PLACE_SECONDS = 1.0
"""Seconds between two checks that the lock and the socket still exist."""

LONG_LIVED = "subscriptions/listen"
"""A request that is answered only when it ends. A daemon that stops does not wait for it; the client sends it again."""
ENDS = 4096
"""Number of bytes kept from the beginning and from the end of an oversized message."""

_ANSWER = re.compile(rb'\{"jsonrpc":"2\.0","id":(\d{1,18}|"[^"\\]*"),"(?:result|error)":').match
"""Matches the beginning of our own answers, to find the id without parsing a long message."""

RETIRED = b'{"kgd":"retired"}\n'

log = logging.getLogger("kgd.endpoint")


ServeMcp = Callable[[Peer, LineReader, LineWriter], Awaitable[None]]


class Endpoint:
    """The listening socket and its connections.

    Args:
        path: Socket path. The holder of the home's lock may replace an existing socket.
        version: The version in the hello.
        dispatch: Answers one call; runs in a worker thread and may block.
        serve_mcp: Serves one MCP connection until its reader ends.
        check: Raises if a client's hello is unacceptable.
    """

    def __init__(
        self,
        path: str,
        version: str,
        dispatch: Dispatch,
        serve_mcp: ServeMcp | None = None,
        check: Callable[[Peer], None] = lambda peer: None,
    ) -> None:
        self._path, self.version, self.check = path, version, check
        self.program = program_stamp()
        self.dispatch, self.serve_mcp = dispatch, serve_mcp
        self.workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="kgd-call")
        self.asked_to_leave: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Resolved with the reason to stop: "retire", "down" or a signal's name."""
        self._connections: set[_Connection] = set()
        self._refusing = 0
        self._server: asyncio.Server | None = None
        self._inode = 0

    async def start(self) -> None:
        """Listen. The socket gets its name only when it accepts connections, so that clients never find a dead socket.

        A second call listens on a new socket; open connections stay.
        """
        if self._server:
            self._server.close()
        waiting = f"{self._path}.{os.getpid()}"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(waiting)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            listening.bind(waiting)
        finally:
            os.umask(before)
        self._server = await asyncio.start_unix_server(
            self._accept, sock=listening, limit=LINE_LIMIT, backlog=ACCEPTED_AT_ONCE
        )
        listening.listen(WAITING_CONNECTIONS)  # asyncio uses one number for both
        self._inode = os.stat(waiting).st_ino
        os.rename(waiting, self._path)

    def _is_there(self) -> bool:
        """Whether the socket still exists at its path."""
        try:
            return os.stat(self._path).st_ino == self._inode
        except OSError:
            return False

    async def keep_place(self, lock: process.HomeLock) -> None:
        """Restore a deleted socket; stop the daemon if its home was deleted. Runs until it is cancelled."""
        while True:
            await asyncio.sleep(PLACE_SECONDS)
            if not lock.is_there():
                self.leave("the home was deleted")
            elif not self._is_there():
                await self.start()

    def leave(self, why: str) -> None:
        """Resolve `asked_to_leave`; the owner then closes the endpoint."""
        if not self.asked_to_leave.done():
            self.asked_to_leave.set_result(why)

    @property
    def connections(self) -> int:
        return len(self._connections)

    async def close(self, *, retire: bool = False) -> None:
        """Stop accepting, answer the requests that were already read, then close every connection.

        With `retire`, clients learn that another daemon takes over, and calls get more time. Worker threads may
        still run afterwards.
        """
        self._stop_listening()
        patience = RETIRE_SECONDS if retire else STOP_SECONDS
        leaving = [asyncio.create_task(c.leave(patience, RETIRED if retire else b"")) for c in self._connections]
        if leaving:
            await asyncio.wait(leaving, timeout=patience + 2 * LAST_WORDS_SECONDS)
        for connection in list(self._connections):
            connection.abort()
        self.workers.shutdown(wait=False, cancel_futures=True)

    def _stop_listening(self) -> None:
        if self._server is None:
            return
        self._server.close()
        self._server = None
        if self._is_there():
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(self, reader, writer)
        if refusal := self._full():
            await self._refuse(connection, reader, refusal)
            return
        self._connections.add(connection)
        try:
            await connection.run()
        except (OSError, asyncio.IncompleteReadError):
            log.debug("client gone")
        finally:
            self._connections.discard(connection)

    def _full(self) -> KgdError | None:
        """The reason why another client cannot be served, or None."""
        if len(self._connections) >= CONNECTIONS_LIMIT:
            return Limit(f"{CONNECTIONS_LIMIT} clients are connected", next="Close some clients and try again.")
        if shortage := process.shortage():
            return Unavailable(shortage, next="Close some clients, or raise `ulimit -n` and run `kgd down`.")
        return None

    async def _refuse(self, connection: _Connection, reader: asyncio.StreamReader, refusal: KgdError) -> None:
        if self._refusing >= REFUSED_AT_ONCE:
            connection.abort()
            return
        self._refusing += 1
        try:
            with contextlib.suppress(OSError, ValueError, TimeoutError):
                async with asyncio.timeout(LAST_WORDS_SECONDS):
                    await reader.readline()
            connection.refuse(refusal)
        finally:
            self._refusing -= 1


class _Connection:
    """One client. `run` ends when the client disconnects or after `leave`."""

    def __init__(self, endpoint: Endpoint, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._endpoint, self._reader, self._writer = endpoint, reader, writer
        self._loop = asyncio.get_running_loop()
        self._mcp: Outstanding | None = None
        self._calls: dict[asyncio.Task[None], Call] = {}
        self._slots = asyncio.Semaphore(CALLS_PER_CONNECTION)
        self._reading: asyncio.Task[None] | None = None

    async def run(self) -> None:
        try:
            # Read first: closing a socket with unread bytes would discard the refusal on its way to the client.
            hello = await self._hello()
            uid, pid = _credentials(self._writer)
            if uid != os.getuid():
                raise Forbidden("this daemon belongs to another user")
            peer = Peer(
                cwd=str(hello.get("cwd", "")),
                client=str(hello.get("client", ""))[:200],
                tools=str(hello.get("tools", ""))[:200],
                version=str(hello.get("version", "")),
                pid=pid,
            )
            self._endpoint.check(peer)
            serve = self._serve_mcp if hello["kgd"] == "mcp" else self._serve_calls
        except KgdError as error:
            self.refuse(error)
            return
        except TimeoutError:
            self._writer.close()
            return
        self._send({"kgd": self._endpoint.version, "pid": os.getpid(), "program": self._endpoint.program})
        self._reading = asyncio.create_task(serve(peer))
        try:
            await asyncio.wait([self._reading])
        finally:
            if not self._reading.cancelled():  # otherwise `leave` ends calls and the writer
                if failure := self._reading.exception():
                    log.error("a connection failed", exc_info=failure)
                self._forget_calls()
                self._writer.close()

    def refuse(self, error: KgdError) -> None:
        self._send({"error": error.as_dict()})
        self._writer.close()

    def _forget_calls(self) -> None:
        for call in self._calls.values():
            call.cancelled.set()

    def abort(self) -> None:
        self._forget_calls()
        if self._reading:
            self._reading.cancel()
        self._writer.transport.abort()

    async def leave(self, patience: float, last_words: bytes) -> None:
        """Stop reading requests, answer the requests already read, send `last_words` and close."""
        try:
            async with asyncio.timeout(patience):
                if self._mcp:
                    self._mcp.stop_requests()
                    await self._mcp.settled()
                elif self._reading:
                    self._reading.cancel()
                    while self._calls:
                        await asyncio.wait(list(self._calls))
        except TimeoutError:
            log.warning("left before every call was answered", extra={"calls": len(self._calls)})
            self._forget_calls()
            last_words = b""  # "retired" promises that unanswered calls were never started
        if self._reading:
            self._reading.cancel()
            await asyncio.wait([self._reading])
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                self._writer.write(last_words)
                self._writer.close()
                await self._writer.wait_closed()

    async def _hello(self) -> dict[str, Any]:
        async with asyncio.timeout(HELLO_SECONDS):
            hello = await self._line()
        if hello.get("kgd") not in ("call", "mcp"):
            raise Invalid('a connection must begin with a line such as {"kgd": "call", "version": "0.1.0"}')
        if hello["kgd"] == "mcp" and self._endpoint.serve_mcp is None:
            raise Invalid("this daemon does not serve MCP")
        return hello

    async def _line(self) -> dict[str, Any]:
        """The next line's object; empty at the end. Raises Limit or Invalid for a bad line."""
        try:
            line = await self._reader.readline()
        except ValueError:
            raise Limit(f"a line has at most {LINE_LIMIT // 2**20} MiB") from None
        if not line:
            return {}
        try:
            found = orjson.loads(line)
        except orjson.JSONDecodeError:
            found = None
        if not isinstance(found, dict):
            raise Invalid("each line must be one JSON object")
        return found

    async def _serve_calls(self, peer: Peer) -> None:
        try:
            while message := await self._line():
                key, name, args = message.get("id"), message.get("call"), message.get("args", {})
                if not isinstance(name, str) or not isinstance(args, dict):
                    raise Invalid('a call must have the form {"id": ..., "call": NAME, "args": {...}}')
                if name in ("ping", "retire", "down"):
                    self._send({"id": key, "result": {"pid": os.getpid(), "version": self._endpoint.version}})
                    if name != "ping":
                        self._endpoint.leave(name)
                    continue
                await self._slots.acquire()
                call = Call(peer, key, self._progress)
                task = asyncio.create_task(self._answer(call, name, args))
                self._calls[task] = call
                task.add_done_callback(self._answered)
        except KgdError as error:
            self._send({"id": None, "error": error.as_dict()})

    async def _answer(self, call: Call, name: str, args: dict[str, Any]) -> None:
        dispatch, workers = self._endpoint.dispatch, self._endpoint.workers
        try:
            line = await self._loop.run_in_executor(workers, answer, dispatch, call, name, args)
        except RuntimeError as error:  # no thread could be started
            line = orjson.dumps({"id": call.key, "error": of_defect(error, at=name).as_dict()}) + b"\n"
        with contextlib.suppress(OSError):
            self._writer.write(line)
            await self._writer.drain()

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._calls.pop(task, None)
        self._slots.release()
        if not task.cancelled() and (failure := task.exception()):
            log.error("an answer failed", exc_info=failure)

    async def _serve_mcp(self, peer: Peer) -> None:
        assert self._endpoint.serve_mcp is not None
        self._mcp = Outstanding(self._reader, self._writer)
        await self._endpoint.serve_mcp(peer, self._mcp, self._mcp)

    def _progress(self, line: bytes) -> None:
        """Send progress, or drop it if the client does not read. Called from worker threads."""

        def send() -> None:
            if not self._writer.is_closing() and self._writer.transport.get_write_buffer_size() < 65536:
                self._writer.write(line)

        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(send)

    def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(orjson.dumps(message) + b"\n")


class Outstanding:
    """Both directions of one MCP connection, with its unanswered requests.

    After `stop_requests` the server receives only answers and notifications. Later requests are dropped without
    execution, and the client sends them to the next daemon.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._open: dict[str | int, str] = {}
        self._taking_requests = True
        self._settled = asyncio.Event()
        self._settled.set()

    async def readline(self) -> bytes:
        """The next message for the server.

        Raises:
            Oversized: The message is longer than the reader's limit.
        """
        while line := await _message(self._reader):
            message = _parse(line)
            method = message.get("method")
            if not isinstance(method, str) or not isinstance(key := message.get("id"), str | int):
                if method == "notifications/cancelled":
                    self._close((message.get("params") or {}).get("requestId"))
                return line
            if self._taking_requests:
                self._open[key] = method
                if method != LONG_LIVED:
                    self._settled.clear()
                return line
        return b""

    def write(self, data: bytes) -> None:
        """Write lines for the client. A closed connection is noticed at the next read."""
        for line in data.removesuffix(b"\n").split(b"\n"):
            if answer := _ANSWER(line):
                self._close(orjson.loads(answer[1]))
            elif "method" not in (message := _parse(line)):
                self._close(message.get("id"))
        self._writer.write(data)

    async def drain(self) -> None:
        await self._writer.drain()

    def stop_requests(self) -> None:
        self._taking_requests = False

    async def settled(self) -> None:
        """Return when every delivered request except long-lived ones is answered."""
        await self._settled.wait()

    def __len__(self) -> int:
        return sum(method != LONG_LIVED for method in self._open.values())

    def _close(self, key: Any) -> None:
        if isinstance(key, str | int) and self._open.pop(key, "") and not len(self):
            self._settled.set()


async def _message(reader: asyncio.StreamReader) -> bytes:
    """The next line. Unlike `StreamReader.readline` it keeps both ends of an oversized line."""
    head = tail = b""
    while True:
        try:
            end = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            end = error.partial
        except asyncio.LimitOverrunError as error:
            part = await reader.readexactly(error.consumed)
            head, tail = head or part[:ENDS], (tail + part[-ENDS:])[-ENDS:]
            continue
        if head:
            raise Oversized(head, (tail + end)[-ENDS:])
        return end


def _parse(line: bytes) -> dict[str, Any]:
    """The message, or {} if it is invalid; the server then refuses it as the protocol requires."""
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _credentials(writer: asyncio.StreamWriter) -> tuple[int, int]:
    """(user id, process id) of the client, from the kernel."""
    sock = writer.get_extra_info("socket")
    if hasattr(socket, "SO_PEERCRED"):
        pid, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        return uid, pid
    _, uid = struct.unpack("Ii", sock.getsockopt(0, 1, 8))  # macOS: SOL_LOCAL, LOCAL_PEERCRED, head of struct xucred
    return uid, 0
