"""Routing of browser requests: checks, sessions, and the page that answers; static files; and redirects to the nearest
page above an address.

Each page is rendered in one worker thread. A submitted form is answered with a redirect, so that a reload repeats
nothing.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import cache, partial
from typing import Any, Protocol
from urllib.parse import quote

import anyio
import anyio.to_thread
from starlette.datastructures import FormData, ImmutableMultiDict
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from kgd.daemon.daemon import Daemon
from kgd.daemon.request_bodies import RECOGNISED, Bodies
from kgd.daemon.tokens import TooMuch
from kgd.errors import Forbidden, Invalid, KgdError, NotFound, Unauthorized, Unavailable, of_defect
from kgd.git.objects import is_id
from kgd.model.token import TokenRecord
from kgd.ui import rendering
from kgd.ui.live_updates import Live
from kgd.ui.pages import ENTRIES, PAGES
from kgd.ui.pages.palette import NAVIGATION
from kgd.ui.sessions import (
    ENTRY_LIMIT,
    FORM_LIMIT,
    Place,
    Sessions,
    Visitor,
    browser_id,
    comes_from_elsewhere,
    form_of,
    is_proof,
    proof,
    refusal,
)
from kgd.ui.sign_in import SignInPages, SignIns
from kgd.ui.visit import ROOT, THEMES, Download, Entry, Handled, Incomplete, Notice, Redirect, Visit, address, own

THREADS = 40
"""Number of pages rendered at a time; further requests wait."""
DEADLINE = 60.0
"""Seconds that a page may take. A write that has begun still finishes."""
SAID_LIMIT = 1_000
REFRESHED_FOR = "x-kgd-at"
"""The header with the commit that a refreshed page must include."""
YEAR = 365 * 86_400
"""Lifetime in seconds of the cookies of a session and of a theme."""
POSITION_SECONDS = 60
"""Lifetime of the cookie: after that, every hub has the commit."""
PROOF = "proof"
"""The form field that proves that our page made the form."""
POSITION = "kgd-at"
"""The cookie with the commit of the browser's last change."""
THEME = "kgd-theme"
"""The cookie with the chosen theme; a browser without it follows its system."""

log = logging.getLogger("kgd.ui")


__all__ = ["Authenticator", "Place", "Ui"]


class Authenticator(Protocol):
    """Authentication of visitors other than the user of this machine: on a hub, by token."""

    def admit(self, authorization: str, size: int = 0) -> TokenRecord:
        """Return the record of an entered token. Raises Unauthorized."""

    def again(self, id: str, size: int = 0) -> TokenRecord:
        """Return the current record and count the request. Raises Unauthorized for an expired or revoked token."""

    def still_live(self, record: TokenRecord) -> None: ...
    def workspaces(self, record: TokenRecord) -> list[str]: ...


Handler = Callable[[Request], Awaitable[Response]]


class Ui:
    """The pages of one daemon.

    Args:
        tokens: Authentication by token; None allows only the user of this machine.
        sign_ins: Sign-in with accounts of an organisation, if configured.
    """

    def __init__(
        self,
        daemon: Daemon,
        sessions: Sessions,
        live: Live,
        place: Place,
        tokens: Authenticator | None = None,
        bodies: Bodies | None = None,
        sign_ins: SignIns | None = None,
    ) -> None:
        self._bodies = bodies or Bodies()
        self._sign_in = SignInPages(sign_ins, sessions, place, self._html) if sign_ins else None
        self._daemon, self._sessions, self._live, self._place, self._tokens = daemon, sessions, live, place, tokens
        self._threads: anyio.CapacityLimiter | None = None

    def routes(self) -> list[Route]:
        """Return all routes below `/ui`."""
        below = f"{ROOT}/w/{{workspace}}"
        handlers: list[tuple[str, Handler, tuple[str, ...]]] = [
            (ROOT, start_page, ("GET",)),
            (f"{ROOT}/static/{{name}}", static, ("GET",)),
            (f"{ROOT}/in/{{code}}", self.link, ("GET",)),
            (f"{ROOT}/in", self.enter, ("POST",)),
            (f"{ROOT}/out", self.leave, ("POST",)),
            *(self._sign_in.routes() if self._sign_in else ()),
            (f"{below}/events", self.events, ("GET",)),
            *((f"{below}/{entry.place}", self._page(entry), entry.methods) for entry in ENTRIES),
            *((f"{ROOT}/{entry.place}", self._page(entry), entry.methods) for entry in PAGES),
            (f"{ROOT}/{{rest:path}}", self.unknown, ("GET", "POST")),
        ]
        return [Route(path, self.guarded(handler), methods=list(methods)) for path, handler, methods in handlers]

    def guarded(self, handler: Handler) -> Handler:
        """Refuse requests that another site may have caused, and render errors as pages."""

        async def checked(request: Request) -> Response:
            if found := refusal(self._place, request):
                return self._error(found[0], status=found[1])
            try:
                return await handler(request)
            except ClientDisconnect:
                return Response(status_code=400)
            except KgdError as error:
                return self._error(error)

        return checked

    async def other_method(self, request: Request, error: Exception) -> Response:
        """Answer a request with an unsupported method."""
        wrong = self._error(Invalid("this page does not accept that method", next="Open the start page."), status=405)
        wrong.headers.update(getattr(error, "headers", None) or {})
        return wrong

    async def unknown(self, request: Request) -> Response:
        """Redirect as `unknown` does; otherwise report the error, below the header of the workspace in the address."""
        try:
            return await unknown(request)
        except NotFound as error:
            area, _, rest = request.path_params["rest"].partition("/")
            request.path_params["workspace"] = rest.partition("/")[0] if area == "w" else ""
            return await anyio.to_thread.run_sync(self._not_found, error, request)

    def _not_found(self, error: NotFound, request: Request) -> Response:
        try:
            visit = self._visit(request, FormData())
        except KgdError:
            return self._error(error)
        return self._error(error, visit, self._key(request))

    async def link(self, request: Request) -> Response:
        """Show the page of a sign-in link. It does not use up the link, because programs preview links too.

        The page continues by itself if the user opened it. A link from another site asks first, because it could
        sign in the user under another name.
        """
        code = request.path_params["code"][:100]
        told = await anyio.to_thread.run_sync(self._invitation, code, self._key(request))
        told["needs_consent"] = told["needs_consent"] or comes_from_elsewhere(request)
        return self._html("enter.html", told)

    def _invitation(self, code: str, key: str) -> dict[str, Any]:
        """The variables of a link's page. Raises Unauthorized if the link is not valid."""
        invited = self._sessions.invited(code)
        if invited is None:
            raise Unauthorized("this link has already been used or has expired")
        needs_consent = self._sessions.visitor(key) not in (None, invited.visitor)
        return {"code": code, "needs_consent": needs_consent, "holder": self._holder(invited.visitor)}

    async def enter(self, request: Request) -> Response:
        """Start a session with a link's code or a token, and end the browser's previous session."""
        program = request.headers.get("user-agent", "")
        async with form_of(request, self._bodies) as form:
            code, token, to = (str(form.get(name, "")) for name in ("code", "token", "to"))
        if not code and self._tokens:
            record = await anyio.to_thread.run_sync(self._tokens.admit, f"Bearer {token.strip()}")
            key = await anyio.to_thread.run_sync(self._sessions.open, Visitor(record.holder.id), program)
        else:
            key, to = await anyio.to_thread.run_sync(self._sessions.enter, code, program)
        await anyio.to_thread.run_sync(self._sessions.close, self._key(request))
        response = RedirectResponse(own(to), 303, rendering.HEADERS)
        response.set_cookie(self._place.cookie, key, max_age=YEAR, **self._place.cookie_options())
        return response

    async def leave(self, request: Request) -> Response:
        """Sign out this browser."""
        key = self._key(request)
        async with form_of(request, self._bodies) as form:
            sent = str(form.get(PROOF, ""))
        if is_proof(key, sent):
            visitor = await anyio.to_thread.run_sync(self._sessions.visitor, key)
            await anyio.to_thread.run_sync(self._sessions.close, key)
            if self._sign_in:
                await self._sign_in.leave(visitor)
        self._live.look()
        response = RedirectResponse(f"{ROOT}/", 303, rendering.HEADERS)
        response.delete_cookie(self._place.cookie, **self._place.cookie_options())
        return response

    async def events(self, request: Request) -> Response:
        """Stream the changes of a workspace that the visitor may read, as server-sent events."""
        headers = rendering.HEADERS | {"cache-control": "no-store", "x-accel-buffering": "no"}
        if request.method == "HEAD":  # its answer must not be an endless stream
            return Response(headers=headers, media_type="text/event-stream")
        key = self._key(request)
        visit = await anyio.to_thread.run_sync(self._visit, request, ImmutableMultiDict())
        if RECOGNISED in request.scope:
            request.scope[RECOGNISED](visit.record.holder.line if visit.record else "person")
        sees, since = visit.session().sight(visit.workspace), visit.query.get("since", "")
        stream = self._live.stream(visit.workspace, visit.visitor.token, lambda: self._still(key, visit), sees, since)
        return StreamingResponse(stream, headers=headers, media_type="text/event-stream")

    def _still(self, key: str, visit: Visit) -> None:
        """Raise Unauthorized if the session or its token has ended."""
        if self._sessions.visitor(key) is None:
            raise Unauthorized("this session has ended")
        visit.still_live()

    def _page(self, entry: Entry) -> Handler:
        async def page(request: Request) -> Response:
            if self._threads is None:
                self._threads = anyio.CapacityLimiter(THREADS)
            who = await anyio.to_thread.run_sync(self._recognised, request)
            if who and RECOGNISED in request.scope:
                request.scope[RECOGNISED](who)
            try:
                with anyio.fail_after(DEADLINE):
                    if request.method != "POST":
                        return await self._in_thread(entry, request, FormData())
                    async with form_of(request, self._bodies, who, FORM_LIMIT if who else ENTRY_LIMIT) as form:
                        return await self._in_thread(entry, request, form)
            except TimeoutError:
                late = f"this page takes longer than {DEADLINE:g} s; its change may have been written"
                raise Unavailable(late, next="Check the history before you send it again.") from None

        return page

    async def _in_thread(self, entry: Entry, request: Request, form: FormData) -> Response:
        return await anyio.to_thread.run_sync(
            self._answer, entry, request, form, limiter=self._threads, abandon_on_cancel=True
        )

    def _recognised(self, request: Request) -> str:
        """Return the visitor of a request by its cookie alone; empty without a session."""
        visitor = self._sessions.visitor(self._key(request))
        if visitor is None or not visitor.token:
            return "person" if visitor else ""
        with contextlib.suppress(NotFound):
            record = self._daemon.tokens.record(visitor.token)
            return record.holder.line if record.is_live(self._daemon.tokens.now()) else ""
        return ""

    def _answer(self, entry: Entry, request: Request, form: FormData) -> Response:
        """Answer a request, in a worker thread."""
        key = self._key(request)
        try:
            visit = self._visit(request, form)
        except Unauthorized as error:
            return self._enter_again(error, _here(request) if request.method == "GET" else "")
        except KgdError as error:
            return self._error(error)
        try:
            if request.method == "POST" and not is_proof(key, str(form.get(PROOF, ""))):
                raise Forbidden(
                    "this form is not from a page of this session", next="Reload the page, then send the form again."
                )
            with self._daemon.counted():
                self._reach(visit, request)
                mark = self._live.mark(visit.workspace, visit.session().sight(visit.workspace))
                return self._response(entry, visit, key, request, _handled(entry, visit, request), mark)
        except KgdError as error:
            return self._error(error, visit, key)
        except Exception as error:
            log.exception("a page failed", extra={"path": request.url.path[:100]})
            return self._error(of_defect(error), visit, key)

    def _response(
        self, entry: Entry, visit: Visit, key: str, request: Request, handled: Handled, mark: str
    ) -> Response:
        if isinstance(handled, Redirect):
            if handled.said:
                notice = Notice(handled.said[:SAID_LIMIT], handled.undo, visit.workspace)
                self._sessions.say(key, notice.written())
            return self._redirect(handled, visit)
        if isinstance(handled, Download):
            headers = rendering.HEADERS | {"cache-control": "no-store"}
            if handled.filename:
                headers["content-disposition"] = f'attachment; filename="{handled.filename}"'
            return Response(handled.body, headers=headers, media_type=handled.media_type)
        # The answer to a form has no address that could be refreshed.
        since = mark if request.method == "GET" else ""
        around = self._around(visit, key) | {"current": _shown_as(entry), "since": since}
        if not visit.is_refresh:  # a refresh must not use up the message for another page
            around["notice"] = Notice.read(self._sessions.said(key))
        # A variable of a page must not replace the one that keeps the page up to date.
        return self._html(handled.template, dict(handled.told) | around, handled.status)

    def _redirect(self, handled: Redirect, visit: Visit) -> Response:
        """Return a redirect after a change; the next page includes the change at every hub."""
        response = RedirectResponse(handled.to, 303, rendering.HEADERS)
        options = self._place.cookie_options() | {"path": ROOT}
        if handled.theme in THEMES:
            response.set_cookie(THEME, handled.theme, max_age=YEAR, **options)
        elif handled.theme:
            response.delete_cookie(THEME, **options)
        if position := self._daemon.position(visit.workspace):
            path = f"{ROOT}/w/{visit.workspace}"
            response.set_cookie(
                POSITION, position, max_age=POSITION_SECONDS, **self._place.cookie_options() | {"path": path}
            )
        return response

    def _reach(self, visit: Visit, request: Request) -> None:
        """Wait for the browser's last change, or for the change that a page is refreshed for; other hubs may have made
        them. Raises Unavailable if a page cannot show them."""
        if self._daemon.shared and visit.workspace:
            asked = (request.cookies.get(POSITION, ""), request.headers.get(REFRESHED_FOR, ""))
            if positions := list(filter(is_id, asked)):
                self._daemon.reach(visit.workspace, positions, required=request.method == "GET")

    def _visit(self, request: Request, form: FormData | ImmutableMultiDict[str, Any]) -> Visit:
        """Describe a request.

        Raises:
            Unauthorized: The session or its token has ended.
            NotFound: The visitor may not see the workspace.
        """
        visitor = self._sessions.visitor(self._key(request))
        if visitor is None:
            raise Unauthorized("you are not signed in", next="Run `kgd ui` for a sign-in link.")
        record = None
        if visitor.token:
            if self._tokens is None:
                raise Unauthorized("these pages do not accept tokens", next="Run `kgd ui` for a sign-in link.")
            size = sum(len(name) + len(str(value)) for name, value in form.multi_items())
            record = self._tokens.again(visitor.token, size)
        tokens, query = self._tokens, request.query_params
        visit = Visit(
            daemon=self._daemon,
            visitor=visitor,
            workspace=request.path_params.get("workspace", ""),
            query=dict(query),
            form={name: value for name, value in form.items() if isinstance(value, str)},
            many=lambda name: [str(value) for value in (*query.getlist(name), *form.getlist(name))],
            path={name: str(value) for name, value in request.path_params.items()},
            here=_here(request),
            record=record,
            still_live=(lambda: tokens.still_live(record)) if tokens and record else lambda: None,
            served=(lambda: tokens.workspaces(record)) if tokens and record else None,
            is_refresh="hx-request" in request.headers,
            theme=theme if (theme := request.cookies.get(THEME, "")) in THEMES else "",
            browser=browser_id(self._key(request)),
            back=above(request.url.path) if request.method == "POST" else _here(request),
        )
        if visit.workspace and visit.workspace not in visit.workspaces():
            raise NotFound("you have no workspace with that name", next="The start page lists your workspaces.")
        return visit

    def _around(self, visit: Visit | None, key: str) -> dict[str, Any]:
        """Return the variables of every page."""
        return {
            "visit": visit,
            "has_pages": bool(visit and visit.workspace and visit.opens()),
            "proof": proof(key),
            "notice": None,
            "navigation": NAVIGATION.items(),
            "current": "",
            "since": "",
            "to": partial(address, visit.workspace) if visit else partial(address, ""),
            "node_at": (lambda uri: address(visit.workspace, "node", uri=uri)) if visit else str,
        }

    def _html(self, template: str, told: Mapping[str, Any], status: int = 200) -> Response:
        body = rendering.page(template, {"visit": None, **told})
        return HTMLResponse(body, status, rendering.HEADERS | {"cache-control": "no-store"})

    def _enter_again(self, error: KgdError, to: str = "") -> Response:
        """Return the sign-in page, which continues at `to`."""
        ways = self._sign_in.choices(to) if self._sign_in else []
        told = {"error": error, "takes_tokens": self._tokens is not None, "wanted": to, "ways": ways}
        return self._html("signed_out.html", told, 401)

    def _error(self, error: KgdError, visit: Visit | None = None, key: str = "", status: int = 0) -> Response:
        """Return an error as a page; the status is the error's own unless given."""
        if isinstance(error, Unauthorized) and (visit is None or visit.record):
            return self._enter_again(error)
        # An error from a hub does not mean that the user of this machine has to sign in here.
        status = status or (403 if error.status == 401 else error.status)
        told = self._around(visit, key) | {"error": error, "code": status}
        response = self._html("error.html", told, status)
        if isinstance(error, TooMuch):
            response.headers["retry-after"] = str(error.retry_after)
        return response

    def _holder(self, visitor: Visitor) -> str:
        """Return the name of a link's token holder; empty for the user of this machine."""
        if visitor.token:
            with contextlib.suppress(KgdError):
                return self._daemon.tokens.record(visitor.token).holder.name
        return ""

    def _key(self, request: Request) -> str:
        return request.cookies.get(self._place.cookie, "")


def _handled(entry: Entry, visit: Visit, request: Request) -> Handled:
    """Call the handler. An address that lacks a value leads to the page above."""
    try:
        return entry.handle(visit)
    except Incomplete:
        if request.method == "POST" or not visit.workspace:
            raise
        return Redirect(visit.to(entry.name if entry.name in NAVIGATION else START))


def _here(request: Request) -> str:
    """Return the requested address, encoded as it was sent."""
    path = request.scope.get("raw_path", b"").partition(b"?")[0].decode("latin-1") or request.url.path
    return path + (f"?{request.url.query}" if request.url.query else "")


START = "overview"
"""The first page of a workspace."""
KEPT = {"cache-control": "public, max-age=31536000, immutable"}


async def static(request: Request) -> Response:
    """Answer with a static file, which browsers may cache permanently."""
    name = request.path_params["name"]
    if name not in rendering.STATIC:
        raise NotFound("this file does not exist", next="Open the start page.")
    return Response(rendering.asset(name)[0], headers=rendering.HEADERS | KEPT, media_type=rendering.STATIC[name])


async def start_page(request: Request) -> Response:
    """Redirect to the start page."""
    return RedirectResponse(f"{ROOT}/", 303, rendering.HEADERS)


async def unknown(request: Request) -> Response:
    """Redirect to the nearest page if the address is the beginning of a page's address, or ends in a slash.

    Raises:
        NotFound: It is not.
    """
    target = nearest(request.path_params["rest"]) if request.method in ("GET", "HEAD") else None
    if target is None:
        raise NotFound("there is no page with this address", at=request.url.path, next="Open the start page.")
    query = f"?{request.url.query}" if request.url.query else ""
    return RedirectResponse(f"{ROOT}/{quote(target)}{query}", 303, rendering.HEADERS)


def nearest(path: str) -> str | None:
    """Return the page to show for a part of an address, such as ``w/shop``; None if no page's address begins with it.

    >>> nearest("w/shop"), nearest("w/shop/workspaces/tokens"), nearest("w/shop/nothing")
    ('w/shop/overview', 'w/shop/workspaces', None)
    """
    area, _, rest = path.strip("/").partition("/")
    if area != "w":
        return _above(path.strip("/"), _places(PAGES), "")
    workspace, _, place = rest.partition("/")
    if not workspace:
        return ""
    found = _above(place, _places(ENTRIES), START)
    return None if found is None else f"w/{workspace}/{found}"


def above(path: str) -> str:
    """Return the address of the nearest page above a path, such as the path of a form.

    >>> above("/ui/w/shop/review/revert"), above("/ui/theme")
    ('/ui/w/shop/review', '/ui/')
    """
    return f"{ROOT}/{quote(nearest(path.removeprefix(ROOT).rpartition('/')[0]) or '')}"


def _shown_as(entry: Entry) -> str:
    """Return the name of the navigation's entry to mark: of the page itself, or of the page that it belongs to."""
    return entry.place if entry.place in NAVIGATION else entry.name


def _above(place: str, places: frozenset[str], first: str) -> str | None:
    if place and place not in places and not any(one.startswith(f"{place}/") for one in places):
        return None
    while place and place not in places:
        place = place.rpartition("/")[0]
    return place or first


@cache
def _places(entries: tuple[Entry, ...]) -> frozenset[str]:
    return frozenset(entry.place for entry in entries if "GET" in entry.methods)
