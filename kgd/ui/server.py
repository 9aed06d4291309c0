"""This file is where requests of browsers come in: what each has to pass, who asks, and which page answers.

A page is made in one worker thread. What was written is answered by another address, so that a reload repeats nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import anyio.to_thread
from starlette.datastructures import FormData, ImmutableMultiDict
from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from kgd.daemon.daemon import Daemon
from kgd.errors import Forbidden, Internal, Invalid, KgdError, Limit, NotFound, Unauthorized
from kgd.model.token import TokenRecord
from kgd.ui import rendering
from kgd.ui.asked import ROOT, Asked, Go, Handled, Whole, address
from kgd.ui.entry import Entry
from kgd.ui.live import Live
from kgd.ui.pages import ENTRIES, NAVIGATION, PAGES
from kgd.ui.sessions import Sessions, Visitor, is_proof, proof

FORM_LIMIT = 1 << 20
FIELDS_LIMIT = 2_000
SAID_LIMIT = 1_000
PROOF = "proof"
"""The field of every form that shows it to be ours."""
STATUS = {
    "VALIDATION_ERROR": 422, "NOT_FOUND": 404, "CONFLICT": 409, "INVARIANT_VIOLATION": 409, "FORBIDDEN": 403,
    "UNAUTHORIZED": 401, "LIMIT": 413, "UNAVAILABLE": 503, "DAMAGED": 503, "REFUSED_CONTENT": 422, "INTERNAL": 500,
}  # fmt: skip

log = logging.getLogger("kgd.ui")


class Door(Protocol):
    """Who is let in beside the person of this machine: on a hub, the holders of its tokens."""

    def admit(self, authorization: str, size: int = 0) -> TokenRecord:
        """The record of a token that was typed in. Raises Unauthorized."""

    def again(self, id: str) -> TokenRecord:
        """The record as it is now. Raises Unauthorized where it has expired or was revoked."""

    def still_live(self, record: TokenRecord) -> None: ...
    def workspaces(self, record: TokenRecord) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class Place:
    """Where the pages are: by which names, over TLS or not, and how a session's cookie is called there."""

    takes_host: Callable[[str], bool]
    is_secure: bool
    cookie: str


class Ui:
    """The pages of one daemon.

    Args:
        door: Who else is let in; None where only the person of this machine is.
    """

    def __init__(self, daemon: Daemon, sessions: Sessions, live: Live, place: Place, door: Door | None = None) -> None:
        self._daemon, self._sessions, self._live, self._place, self._door = daemon, sessions, live, place, door
        self._said: dict[str, str] = {}

    def routes(self) -> list[Route]:
        """Everything below `/ui`."""
        return [
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
        ]

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
        """The page that a link leads to. Looking at it uses nothing up: programs that preview links do that too."""
        if refused := self._refused(request):
            return refused
        return self._html("enter.html", {"code": request.path_params["code"][:100], "to": ""})

    async def enter(self, request: Request) -> Response:
        """Begin a session, with a link's code or with a token."""
        if refused := self._refused(request):
            return refused
        try:
            form = await _form(request)
            code, token = str(form.get("code", "")), str(form.get("token", ""))
            if not code and self._door:
                record = await anyio.to_thread.run_sync(self._door.admit, f"Bearer {token.strip()}")
                key = self._sessions.open(Visitor(record.holder.id))
            else:
                key = await anyio.to_thread.run_sync(self._sessions.enter, code)
        except KgdError as error:
            return self._enter_again(error)
        response = RedirectResponse(f"{ROOT}/", 303, rendering.HEADERS)
        self._give(response, key)
        return response

    async def leave(self, request: Request) -> Response:
        """End the session of this browser."""
        if refused := self._refused(request):
            return refused
        key = request.cookies.get(self._place.cookie, "")
        form = await _form(request)
        if is_proof(key, str(form.get(PROOF, ""))):
            self._sessions.close(key)
        response = RedirectResponse(f"{ROOT}/", 303, rendering.HEADERS)
        response.delete_cookie(self._place.cookie, path=ROOT)
        return response

    async def events(self, request: Request) -> Response:
        """What changes in a workspace, as server-sent events."""
        if refused := self._refused(request):
            return refused
        try:
            asked = await anyio.to_thread.run_sync(self._asked, request, ImmutableMultiDict())
            workspace = _known(asked, request.path_params["workspace"])
        except KgdError as error:
            return self._error(error)
        headers = rendering.HEADERS | {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(self._live.stream(workspace), headers=headers, media_type="text/event-stream")

    def _endpoint(self, entry: Entry) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            if refused := self._refused(request):
                return refused
            try:
                form = await _form(request) if request.method == "POST" else FormData()
                return await anyio.to_thread.run_sync(partial(self._answer, entry, request, form))
            except ClientDisconnect:
                return Response(status_code=400)
            except KgdError as error:
                return self._error(error)

        return endpoint

    def _answer(self, entry: Entry, request: Request, form: FormData) -> Response:
        """One page, in a worker thread."""
        asked: Asked | None = None
        key = request.cookies.get(self._place.cookie, "")
        try:
            asked = self._asked(request, form)
            if request.method == "POST" and not is_proof(key, str(form.get(PROOF, ""))):
                raise Forbidden("this form is not from a page of this session", next="Load the page again, then send.")
            with self._daemon.counted():
                return self._response(entry, asked, key, entry.handle(asked))
        except Unauthorized as error:
            return self._enter_again(error)
        except KgdError as error:
            return self._error(error, asked, key)
        except Exception:
            log.exception("a page failed", extra={"path": request.url.path[:100]})
            failed = Internal("kgd failed inside; this is a defect", next="The daemon's log has the details.")
            return self._error(failed, asked, key)

    def _response(self, entry: Entry, asked: Asked, key: str, handled: Handled) -> Response:
        if isinstance(handled, Go):
            if handled.said:
                self._said[key] = handled.said[:SAID_LIMIT]
            return RedirectResponse(handled.to, 303, rendering.HEADERS)
        if isinstance(handled, Whole):
            headers = rendering.HEADERS | {"cache-control": "no-store"}
            if handled.filename:
                headers["content-disposition"] = f'attachment; filename="{handled.filename}"'
            return Response(handled.body, headers=headers, media_type=handled.media_type)
        around = self._around(asked, key) | {"current": entry.name}
        return self._html(handled.template, around | dict(handled.told), handled.status)

    def _asked(self, request: Request, form: FormData | ImmutableMultiDict[str, Any]) -> Asked:
        """Raises Unauthorized where nobody is known by this session any more, NotFound for a workspace not theirs."""
        visitor = self._sessions.visitor(request.cookies.get(self._place.cookie, ""))
        if visitor is None:
            raise Unauthorized("you are not known here, or no longer", next="`kgd ui` prints a link that lets you in.")
        record = None
        if visitor.token:
            if self._door is None:
                raise Unauthorized("tokens are not taken here", next="`kgd ui` prints a link that lets you in.")
            record = self._door.again(visitor.token)
        door, query = self._door, request.query_params
        asked = Asked(
            daemon=self._daemon, visitor=visitor, workspace=request.path_params.get("workspace", ""),
            query=dict(query), form={name: value for name, value in form.items() if isinstance(value, str)},
            many=lambda name: [str(value) for value in (*query.getlist(name), *form.getlist(name))],
            path={name: str(value) for name, value in request.path_params.items()},
            here=request.url.path + (f"?{request.url.query}" if request.url.query else ""), record=record,
            still_live=(lambda: door.still_live(record)) if door and record else lambda: None,
            served=(lambda: door.workspaces(record)) if door and record else None,
        )  # fmt: skip
        if asked.workspace:
            _known(asked, asked.workspace)
        return asked

    def _around(self, asked: Asked | None, key: str) -> dict[str, Any]:
        """What every page is told beside its own."""
        return {
            "asked": asked,
            "proof": proof(key),
            "said": self._said.pop(key, "") if asked else "",
            "navigation": NAVIGATION,
            "current": "",
            "to": partial(address, asked.workspace) if asked else partial(address, ""),
            "node_at": (lambda uri: address(asked.workspace, "node", uri=uri)) if asked else str,
        }

    def _html(self, template: str, told: Mapping[str, Any], status: int = 200) -> Response:
        body = rendering.page(template, {"asked": None, **told})
        return HTMLResponse(body, status, rendering.HEADERS | {"cache-control": "no-store"})

    def _enter_again(self, error: KgdError) -> Response:
        return self._html("signed_out.html", {"error": error, "takes_tokens": self._door is not None}, 401)

    def _error(self, error: KgdError, asked: Asked | None = None, key: str = "") -> Response:
        """A refusal as a page, with what to do next."""
        if isinstance(error, Unauthorized):
            return self._enter_again(error)
        told = self._around(asked, key) | {"error": error, "code": STATUS[error.code]}
        return self._html("error.html" if asked else "refused.html", told, STATUS[error.code])

    def _refused(self, request: Request) -> Response | None:
        """The answer to a request that another site may have caused; None for one of ours."""
        host, origin = request.headers.get("host", ""), request.headers.get("origin", "")
        if not self._place.takes_host(host):
            return self._error_status(Invalid("nobody is called by that name here", at="Host"), 421)
        # A form of a page that sends no referrer says "null", as one of a stranger may: ours do not.
        if origin and origin.partition("://")[2] != host:
            return self._error_status(Forbidden("pages of other sites may not ask this one", at="Origin"), 403)
        if request.method == "POST" and request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return self._error_status(Forbidden("pages of other sites may not write here", at="Sec-Fetch-Site"), 403)
        return None

    def _error_status(self, error: KgdError, status: int) -> Response:
        return self._html("refused.html", self._around(None, "") | {"error": error, "code": status}, status)

    def _give(self, response: Response, key: str) -> None:
        response.set_cookie(
            self._place.cookie, key, max_age=365 * 86_400, path=ROOT, secure=self._place.is_secure, httponly=True,
            samesite="strict",
        )  # fmt: skip


def _known(asked: Asked, workspace: str) -> str:
    """The id, if this visitor may know of it."""
    if workspace not in asked.workspaces():
        raise NotFound("there is no such workspace here for you", next="The first page lists those that are.")
    return workspace


async def _form(request: Request) -> FormData:
    """The fields that were sent.

    Raises:
        Limit: It is too large; no more than the limit was read.
        Invalid: It is no form.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Invalid("what is sent here has to be a form", at="Content-Type")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > FORM_LIMIT:
            raise Limit("a form holds at most 1 MiB", next="Use `kgd put` for more.")
    request._body = bytes(body)
    try:
        return await request.form(max_fields=FIELDS_LIMIT)
    except (MultiPartException, ValueError) as error:
        raise Invalid(f"the form cannot be read: {error}", at="form") from error
