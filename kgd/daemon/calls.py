"""This file is where one call of a client is run in its worker thread and its answer becomes a line."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from kgd.errors import Advice, KgdError, Limit, of_defect

ANSWER_LIMIT = 64 * 2**20
PROGRESS_SECONDS = 0.05

log = logging.getLogger("kgd.calls")


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end of one connection, as far as it says; only its user id was proven, by the kernel.

    `context_id` names the conversation: one connection has one, and its ActiveContext with it.
    """

    cwd: str = ""
    client: str = ""
    tools: str = ""
    version: str = ""
    pid: int = 0
    context_id: str = field(default_factory=lambda: secrets.token_hex(8))


class Call:
    """One call under way: who asks, whether they still want it, and a way to say how far it is.

    `cancelled` is set when the client has gone. It is a hint for long jobs; a change that began to be written is
    finished whatever it says.
    """

    __slots__ = ("_emit", "_last", "cancelled", "key", "peer")

    def __init__(self, peer: Peer, key: Any, emit: Callable[[bytes], None]) -> None:
        self.peer, self.key = peer, key
        self.cancelled = threading.Event()
        self._emit, self._last = emit, 0.0

    def progress(self, done: int, total: int | None = None, message: str = "") -> None:
        """Tell the client; at most twenty times a second, but always when `done` reaches `total`."""
        now = time.monotonic()
        if done != total and now - self._last < PROGRESS_SECONDS:
            return
        self._last = now
        report = {"done": done, "total": total, "message": message[:200]}
        self._emit(orjson.dumps({"id": self.key, "progress": report}) + b"\n")


Dispatch = Callable[[Call, str, dict[str, Any]], dict[str, Any]]


def answer(dispatch: Dispatch, call: Call, name: str, args: dict[str, Any]) -> bytes:
    """The line that answers a call, whatever happens in it."""
    try:
        line = _answer_line(call, "result", dispatch(call, name, args))
        if len(line) > ANSWER_LIMIT:
            raise Limit("the answer is larger than 64 MiB", next="Ask for less.")
        return line
    except KgdError as error:
        refusal = error.as_dict()
    except Exception as error:  # the edge of a request: log once, tell the client, carry on
        log.exception("a call failed", extra={"call": name[:64]})
        refusal = of_defect(error, at=name).as_dict()
    return _answer_line(call, "error", refusal)


def _answer_line(call: Call, kind: str, answer: Mapping[str, Any]) -> bytes:
    """One line for kgd's own clients. Beside the answer it has the parts of each `Advice`, which they reword."""
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
