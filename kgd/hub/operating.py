"""Routes for operators' programs: `/live`, `/ready` and `/metrics`. Each request is counted and has an id.

Probes need no token, so their answers name no workspace, server or person.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio
import anyio.to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kgd import __version__, metrics, tracing
from kgd.daemon.metrics import text
from kgd.errors import Forbidden, KgdError
from kgd.hub import problem
from kgd.model.access import Verb
from kgd.tools import SERVED

if TYPE_CHECKING:
    from kgd.daemon.daemon import Daemon
    from kgd.hub.authentication import Gate

CHECK_SECONDS = 1.0
"""Seconds for which a result of the checks is reused, because anyone may ask."""
WARM_SECONDS = 3.0
"""Seconds after which a hub is ready although workspaces are still being opened: calls open them when needed."""
RETRY_SECONDS, RETRIED = 5.0, 8
"""Seconds between two rounds with failing upstreams, and the largest number of upstreams in a round."""

OK, LOST = "ok", "unreachable"
SURFACES = {"v1": "v1", "mcp": "mcp", "git": "git", "ui": "pages"}
PROBE, GONE = "probe", 499
"""The surface of probes; the status if the client left before its answer."""
PROBES = ("health", "live", "ready", "metrics")
GIT = ("refs", "git-upload-pack", "git-receive-pack")

log = logging.getLogger("kgd.requests")
R = TypeVar("R")


class Readiness:
    """Whether a load balancer should send requests to this hub. For use by one thread at a time."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon, self._since = daemon, time.monotonic()
        self._checked_at, self._retried_at = float("-inf"), float("-inf")
        self._checks: dict[str, str] = {}
        self.is_draining = self.is_suspect = False
        """`is_suspect`: a call was answered 503 since the last round, so an upstream may have failed."""

    def checks(self) -> dict[str, str]:
        """The result of each check: `ok`, or the problem. Blocks for at most five seconds."""
        if time.monotonic() - self._checked_at > CHECK_SECONDS:
            self._checks = {"state": self._state(), "upstream": self._upstream(), "warm": self._warm()}
            self._checked_at = time.monotonic()
        return self._checks

    def _state(self) -> str:
        shared = self._daemon.shared
        return OK if shared is None or shared.is_reachable else LOST

    def _warm(self) -> str:
        is_late = time.monotonic() - self._since > WARM_SECONDS
        return OK if self._daemon.is_warm or is_late else "opening workspaces"

    def _upstream(self) -> str:
        """One slow or broken upstream concerns only its workspace; if all fail, this hub is cut off."""
        syncings = [(one, machine) for one in self._daemon.syncings().values() if (machine := one.upstream_machine)]
        failing = [one for one, machine in syncings if machine.trouble]
        reached = [one for one, machine in syncings if not machine.trouble]
        if (failing or self.is_suspect) and time.monotonic() - self._retried_at > RETRY_SECONDS:
            self._retried_at, self.is_suspect = time.monotonic(), False
            for one in [*failing, *reached][:RETRIED]:  # the regular rounds with a failing one are minutes apart
                one.retry()
        return LOST if failing and not reached else OK


class Operating:
    """The routes of one hub."""

    def __init__(self, daemon: Daemon, gate: Gate, readiness: Readiness) -> None:
        self._daemon, self._gate, self.readiness = daemon, gate, readiness
        self._threads = anyio.CapacityLimiter(1)

    def routes(self) -> list[Route]:
        return [Route("/live", self.live), Route("/ready", self.ready), Route("/metrics", self.metrics)]

    async def live(self, request: Request) -> Response:
        """Liveness probe: this process answers."""
        return JSONResponse({"status": "ok", "version": __version__})

    async def ready(self, request: Request) -> Response:
        """Readiness probe: 200, or 503 with the checks that failed."""
        if self.readiness.is_draining:
            return JSONResponse({"status": "draining"}, 503)
        checks = await self._on_thread(self.readiness.checks)
        is_ready = all(found == OK for found in checks.values())
        status = "ready" if is_ready else "not ready"
        return JSONResponse({"status": status, "checks": checks}, 200 if is_ready else 503)

    async def metrics(self, request: Request) -> Response:
        """Metrics, for tokens with `admin`. Metrics of a workspace need `admin` there."""
        try:
            found = await self._on_thread(partial(self._metrics, request.headers.get("authorization", "")))
        except KgdError as error:
            return problem(error)
        return Response(found, media_type=metrics.MEDIA_TYPE)

    async def _on_thread(self, function: Callable[[], R]) -> R:
        """Run one probe at a time: while PostgreSQL hangs, probes must not use up the threads of other calls."""
        return await anyio.to_thread.run_sync(function, limiter=self._threads)

    def _metrics(self, authorization: str) -> str:
        record = self._gate.admit(authorization)
        workspaces = {one.workspace for one in record.holder.scopes if Verb.ADMIN in one.verbs and one.is_whole}
        if not workspaces:
            raise Forbidden(
                "metrics need a token with admin", at="Authorization", next="Run `kgd hub top` on the hub's machine."
            )
        return text(self._daemon, workspaces)


class Observed:
    """Middleware: counts each request, logs it with its id, and ends connections while the hub drains."""

    def __init__(self, app: ASGIApp, readiness: Readiness) -> None:
        self._app, self._readiness = app, readiness

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 0
        made = tracing.arrived(Headers(scope=scope), lambda: secrets.token_hex(16))
        surface, operation = _place(scope["path"])

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                metrics.REQUEST_SECONDS.observe(time.monotonic() - began, surface)
                headers = MutableHeaders(scope=message)
                headers.setdefault("x-request-id", made.id)
                if self._readiness.is_draining:
                    headers["connection"] = "close"
            await send(message)

        with tracing.during(made):
            try:
                with _span(surface, operation) as span:
                    await self._app({**scope, tracing.REQUEST: made}, receive, answer)
                    if span:
                        span.set_attribute("http.response.status_code", status)
            finally:
                operation = made.facts.pop("operation", operation)
                metrics.REQUESTS.add(surface, operation, str(status or GONE))
                if surface != PROBE:
                    self._readiness.is_suspect |= status == 503
                    took = round((time.monotonic() - began) * 1_000, 1)
                    facts = {"surface": surface, "operation": operation, "status": status or GONE, "ms": took}
                    log.info("request", extra={**facts, **made.facts})


def _span(surface: str, operation: str) -> AbstractContextManager[tracing.Span | None]:
    if surface == PROBE:
        return nullcontext()
    return tracing.span("request", surface=surface, operation=operation)


def _place(path: str) -> tuple[str, str]:
    """The surface and the operation of a path, from fixed lists: clients cannot add labels."""
    parts = [*path.split("/")[1:5], "", "", ""]
    if parts[0] in PROBES:
        return PROBE, parts[0]
    surface = SURFACES.get(parts[0], "other")
    if surface == "v1":
        return surface, parts[2] if parts[2] in SERVED else "other"
    if surface == "git":
        return surface, {"info": "refs"}.get(parts[2], parts[2]) if parts[2] in (*GIT, "info") else "other"
    return surface, ""
