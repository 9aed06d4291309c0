"""Traces over OpenTelemetry, if its standard variables name a receiver and the extra `telemetry` is installed."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kgd import __version__, tracing

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider

FLUSH_SECONDS = 2.0

log = logging.getLogger("kgd.serve")


def start() -> None:
    """Record the spans of this process, and send them in the background. Without the extra, only log a warning."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.warning("no traces are sent: run `uv tool install '.[telemetry]'` in the clone of kgd")
        return
    usual = Resource({"service.name": "kgd", "service.version": __version__})
    provider = TracerProvider(resource=usual.merge(OTELResourceDetector().detect()))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracing.record_with(Recorder(provider))
    log.info("sending traces")


class Recorder:
    """Implements `kgd.tracing.Recorder`."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider, self._tracer = provider, provider.get_tracer("kgd", __version__)

    @contextmanager
    def span(self, name: str, attributes: Mapping[str, str]) -> Iterator[tracing.Span]:
        from opentelemetry.trace import SpanKind

        request = tracing.current()
        is_first = request is not None and request.span is None
        kind = SpanKind.SERVER if is_first else SpanKind.INTERNAL
        with self._tracer.start_as_current_span(name, _context_of(request), kind, attributes) as span:
            if request is not None and is_first:
                request.span = span
            yield span

    def flush(self) -> None:
        self._provider.force_flush(int(FLUSH_SECONDS * 1_000))


def _context_of(request: tracing.Request | None) -> Context | None:
    """The parent of a request's next span; None for the current span. The threads of an MCP session have the context of
    its first request."""
    from opentelemetry import trace
    from opentelemetry.propagate import extract

    if request is None:
        return None
    if request.span is None:
        return extract(request.parent)
    own = request.span
    assert isinstance(own, trace.Span)
    if trace.get_current_span().get_span_context().trace_id == own.get_span_context().trace_id:
        return None
    return trace.set_span_in_context(own)
