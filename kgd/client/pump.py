"""`kgd mcp`: copies MCP messages between a host's stdio and the daemon, and outlives the daemon.

One poll loop forwards whole lines. When a daemon retires, the next one takes over unnoticed by the host. When a
daemon dies, its unanswered requests fail, and the next request starts another daemon. If no daemon runs at the
beginning, a thread starts one, and until it is ready `first_answers` gives known answers. Standard output carries only
the protocol. A ledger of unanswered requests has the messages that a new daemon must receive again. Imports that the
first message does not need are deferred until it has been sent.
"""

from __future__ import annotations

import _socket as socket
import os
import select
import time

from kgd.client import REPLAY, renamed, start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from kgd.client.first_answers import FirstContact
    from kgd.config import Home

STDIN, STDOUT = 0, 1
CHUNK = 262144
PIPE_CHUNK = 4096
"""Number of bytes that a writable pipe takes without blocking (POSIX: PIPE_BUF)."""
HIGH_WATER = 2**20
PAUSE_MILLISECONDS = 5.0
FIRST_LINE_MILLISECONDS = 5.0
"""Seconds that the start of a daemon waits for the host's first line."""
NOTES_LIMIT = 64
"""Number of unparsed notes after which the ledger is parsed even without a pause in the traffic."""
LINE_LIMIT = 8 * 2**20
LAST_ANSWERS_SECONDS = 10.0
REPLAY_SECONDS = 15.0
UNINSTALLED = "kgd was uninstalled"
LONG_LIVED = "subscriptions/listen"
GONE = (
    "the kgd daemon ended before it answered. Repeat the call: a change with the same request_id is applied only once."
)


class Pump:
    """The state of one `kgd mcp`; `run` returns the exit code."""

    def __init__(self, home: Home, greeting: bytes, tools: str = "") -> None:
        self._home, self._greeting, self._tools = home, greeting, tools
        self._sock: socket.socket | None = None
        self._starting: int | None = None
        """While the first daemon starts: a pipe that closes when `_started` is set."""
        self._started: socket.socket | BaseException | None = None
        self._is_early = False
        """Whether the first daemon has been started and has not answered yet."""
        self._contact: FirstContact | None = None
        self._to_host, self._to_daemon = bytearray(), bytearray()
        self._from_host, self._from_daemon = bytearray(), bytearray()
        self._book: Ledger | None = None
        self._is_open = True
        self._deadline = 0.0
        self._polled, self._masks = select.poll(), dict[int, int]()
        self._host_takes = select.poll()
        self._host_takes.register(STDOUT, select.POLLOUT)

    def run(self) -> int:
        self._connect()
        while not self._is_done():
            behind = self._book.behind if self._book else 0
            if behind > NOTES_LIMIT:
                self._ledger.settle()
            ready = self._poll(PAUSE_MILLISECONDS if behind else self._patience())
            if not ready and behind:
                self._ledger.settle()
            for fd, event in ready:
                if fd == STDOUT:
                    if not self._write_to_host(event):
                        return 0
                elif self._sock is not None and fd == self._sock.fileno():
                    self._serve_socket(event)
                elif fd == self._starting:
                    self._finish_start()
                elif fd == STDIN:
                    self._read_from_host()
        return 0

    @property
    def _ledger(self) -> Ledger:
        if self._book is None:
            self._book = Ledger()
        return self._book

    def _is_done(self) -> bool:
        """Whether the host has closed its end, and the last answer is written or overdue."""
        if self._is_open:
            return False
        if self._starting is not None and self._book is not None and self._book.is_waiting():
            return False
        if time.monotonic() > self._deadline:
            return True
        return not self._to_host and (self._sock is None or self._book is None or not self._book.is_waiting())

    def _patience(self) -> float | None:
        if self._is_open or self._starting is not None:
            return None
        return max(0.0, self._deadline - time.monotonic()) * 1000

    def _poll(self, milliseconds: float | None) -> list[tuple[int, int]]:
        if self._is_open and len(self._to_daemon) < HIGH_WATER:
            self._want(STDIN, select.POLLIN)
        else:
            self._want(STDIN, None)
        if self._sock is not None:
            wanted = select.POLLIN if len(self._to_host) < HIGH_WATER else 0
            self._want(self._sock.fileno(), wanted | (select.POLLOUT if self._to_daemon else 0))
        self._want(STDOUT, select.POLLOUT if self._to_host else 0)
        return self._polled.poll(milliseconds)

    def _want(self, fd: int, mask: int | None) -> None:
        if self._masks.get(fd) == mask:
            return
        if mask is None:
            self._polled.unregister(fd)
            del self._masks[fd]
        else:
            self._polled.register(fd, mask)
            self._masks[fd] = mask

    def _read_from_host(self) -> None:
        chunk = os.read(STDIN, CHUNK)
        if not chunk:
            self._is_open, self._deadline = False, time.monotonic() + LAST_ANSWERS_SECONDS
            chunk = b"\n" if self._from_host else b""  # completes a last line without a newline
        lines = _whole_lines(self._from_host, chunk)
        if not lines:
            if len(self._from_host) > LINE_LIMIT:
                self._refuse_long_lines()
            return
        if len(lines) > LINE_LIMIT:
            lines = self._without_long_lines(lines)
        self._ledger.up(lines)
        if self._is_early:
            lines = self._answer_early(lines)
        elif self._sock is None:
            self._connect()
            return
        self._to_daemon += lines
        self._send()

    def _answer_early(self, lines: bytes) -> bytes:
        """Give the host the known answers; returns the lines for the daemon."""
        if self._contact is None:
            from kgd.client.first_answers import FirstContact

            self._contact = FirstContact(self._home, self._tools)
        answers, lines = self._contact.split(lines)
        self._give_host(answers)
        return lines

    def _serve_socket(self, event: int) -> None:
        assert self._sock is not None
        if event & select.POLLOUT:
            self._send()
        if not event & (select.POLLIN | select.POLLHUP | select.POLLERR):
            return
        try:
            chunk = self._sock.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self._lose_daemon(GONE)
            return
        if lines := _whole_lines(self._from_daemon, chunk):
            self._pass_down(lines)

    def _pass_down(self, lines: bytes) -> None:
        """Forward lines to the host, except the daemon's last line if it retires."""
        self._is_early = False
        before, retired, _ = lines.partition(b'{"kgd":"retired"}')
        if retired and (not before or before.endswith(b"\n")):
            lines = before
        else:
            retired = b""
        if self._contact and self._contact.is_checking:
            lines = self._contact.check(lines)
        self._give_host(lines)
        if retired:
            self._hang_up()
            self._connect()

    def _give_host(self, lines: bytes) -> None:
        if not lines:
            return
        self._to_host += lines
        self._ledger.down(lines)
        if self._host_takes.poll(0) == [(STDOUT, select.POLLOUT)]:
            self._write_to_host(select.POLLOUT)

    def _send(self) -> None:
        try:
            while self._sock is not None and self._to_daemon:
                del self._to_daemon[: self._sock.send(self._to_daemon)]
        except OSError:
            pass  # poll reports when there is room; the next read notices a closed socket

    def _write_to_host(self, event: int) -> bool:
        """Write to the host; returns False if the host has closed its end."""
        if event & (select.POLLERR | select.POLLNVAL):
            return False
        try:
            if self._to_host:
                del self._to_host[: os.write(STDOUT, self._to_host[:PIPE_CHUNK])]
        except BrokenPipeError:
            return False
        return True

    def _connect(self) -> None:
        """Connect to a daemon, replay the session's state, and send the unanswered requests again.

        Before the first message, a missing daemon is started in the background.
        """
        from_book = self._book is not None
        if from_book and start.is_uninstalled(self._home):
            self._lose_daemon(UNINSTALLED)
            return
        try:
            self._sock = start.connect(self._home, self._greeting, start=from_book)
            if self._sock is None:
                self._start()
                return
            if from_book:
                self._replay(self._sock)
                self._to_daemon += b"".join(line for _, line in self._ledger.unanswered())
            self._sock.setblocking(False)
            self._send()
        except Exception as error:  # noqa: BLE001 - the host must receive any error in its own protocol
            self._lose_daemon(f"{error}")

    def _start(self) -> None:
        import _thread  # the module threading takes as long as the first answer

        self._is_early = True
        host = select.poll()
        host.register(STDIN, select.POLLIN)
        if host.poll(FIRST_LINE_MILLISECONDS):  # answer first: the thread's imports would delay the answer
            self._read_from_host()
        self._starting, done = os.pipe()
        self._want(self._starting, select.POLLIN)
        _thread.start_new_thread(self._run_start, (done,))

    def _run_start(self, done: int) -> None:
        try:
            self._started = start.connect(self._home, self._greeting)
        except BaseException as error:  # noqa: BLE001 - the host must receive any error in its own protocol
            self._started = error
        os.close(done)

    def _finish_start(self) -> None:
        """Send the daemon everything that the host has sent so far."""
        assert self._starting is not None
        self._want(self._starting, None)
        os.close(self._starting)
        self._starting = None
        self._deadline = time.monotonic() + LAST_ANSWERS_SECONDS
        if not isinstance(self._started, socket.socket):
            self._lose_daemon(f"{self._started}")
            return
        self._sock, self._started = self._started, None
        self._sock.setblocking(False)
        self._send()

    def _replay(self, sock: socket.socket) -> None:
        first, initialized, subscriptions = self._ledger.replay()
        sock.settimeout(REPLAY_SECONDS)
        for line in first:
            self._ask_again(sock, line)
        if first:
            sock.sendall(initialized)
        for line in subscriptions:
            self._ask_again(sock, line)

    def _ask_again(self, sock: socket.socket, line: bytes) -> None:
        """Repeat a request and drop its answer; other messages go to the host."""
        import json

        sock.sendall(line)
        while True:
            while b"\n" not in self._from_daemon:
                if not (chunk := sock.recv(CHUNK)):
                    raise ConnectionError(GONE)
                self._from_daemon += chunk
            end = self._from_daemon.index(b"\n") + 1
            answer = bytes(self._from_daemon[:end])
            del self._from_daemon[:end]
            if str(json.loads(answer).get("id")).startswith(REPLAY):
                return
            self._to_host += answer

    def _hang_up(self) -> None:
        if self._sock is not None:
            self._want(self._sock.fileno(), None)
            self._sock.close()
        self._sock = self._contact = None
        self._is_early = False
        self._to_daemon.clear()
        self._from_daemon.clear()

    def _lose_daemon(self, reason: str) -> None:
        """Answer every open request with an error. The next line connects again, unless kgd was uninstalled."""
        self._hang_up()
        if start.is_uninstalled(self._home):
            self._is_open, self._deadline, reason = False, time.monotonic() + LAST_ANSWERS_SECONDS, UNINSTALLED
        if self._book is None:
            return
        for key, _ in self._book.unanswered():
            self._to_host += _error(key, reason)
        self._book.forget_unanswered()

    def _refuse_long_lines(self) -> None:
        """Refuse an oversized line whose end has not arrived; the remainder is read and dropped."""
        from kgd.client.connection import OVERSIZED_ENDS

        head, tail = bytes(self._from_host[:OVERSIZED_ENDS]), bytes(self._from_host[-OVERSIZED_ENDS:])
        self._from_host.clear()
        while (chunk := os.read(STDIN, CHUNK)) and b"\n" not in chunk:
            tail = (tail + chunk)[-OVERSIZED_ENDS:]
        end, _, rest = chunk.partition(b"\n")
        self._from_host += rest
        self._refuse(head, (tail + end)[-OVERSIZED_ENDS:])

    def _without_long_lines(self, lines: bytes) -> bytes:
        kept = []
        for line in lines.splitlines(keepends=True):
            if len(line) <= LINE_LIMIT:
                kept.append(line)
            else:
                self._refuse(line, line)
        return b"".join(kept)

    def _refuse(self, head: bytes, tail: bytes) -> None:
        from kgd.client.connection import OVERSIZED_CODE, OVERSIZED_ENDS, OVERSIZED_REASON, request_id

        self._to_host += _error(
            request_id(head[:OVERSIZED_ENDS], tail[-OVERSIZED_ENDS:]), OVERSIZED_REASON, OVERSIZED_CODE
        )


class Ledger:
    """The messages between host and daemon. Parsing is deferred to `settle`, so that it does not delay forwarding."""

    def __init__(self) -> None:
        self._unread: list[tuple[bool, bytes]] = []
        self._open: dict[str | int, tuple[str, bytes]] = {}
        self._initialize = b""
        self._initialized = b""
        self._watched: dict[str, bytes] = {}
        """Requests that last until the connection ends: subscriptions by resource, and the log level."""

    def up(self, lines: bytes) -> None:
        """Note whole lines from the host, before they are sent."""
        self._unread.append((True, lines))

    def down(self, lines: bytes) -> None:
        """Note whole lines from the daemon."""
        self._unread.append((False, lines))

    @property
    def behind(self) -> int:
        """The number of unparsed notes."""
        return len(self._unread)

    def settle(self) -> None:
        """Parse the notes. Lines that are not JSON objects are ignored."""
        import json  # the import takes 7 ms, which should not delay the first message

        unread, self._unread = self._unread, []
        for upward, lines in unread:
            for line in lines.splitlines():
                try:
                    message = json.loads(line)
                except ValueError:
                    continue
                if isinstance(message, dict):
                    (self._note_up if upward else self._note_down)(message, line + b"\n")

    def unanswered(self) -> list[tuple[str | int, bytes]]:
        """The id and line of each request without an answer, in order."""
        self.settle()
        return [(key, line) for key, (_, line) in self._open.items()]

    def is_waiting(self) -> bool:
        """Whether an answer is due, except to long-lived subscriptions."""
        self.settle()
        return any(method != LONG_LIVED for method, _ in self._open.values())

    def forget_unanswered(self) -> None:
        self._open.clear()

    def replay(self) -> tuple[list[bytes], bytes, list[bytes]]:
        """The first messages for a new daemon: `initialize`; `initialized`, which has no answer; subscriptions and the
        log level.

        Empty for a host of the modern protocol, or if `initialize` is unanswered, because this request is then sent
        again anyway.
        """
        self.settle()
        if not self._initialize or any(method == "initialize" for method, _ in self._open.values()):
            return [], b"", []
        again = [renamed(line, f"{REPLAY}{n}") for n, line in enumerate([self._initialize, *self._watched.values()])]
        return again[:1], self._initialized, again[1:]

    def _note_up(self, message: dict[str, Any], line: bytes) -> None:
        method, key = message.get("method"), message.get("id")
        if not isinstance(method, str):
            return
        parameters = message.get("params")
        target = parameters if isinstance(parameters, dict) else {}
        if isinstance(key, str | int):
            self._open[key] = (method, line)
        if method == "initialize":
            self._initialize = line
        elif method == "notifications/initialized":
            self._initialized = line
        elif method == "resources/subscribe":
            self._watched[str(target.get("uri"))] = line
        elif method == "resources/unsubscribe":
            self._watched.pop(str(target.get("uri")), None)
        elif method == "logging/setLevel":
            self._watched[method] = line
        elif method == "notifications/cancelled":
            self._open.pop(target.get("requestId"), None)  # type: ignore[arg-type]

    def _note_down(self, message: dict[str, Any], line: bytes) -> None:
        if "method" not in message and isinstance(key := message.get("id"), str | int):
            self._open.pop(key, None)


def _whole_lines(buffer: bytearray, chunk: bytes) -> bytes:
    """The lines that `chunk` completes; an incomplete line stays in `buffer`."""
    if not buffer and chunk.endswith(b"\n"):
        return chunk
    buffer += chunk
    end = buffer.rfind(b"\n", len(buffer) - len(chunk)) + 1
    lines = bytes(buffer[:end])
    del buffer[:end]
    return lines


def run(home: Home, tools: str = "") -> int:
    """`kgd mcp`: serve a host on standard input and output until it closes."""
    try:
        return Pump(home, start.hello("mcp", "kgd-mcp", tools), tools).run()
    except KeyboardInterrupt:
        return 130


def _error(key: str | int | None, reason: str, code: int = -32000) -> bytes:
    import json

    answer = {"jsonrpc": "2.0", "id": key, "error": {"code": code, "message": reason[:512]}}
    return json.dumps(answer).encode() + b"\n"
