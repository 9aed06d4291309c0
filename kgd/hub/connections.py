"""Connections of the HTTP servers: time limits and, for a hub, a bound on the number of connections.

A connection whose last request had no valid token belongs to a *stranger*. Strangers are dropped first, beginning with
the oldest, so that they cannot keep out the holders of tokens.
"""

from __future__ import annotations

import asyncio
import resource
import time
from collections import OrderedDict
from functools import lru_cache
from ipaddress import ip_address, ip_network
from typing import Any

from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from kgd.daemon.request_bodies import RECOGNISED
from kgd.daemon.tokens import TooMuch
from kgd.hub import problem

HEADER_LIMIT = 64 << 10
"""Largest size in bytes of a request's header, including its URL; the graph page has long URLs."""
HEADER_SECONDS = 10.0
"""Seconds from the first byte of a request, or the start of the connection, to the end of the header or handshake."""
STRANGER_IDLE_SECONDS = 5
"""Seconds of keep-alive without a token."""
STRANGER_SECONDS = 30.0
"""Seconds for one request without a token, from its header to the last byte of its answer."""
LINGER_SECONDS = 2.0
"""Seconds for discarding the rest of a body after its answer, so that the client still reads the answer."""
CLOSE_SECONDS = 12.0
"""Seconds for a closed connection to deliver the rest of its answer."""
SEND_SECONDS = 30.0
"""Seconds for a client to read `PIECE` bytes of an answer."""
PIECE = 16 << 10
"""Number of bytes of an answer that are buffered for a client at a time."""
READ, STRANGER_READ = 64 << 10, 16 << 10
"""Number of bytes that are read from a connection at a time."""
UNREAD_LIMIT, STRANGER_UNREAD = 8 << 20, 256 << 10
"""Number of bytes of an unread body to discard before reading pauses, so that the client reads its answer."""

CONNECTIONS_LIMIT = 1_000
"""Largest number of connections; half of the process's file descriptors if that is less."""
ADDRESS_SHARE = TOKEN_SHARE = 4
"""Divisors of the largest number: the share of the connections that an address, or a token, may hold."""
STRANGER_BURST, STRANGER_RATE = 100, 5
"""Number of connections and requests without a token that one address may make at once, and then per second."""
STRANGERS_BURST, STRANGERS_RATE = 200, 25
"""The same limits for all addresses without a recent valid token together: one for new, one for known addresses."""
ADDRESSES_KEPT = 4_096
HEADER_READS, STRANGER_READS = 64, 512
"""Number of reads for a stranger's header, and for its whole request: reading a few bytes costs as much as many."""


class Connection(H11Protocol):
    """HTTP/1.1 with time limits for receiving a header, for discarding an unread body, and for slow readers."""

    _deadline: asyncio.TimerHandle | None = None
    _waits: float | None = None
    _unread, _unread_limit = 0, UNREAD_LIMIT

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=PIECE)
        self._read_at_most(READ)
        self._wait()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._waits == LINGER_SECONDS:
            self._unread += len(data)
            if self._unread > self._unread_limit:
                self.flow.pause_reading()
        self._wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def timeout_keep_alive_handler(self) -> None:
        """Disables the server's own timer, which covers only keep-alive."""

    def end(self) -> None:
        """Close without waiting for a client that does not read."""
        if self.transport is not None:
            self.transport.abort()

    def _read_at_most(self, size: int) -> None:
        self.transport.max_size = size  # type: ignore[attr-defined]  # an attribute of asyncio's own transports

    def _wait(self) -> None:
        """Start the timer for the connection's state, if the state has changed."""
        seconds = self._seconds()
        if seconds != self._waits:
            self._stop_waiting()
            self._waits = seconds
            if seconds is not None:
                self._unread = 0
                self._deadline = self.loop.call_later(seconds, self.end)

    def _seconds(self) -> float | None:
        if self.transport.is_closing():
            return CLOSE_SECONDS
        if self.cycle is not None and not self.cycle.response_complete:
            return None
        if self.conn.our_state is not self.conn.their_state:  # answered, and still sending its body
            return LINGER_SECONDS
        is_between = self.cycle is not None and not self.conn.trailing_data[0]
        return float(self.timeout_keep_alive) if is_between else HEADER_SECONDS

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._waits = None


class HubConnection(Connection):
    """A connection in a hub's table."""

    def __init__(self, table: Connections, address: str, **known: Any) -> None:
        super().__init__(**known)
        self._table, self._app = table, self.app
        self.app = self._answer
        self._keep_alive = self.timeout_keep_alive
        self.address, self.since = address, 0.0
        self.line = ""
        """The root token of its last request; empty for a stranger."""
        self.is_busy, self._is_paid = False, True
        self._reads = 0
        self.opening: asyncio.Task[None] | None = None
        """Runs until the connection is established, including a TLS handshake."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._read_at_most(STRANGER_READ)
        self._unread_limit = STRANGER_UNREAD

    def data_received(self, data: bytes) -> None:
        self._reads += 1
        if not self.line and self._reads > (HEADER_READS if self._waits == HEADER_SECONDS else STRANGER_READS):
            self.end()
            return
        super().data_received(data)
        if self._waits is None and not self.line:
            self.flow.pause_reading()  # until the application reads the body, which it does only for holders

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.remove(self)
        super().connection_lost(exc)
        self.app, self.opening = self._app, None  # breaks reference cycles

    def end(self) -> None:
        if self.transport is None and self.opening is not None:
            self.opening.cancel()
        super().end()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        was_stranger, self.is_busy, is_stranger = not self.line, True, True
        self.timeout_keep_alive, self._reads = STRANGER_IDLE_SECONDS, 0

        def recognised(line: str) -> None:
            nonlocal is_stranger
            self._table.recognise(self, line)
            self.timeout_keep_alive, is_stranger = self._keep_alive, False
            self._read_at_most(READ)
            self._unread_limit = UNREAD_LIMIT
            limit.reschedule(None)

        app, was_paid, self._is_paid = self._app, self._is_paid, False
        if was_stranger and not was_paid and not self._table.allows(self.address):
            app = problem(TooMuch("this address sends too many requests without a token", 2))
            app.headers["connection"] = "close"  # any other answer costs more than a refused connection
        try:
            async with asyncio.timeout(STRANGER_SECONDS) as limit:
                await app({**scope, RECOGNISED: recognised}, receive, self._in_pieces(send))
        except TimeoutError:
            self.end()
        finally:
            self.is_busy = False
            self._table.answered(self, is_stranger=is_stranger)

    def _in_pieces(self, send: Send) -> Send:
        """Send long answers in pieces, so that little memory is held for a client that does not read."""

        async def sent(message: Message) -> None:
            body = message.get("body", b"")
            for start in range(0, len(body) or 1, PIECE):
                if self.transport.is_closing():
                    self.cycle.disconnected = True
                    return
                end = start + PIECE
                piece = {"body": body[start:end], "more_body": message.get("more_body") or end < len(body)}
                async with asyncio.timeout(SEND_SECONDS):
                    await send({**message, **piece} if len(body) > PIECE else message)

        return sent


class Connections:
    """The connections of one hub. For use on the event loop.

    Args:
        by_address: Whether to limit each address; all clients of a proxy share one address.
    """

    def __init__(self, *, by_address: bool) -> None:
        self.limit = min(CONNECTIONS_LIMIT, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        self._by_address = by_address
        self._strangers: OrderedDict[HubConnection, None] = OrderedDict()
        self._holders: dict[HubConnection, None] = {}
        self._of_address: dict[str, OrderedDict[HubConnection, None]] = {}
        self._new, self._again = (Allowance(STRANGERS_BURST, STRANGERS_RATE) for _ in range(2))
        self._each: OrderedDict[str, Allowance] = OrderedDict()
        self._known: OrderedDict[str, None] = OrderedDict()
        """Addresses that sent a valid token, the latest one last."""

    def __len__(self) -> int:
        return len(self._strangers) + len(self._holders)

    def make_room(self, address: str) -> bool:
        """Whether to accept another connection from this address; drops an older one if necessary."""
        if not self.allows(address):
            return False
        near = self._of_address.get(address, ())
        if self._by_address and len(near) >= self.limit // ADDRESS_SHARE:
            return self._drop_one(near)
        return len(self) < self.limit or self._drop_one((*self._strangers, *self._holders))

    def add(self, connection: HubConnection) -> None:
        connection.since = time.monotonic()
        self._strangers[connection] = None
        self._of_address.setdefault(connection.address, OrderedDict())[connection] = None

    def remove(self, connection: HubConnection) -> None:
        self._strangers.pop(connection, None)
        self._holders.pop(connection, None)
        near = self._of_address.get(connection.address)
        if near is not None and near.pop(connection, connection) is None and not near:
            del self._of_address[connection.address]

    def recognise(self, connection: HubConnection, line: str) -> None:
        """Record a connection's valid token. Raises TooMuch if it has too many connections and none is idle."""
        if connection.line == line:
            return
        same = [one for one in self._holders if one.line == line]
        if len(same) >= self.limit // TOKEN_SHARE and not self._drop_one(same):
            raise TooMuch(f"this token already has {len(same)} connections", 2)
        connection.line = line
        if self._strangers.pop(connection, connection) is None:
            self._holders[connection] = None
        self._refund(connection.address)

    def answered(self, connection: HubConnection, *, is_stranger: bool) -> None:
        """Record the end of a request."""
        connection.since = time.monotonic()
        if is_stranger and self._holders.pop(connection, connection) is None:
            connection.line = ""
            self._strangers[connection] = None

    def allows(self, address: str) -> bool:
        """Whether a stranger from this address may connect or send a request now; counts it."""
        if not self._by_address:
            return True
        now, everybody = time.monotonic(), self._again if address in self._each else self._new
        each = self._of(address)
        return each.has(1, now) and (address in self._known or everybody.take(1, now)) and each.take(1, now)

    def drop_a_stranger(self) -> None:
        """Drop a stranger to free a file descriptor."""
        for one in self._strangers:
            self._drop(one)
            return

    def _drop_one(self, among: Any) -> bool:
        """Drop the oldest stranger among these connections or, if there is none, the holder idle the longest. Returns
        whether a connection was dropped."""
        found = next((one for one in among if not one.line), None)
        found = found or min((one for one in among if not one.is_busy), key=lambda one: one.since, default=None)
        if found is not None:
            self._drop(found)
        return found is not None

    def _drop(self, connection: HubConnection) -> None:
        self.remove(connection)
        connection.end()

    def _refund(self, address: str) -> None:
        """Refund the cost of a connection whose client sent a valid token."""
        self._of(address).take(-1, time.monotonic())
        if address not in self._known:
            self._new.take(-1, time.monotonic())
        _keep(self._known, address, None)

    def _of(self, address: str) -> Allowance:
        found = self._each.get(address) or Allowance(STRANGER_BURST, STRANGER_RATE)
        _keep(self._each, address, found)
        return found


class Allowance:
    """A token bucket; `rate` is per second."""

    def __init__(self, burst: int, rate: float) -> None:
        self._burst, self._rate = burst, rate
        self._left, self._at = float(burst), 0.0

    def has(self, amount: int, now: float) -> bool:
        self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now
        return self._left >= amount

    def take(self, amount: int, now: float) -> bool:
        """Take the amount if it is available; returns whether it was. A negative amount is a refund."""
        is_enough = self.has(amount, now)
        if is_enough:
            self._left -= amount
        return is_enough


def _keep(kept: OrderedDict[str, Any], address: str, value: Any) -> None:
    kept[address] = value
    kept.move_to_end(address)
    if len(kept) > ADDRESSES_KEPT:
        kept.popitem(last=False)


@lru_cache(maxsize=ADDRESSES_KEPT)
def block_of(host: str) -> str:
    """The unit of rate limits: an IPv4 address, or the /64 network of an IPv6 address."""
    address = ip_address(host.partition("%")[0])
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or (address if address.version == 4 else ip_network(f"{address}/64", strict=False)))
