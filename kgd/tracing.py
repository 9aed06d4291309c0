"""The request that a thread or task works on: its id in log lines and in the audit log, and its spans.

A request's context passes to the threads that work on it. Spans cost nothing until a recorder is set.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Protocol

REQUEST = "kgd.request"
"""Key of a `Request` in an ASGI scope."""
LONGEST = 150
_UNUSUAL = re.compile(r"[^\w.:/+=@-]", re.ASCII)
_PARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}").fullmatch


class Span(Protocol):
    def set_attribute(self, key: str, value: str | int, /) -> object: ...


@dataclass(slots=True)
class Request:
    """One request from outside.

    `is_given` tells whether the client or a proxy chose the id. `facts`, such as the token, become fields of its log
    line. `parent` has the headers that name the client's span, and `span` is the request's own.
    """

    id: str
    is_given: bool
    parent: Mapping[str, str]
    facts: dict[str, str] = field(default_factory=dict)
    span: Span | None = None


class Recorder(Protocol):
    """Records spans. `kgd.serve.telemetry` implements it."""

    def span(self, name: str, attributes: Mapping[str, str], /) -> AbstractContextManager[Span]:
        """A span of the current request that lasts as long as the context. The first one is the request's own."""

    def flush(self) -> object:
        """Send the recorded spans, within some seconds."""


_current: ContextVar[Request | None] = ContextVar("kgd_request", default=None)
_recorder: Recorder | None = None


def arrived(headers: Mapping[str, str], made: Callable[[], str]) -> Request:
    """A request with the id from its `X-Request-Id` or the trace of its `traceparent`, else with the `made` id.

    Unusual characters of the id become ``_``: in a line of the audit log, the id cannot look like the line's own text.
    """
    parent = {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
    given = headers.get("x-request-id", "")
    if not (0 < len(given) <= LONGEST and given.isprintable()):
        found = _PARENT(parent.get("traceparent", ""))
        given = found[1] if found else ""
    return Request(_UNUSUAL.sub("_", given) or made(), bool(given), parent)


def current() -> Request | None:
    return _current.get()


@contextmanager
def during(request: Request | None) -> Iterator[None]:
    """Work on a request, or on none, within the context."""
    before = _current.set(request)
    try:
        yield
    finally:
        _current.reset(before)


def given_id() -> str:
    """The id of the current request, if the client or a proxy chose it; else empty."""
    found = _current.get()
    return found.id if found and found.is_given else ""


def note(**facts: str) -> None:
    """Add facts to the log line of the current request, if there is one."""
    if found := _current.get():
        found.facts.update({name: text for name, text in facts.items() if text})


def record_with(recorder: Recorder | None) -> None:
    """Record all spans of this process from now on."""
    global _recorder
    _recorder = recorder


def span(name: str, **attributes: str) -> AbstractContextManager[Span | None]:
    return _recorder.span(name, attributes) if _recorder else nullcontext()


def flush() -> None:
    if _recorder:
        _recorder.flush()
