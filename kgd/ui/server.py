"""This file is where requests of browsers come in: what each has to pass, who asks, and which page answers.

A page is made in one worker thread. What was written is answered by another address, so that a reload repeats nothing.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import anyio
import anyio.to_thread
from starlette.datastructures import FormData, ImmutableMultiDict
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from kgd.daemon.bodies import RECOGNISED, Bodies
from kgd.daemon.daemon import Daemon
from kgd.daemon.tokens import TooMuch
from kgd.errors import Forbidden, Invalid, KgdError, NotFound, Unauthorized, Unavailable, of_defect
from kgd.model.token import TokenRecord
from kgd.tools.sight import sight
from kgd.ui import rendering
from kgd.ui.asked import ROOT, Asked, Go, Handled, Whole, address
from kgd.ui.entry import Entry
from kgd.ui.guard import ENTRY_LIMIT, FORM_LIMIT, Place, comes_from_elsewhere, form_of, refusal
from kgd.ui.live import Live
from kgd.ui.pages import ENTRIES, NAVIGATION, PAGES
from kgd.ui.sessions import Sessions, Visitor, is_proof, proof

THREADS = 40
"""Pages that are made at a time; further ones wait."""
DEADLINE = 60.0
"""Seconds that a page may take. What had begun to be written by then is finished all the same."""
SAID_LIMIT = 1_000
KEPT_SAID = 500
LONGEST_PLACE = 4_000
PROOF = "proof"
"""The field of every form that shows it to be ours."""
STATUS = {
    "VALIDATION_ERROR": 422, "NOT_FOUND": 404, "CONFLICT": 409, "INVARIANT_VIOLATION": 409, "FORBIDDEN": 403,
    "UNAUTHORIZED": 401, "LIMIT": 413, "UNAVAILABLE": 503, "DAMAGED": 503, "REFUSED_CONTENT": 422, "INTERNAL": 500,
}  # fmt: skip

log = logging.getLogger("kgd.ui")


__all__ = ["Door", "Place", "Ui"]


class Door(Protocol):
    """Who is let in beside the person of this machine: on a hub, the holders of its tokens."""

    def admit(self, authorization: str, size: int = 0) -> TokenRecord:
        """The record of a token that was typed in. Raises Unauthorized."""

    def again(self, id: str, size: int = 0) -> TokenRecord:
        """The record as it is now; counts the request. Raises Unauthorized where it has expired or was revoked."""

    def still_live(self, record: TokenRecord) -> None: ...
    def workspaces(self, record: TokenRecord) -> list[str]: ...


class Ui:
    """The pages of one daemon.

    Args:
        door: Who else is let in; None where only the person of this machine is.
    """

    def __init__(
        self, daemon: Daemon, sessions: Sessions, live: Live, place: Place, door: Door | None = None,
        bodies: Bodies | None = None,
    ) -> None:  # fmt: skip
        self._bodies = bodies or Bodies()
        self._daemon, self._sessions, self._live, self._place, self._door = daemon, sessions, live, place, door
        self._said: dict[str, str] = {}
        self._threads: anyio.CapacityLimiter | None = None

    def routes(self) -> list[Route]:
        """Everything below `/ui`."""
        return [
            Route(ROOT, self.first, methods=["GET"]),
            Route(f"{ROOT}/static/{{name}}", self.static, methods=["GET"]),
            Route(f"{ROOT}/in/{{code}}", self.link, methods=["GET"]),
            Route(f"{ROOT}/in", self.enter, methods=["POST"]),
            Route(f"{ROOT}/out", self.leave, methods=["POST"]),
            Route(f"{ROOT}/w/{{workspace}}/events", self.events, methods=["GET"]),
            *(
                Route(f"{ROOT}/w/{{workspace}}/{entry.place}", self._endpoint(entry), methods=list(entry.methods))
                for entry in ENTRIES
            ),
            *(Route(f"{ROOT}/{page.place}", self._endpoint(page), methods=list(page.methods)) for page in PAGES),
            Route(f"{ROOT}/{{rest:path}}", self.nothing, methods=["GET", "POST"]),
        ]

    async def first(self, request: Request) -> Response:
        """The first page, for an address without one."""
        return self._refused(request) or RedirectResponse(f"{ROOT}/", 303, rendering.HEADERS)

    async def nothing(self, request: Request) -> Response:
        """The answer of an address that leads nowhere."""
        return self._refused(request) or self._error(NotFound("there is no such page", next="Begin at the first one."))

    async def other_method(self, request: Request, error: Exception) -> Response:
        """The answer to a request that no address takes, for the application."""
        wrong = self._error_status(Invalid("this is asked in another way", next="Begin at the first page."), 405)
        wrong.headers.update(getattr(error, "headers", None) or {})
        return wrong

    async def static(self, request: Request) -> Response:
        """A script, a style or a picture; kept by the browser for as long as it likes."""
        name = request.path_params["name"]
        if refused := self._refused(request):
            return refused
        if name not in rendering.STATIC:
            return self._error(NotFound("there is nothing here", next="Go back to the first page."))
        kept = {"cache-control": "public, max-age=31536000, immutable"}
        return Response(rendering.asset(name)[0], headers=rendering.HEADERS | kept, media_type=rendering.STATIC[name])

    async def link(self, request: Request) -> Response:
        """The page that a link leads to. Looking at it uses nothing up: programs that preview links do that too.

        It goes on by itself where the person opened it; a page that led here could make them somebody else unawares.
        """
        if refused := self._refused(request):
            return refused
        code = request.path_params["code"][:100]
        invited = self._sessions.invited(code)
        if invited is None:
            return self._enter_again(Unauthorized("this link was used already, or is too old"))
        now = self._sessions.visitor(self._key(request))
        asks = comes_from_elsewhere(request) or now not in (None, invited.visitor)
        holder = await anyio.to_thread.run_sync(self._holder, invited.visitor)
        return self._html("enter.html", {"code": code, "asks": asks, "holder": holder})

    async def enter(self, request: Request) -> Response:
        """Begin a session, with a link's code or with a token. One that the browser had before ends."""
        if refused := self._refused(request):
            return refused
        program, to = request.headers.get("user-agent", ""), f"{ROOT}/"
        try:
            async with form_of(request, self._bodies) as form:
                code, token = str(form.get("code", "")), str(form.get("token", ""))
                wanted = str(form.get("to", ""))
            if not code and self._door:
                record = await anyio.to_thread.run_sync(self._door.admit, f"Bearer {token.strip()}")
                key = await anyio.to_thread.run_sync(self._sessions.open, Visitor(record.holder.id), program)
                to = _own(wanted)
            else:
                key, there = await anyio.to_thread.run_sync(self._sessions.enter, code, program)
                to = _own(there)
            await anyio.to_thread.run_sync(self._sessions.close, self._key(request))
        except ClientDisconnect:
            return Response(status_code=400)
        except Unauthorized as error:
            return self._enter_again(error)
        except KgdError as error:
            return self._error(error)
        response = RedirectResponse(to, 303, rendering.HEADERS)
        response.set_cookie(self._place.cookie, key, max_age=365 * 86_400, **self._cookie())
        return response

    async def leave(self, request: Request) -> Response:
        """End the session of this browser."""
        if refused := self._refused(request):
            return refused
        key = self._key(request)
        try:
            async with form_of(request, self._bodies) as form:
                sent = str(form.get(PROOF, ""))
            if is_proof(key, sent):
                await anyio.to_thread.run_sync(self._sessions.close, key)
        except ClientDisconnect:
            return Response(status_code=400)
        except KgdError as error:
            return self._error(error)
        self._live.look()
        response = RedirectResponse(f"{ROOT}/", 303, rendering.HEADERS)
        response.delete_cookie(self._place.cookie, **self._cookie())
        return response

    async def events(self, request: Request) -> Response:
        """What changes in a workspace that the visitor may read, as server-sent events."""
        if refused := self._refused(request):
            return refused
        headers = rendering.HEADERS | {"cache-control": "no-store", "x-accel-buffering": "no"}
        if request.method == "HEAD":  # which would be answered without an end that anybody sees
            return Response(headers=headers, media_type="text/event-stream")
        key = self._key(request)
        try:
            asked = await anyio.to_thread.run_sync(self._asked, request, ImmutableMultiDict())
            if RECOGNISED in request.scope:
                request.scope[RECOGNISED](asked.record.holder.line if asked.record else "person")
        except KgdError as error:
            return self._error(error)
        sees, since = sight(asked.session(), asked.workspace), asked.query.get("since", "")
        stream = self._live.stream(asked.workspace, asked.visitor.token, lambda: self._still(key, asked), sees, since)
        return StreamingResponse(stream, headers=headers, media_type="text/event-stream")

    def _still(self, key: str, asked: Asked) -> None:
        """Raises Unauthorized where the session has ended, or the token that it began with."""
        if self._sessions.visitor(key) is None:
            raise Unauthorized("this session has ended")
        asked.still_live()

    def _endpoint(self, entry: Entry) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            if refused := self._refused(request):
                return refused
            if self._threads is None:
                self._threads = anyio.CapacityLimiter(THREADS)
            try:
                who = await anyio.to_thread.run_sync(self._recognised, request)
                if who and RECOGNISED in request.scope:
                    request.scope[RECOGNISED](who)
                with anyio.fail_after(DEADLINE):
                    if request.method != "POST":
                        return await self._in_thread(entry, request, FormData())
                    async with form_of(request, self._bodies, who, FORM_LIMIT if who else ENTRY_LIMIT) as form:
                        return await self._in_thread(entry, request, form)
            except ClientDisconnect:
                return Response(status_code=400)
            except TimeoutError:
                late = f"this takes longer than {DEADLINE:g} s; what it was to write may be written"
                return self._error(Unavailable(late, next="Look at the history before you send it again."))
            except KgdError as error:
                return self._error(error)

        return endpoint

    async def _in_thread(self, entry: Entry, request: Request, form: FormData) -> Response:
        return await anyio.to_thread.run_sync(
            self._answer, entry, request, form, limiter=self._threads, abandon_on_cancel=True
        )

    def _recognised(self, request: Request) -> str:
        """Whose session a request shows, before anything else is read of it; empty for nobody's."""
        visitor = self._sessions.visitor(self._key(request))
        if visitor is None or not visitor.token:
            return "person" if visitor else ""
        with contextlib.suppress(NotFound):
            record = self._daemon.tokens.record(visitor.token)
            return record.holder.line if record.is_live(self._daemon.tokens.now()) else ""
        return ""

    def _answer(self, entry: Entry, request: Request, form: FormData) -> Response:
        """One page, in a worker thread."""
        key = self._key(request)
        try:
            asked = self._asked(request, form)
        except Unauthorized as error:
            return self._enter_again(error, _here(request) if request.method == "GET" else "")
        except KgdError as error:
            return self._error(error)
        try:
            if request.method == "POST" and not is_proof(key, str(form.get(PROOF, ""))):
                raise Forbidden("this form is not from a page of this session", next="Load the page again, then send.")
            with self._daemon.counted():
                mark = self._live.mark(asked.workspace, sight(asked.session(), asked.workspace))
                return self._response(entry, asked, key, request, entry.handle(asked), mark)
        except KgdError as error:
            return self._error(error, asked, key)
        except Exception as error:
            log.exception("a page failed", extra={"path": request.url.path[:100]})
            return self._error(of_defect(error), asked, key)

    def _response(
        self, entry: Entry, asked: Asked, key: str, request: Request, handled: Handled, mark: str
    ) -> Response:
        if isinstance(handled, Go):
            if handled.said:
                while len(self._said) >= KEPT_SAID:
                    self._said.pop(next(iter(self._said)), None)
                self._said[key] = handled.said[:SAID_LIMIT]
            return RedirectResponse(handled.to, 303, rendering.HEADERS)
        if isinstance(handled, Whole):
            headers = rendering.HEADERS | {"cache-control": "no-store"}
            if handled.filename:
                headers["content-disposition"] = f'attachment; filename="{handled.filename}"'
            return Response(handled.body, headers=headers, media_type=handled.media_type)
        # What is answered to a form is no page that can be looked at again.
        around = self._around(asked, key) | {"current": entry.name, "since": mark if request.method == "GET" else ""}
        if "hx-request" not in request.headers:  # a page that only looks again takes no message from another
            around["said"] = self._said.pop(key, "")
        return self._html(handled.template, around | dict(handled.told), handled.status)

    def _asked(self, request: Request, form: FormData | ImmutableMultiDict[str, Any]) -> Asked:
        """Raises Unauthorized where nobody is known by this session any more, NotFound for a workspace not theirs."""
        visitor = self._sessions.visitor(self._key(request))
        if visitor is None:
            raise Unauthorized("you are not known here, or no longer", next="`kgd ui` prints a link that lets you in.")
        record = None
        if visitor.token:
            if self._door is None:
                raise Unauthorized("tokens are not taken here", next="`kgd ui` prints a link that lets you in.")
            size = sum(len(name) + len(str(value)) for name, value in form.multi_items())
            record = self._door.again(visitor.token, size)
        door, query = self._door, request.query_params
        asked = Asked(
            daemon=self._daemon, visitor=visitor, workspace=request.path_params.get("workspace", ""),
            query=dict(query), form={name: value for name, value in form.items() if isinstance(value, str)},
            many=lambda name: [str(value) for value in (*query.getlist(name), *form.getlist(name))],
            path={name: str(value) for name, value in request.path_params.items()},
            here=_here(request), record=record,
            still_live=(lambda: door.still_live(record)) if door and record else lambda: None,
            served=(lambda: door.workspaces(record)) if door and record else None,
        )  # fmt: skip
        if asked.workspace and asked.workspace not in asked.workspaces():
            raise NotFound("there is no such workspace here for you", next="The first page lists those that are.")
        return asked

    def _around(self, asked: Asked | None, key: str) -> dict[str, Any]:
        """What every page is told beside its own."""
        return {
            "asked": asked,
            "proof": proof(key),
            "said": "",
            "navigation": NAVIGATION,
            "current": "",
            "since": "",
            "to": partial(address, asked.workspace) if asked else partial(address, ""),
            "node_at": (lambda uri: address(asked.workspace, "node", uri=uri)) if asked else str,
        }

    def _html(self, template: str, told: Mapping[str, Any], status: int = 200) -> Response:
        body = rendering.page(template, {"asked": None, **told})
        return HTMLResponse(body, status, rendering.HEADERS | {"cache-control": "no-store"})

    def _enter_again(self, error: KgdError, to: str = "") -> Response:
        """Where somebody says who they are, and goes on from there."""
        told = {"error": error, "takes_tokens": self._door is not None, "wanted": to}
        return self._html("signed_out.html", told, 401)

    def _error(self, error: KgdError, asked: Asked | None = None, key: str = "") -> Response:
        """A refusal as a page, with what to do next."""
        if isinstance(error, Unauthorized) and (asked is None or asked.record):
            return self._enter_again(error)
        # What a hub said to the person of this machine is no question of who they are here.
        status = {401: 403}.get(STATUS[error.code], STATUS[error.code])
        if isinstance(error, TooMuch):
            status = 429
        told = self._around(asked, key) | {"error": error, "code": status}
        response = self._html("error.html", told, status)
        if isinstance(error, TooMuch):
            response.headers["retry-after"] = str(error.retry_after)
        return response

    def _refused(self, request: Request) -> Response | None:
        """The answer to a request that another site may have caused; None for one of ours."""
        if found := refusal(self._place, request):
            return self._error_status(*found)
        return None

    def _error_status(self, error: KgdError, status: int) -> Response:
        return self._html("error.html", self._around(None, "") | {"error": error, "code": status}, status)

    def _holder(self, visitor: Visitor) -> str:
        """Whom a link makes of a browser; empty for the person of this machine."""
        if visitor.token:
            with contextlib.suppress(KgdError):
                return self._daemon.tokens.record(visitor.token).holder.name
        return ""

    def _key(self, request: Request) -> str:
        return request.cookies.get(self._place.cookie, "")

    def _cookie(self) -> dict[str, Any]:
        return {"path": self._place.path, "secure": self._place.is_secure, "httponly": True, "samesite": "strict"}


def _here(request: Request) -> str:
    """The address as it was asked for."""
    path = request.scope.get("raw_path", b"").partition(b"?")[0].decode("latin-1") or request.url.path
    return path + (f"?{request.url.query}" if request.url.query else "")


def _own(place: str) -> str:
    """Where a browser is sent: to one of our pages, or the first one."""
    is_ours = place.startswith(f"{ROOT}/") and place.isascii() and place.isprintable() and "\\" not in place
    return place if is_ours and len(place) <= LONGEST_PLACE else f"{ROOT}/"
