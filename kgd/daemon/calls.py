"""Calls of one connection, run in worker threads; and the working sets of conversations, which live as long as the
daemon."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import orjson

from kgd.errors import Advice, KgdError, Limit, of_defect
from kgd.model.uri import Uri

ANSWER_LIMIT = 64 * 2**20
PROGRESS_SECONDS = 0.05
DEFAULT_CAPACITY = 100
MAX_CONTEXTS = 1_000
MAX_ID = 128

log = logging.getLogger("kgd.calls")


@dataclass(frozen=True, slots=True)
class Peer:
    """The client of one connection, as it describes itself; only its user id is verified, by the kernel.

    `context_id` names the conversation and its ActiveContext; each connection has its own.
    """

    cwd: str = ""
    client: str = ""
    tools: str = ""
    version: str = ""
    pid: int = 0
    context_id: str = field(default_factory=lambda: secrets.token_hex(8))


class Call:
    """A running call: its client, cancellation and progress.

    `cancelled` is set when the client disconnects. It is a hint for long jobs; a write that has begun is finished.
    """

    __slots__ = ("_emit", "_last", "cancelled", "key", "peer")

    def __init__(self, peer: Peer, key: Any, emit: Callable[[bytes], None]) -> None:
        self.peer, self.key = peer, key
        self.cancelled = threading.Event()
        self._emit, self._last = emit, 0.0

    def progress(self, done: int, total: int | None = None, message: str = "") -> None:
        """Send progress at most twenty times a second, and always when `done` reaches `total`."""
        now = time.monotonic()
        if done != total and now - self._last < PROGRESS_SECONDS:
            return
        self._last = now
        report = {"done": done, "total": total, "message": message[:200]}
        self._emit(orjson.dumps({"id": self.key, "progress": report}) + b"\n")


Dispatch = Callable[[Call, str, dict[str, Any]], dict[str, Any]]


def answer(dispatch: Dispatch, call: Call, name: str, args: dict[str, Any]) -> bytes:
    """The answer to a call as a line; an error becomes a refusal."""
    log.debug("call", extra={"call": name[:64], "client": call.peer.client})
    try:
        line = _answer_line(call, "result", dispatch(call, name, args))
        if len(line) > ANSWER_LIMIT:
            raise Limit("the answer is larger than 64 MiB", next="Ask for less.")
        return line
    except KgdError as error:
        refusal = error.as_dict()
    except Exception as error:  # the boundary of a request: log once and answer
        log.exception("a call failed", extra={"call": name[:64]})
        refusal = of_defect(error, at=name).as_dict()
    return _answer_line(call, "error", refusal)


def _answer_line(call: Call, kind: str, answer: Mapping[str, Any]) -> bytes:
    """One line for kgd's own clients. The line has the answer and the parts of each `Advice`, which the clients put
    into their own words."""
    advice: list[Any] = []

    def plain(value: Any) -> Any:
        if isinstance(value, Advice):
            advice.append(value.as_list())
        base = next((one for one in (str, int, float, dict, list) if isinstance(value, one)), None)
        if base is None:
            raise TypeError
        return base(value)

    body = orjson.dumps(answer, plain, orjson.OPT_PASSTHROUGH_SUBCLASS)
    beside = b',"advice":' + orjson.dumps(advice) if advice else b""
    return b'{"id":%b%b,"%b":%b}\n' % (orjson.dumps(call.key), beside, kind.encode(), body)


# ---- MCP


class LineReader(Protocol):
    """The input of `serve_mcp`: one JSON-RPC message per line, ``b""`` at the end."""

    async def readline(self) -> bytes: ...


class LineWriter(Protocol):
    """The output of `serve_mcp`: whole lines only, then `drain`."""

    def write(self, data: bytes, /) -> None: ...

    async def drain(self) -> None: ...


class Oversized(ValueError):
    """A message beyond the reader's limit. It was consumed, so that the next one can be read."""

    def __init__(self, head: bytes, tail: bytes) -> None:
        super().__init__("a message is too long")
        self.head, self.tail = head, tail


# ---- working sets


class ActiveContext:
    """The nodes that one conversation saw most recently; the least recently used node is evicted first. Thread-safe."""

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self.capacity = max(1, capacity)
        self._seen: OrderedDict[Uri, None] = OrderedDict()
        self._fresh = True
        self._lock = threading.Lock()

    def touch(self, uris: Iterable[Uri]) -> list[Uri]:
        """Make these nodes the most recent, in this order with the last one newest, and return the evicted nodes,
        oldest first.

        If there are more URIs than the capacity, only the last ones stay, and the others are returned as evicted.
        """
        with self._lock:
            for uri in uris:
                self._seen[uri] = None
                self._seen.move_to_end(uri)
            surplus = len(self._seen) - self.capacity
            return [self._seen.popitem(last=False)[0] for _ in range(surplus)]

    def take_started_empty(self) -> bool:
        """True only on the first call, so that a new conversation gets one hint."""
        with self._lock:
            fresh, self._fresh = self._fresh, False
            return fresh

    @property
    def uris(self) -> list[Uri]:
        """The URIs, least recently used first."""
        with self._lock:
            return list(self._seen)


class ContextStore:
    """The contexts of all conversations by id. At most `MAX_CONTEXTS` are kept; the least recently used context is
    dropped first.

    Args:
        randbytes: Source of ids; an id is a capability, so the source must be cryptographic.
    """

    def __init__(self, randbytes: Callable[[int], bytes], *, capacity: int = DEFAULT_CAPACITY) -> None:
        self._randbytes = randbytes
        self._capacity = max(1, capacity)
        self._contexts: OrderedDict[str, ActiveContext] = OrderedDict()
        self._lock = threading.Lock()

    def open(self, context_id: str | None = None) -> tuple[str, ActiveContext]:
        """The context of that id, or a new one with a new id.

        If the id is unknown, because of a restart or because its context was dropped, an empty context is started under
        it, so that the conversation keeps its id. An invalid id is replaced.
        """
        usable = context_id and len(context_id) <= MAX_ID and context_id.isprintable()
        with self._lock:
            known = context_id if context_id and usable else f"ctx-{self._randbytes(16).hex()}"
            context = self._contexts.get(known)
            if context is None:
                context = self._contexts[known] = ActiveContext(self._capacity)
            self._contexts.move_to_end(known)
            while len(self._contexts) > MAX_CONTEXTS:
                self._contexts.popitem(last=False)
            return known, context

    def resize(self, capacity: int) -> None:
        """Set the capacity of every context; a larger context shrinks at its next touch."""
        capacity = max(1, capacity)
        if capacity != self._capacity:
            with self._lock:
                self._capacity = capacity
                for context in self._contexts.values():
                    context.capacity = capacity

    def seen(self, context_id: str) -> list[Uri]:
        """The nodes of a context, the most recent first; empty for an unknown id."""
        with self._lock:
            context = self._contexts.get(context_id)
        return context.uris[::-1] if context else []
