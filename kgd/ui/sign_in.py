"""Signing in a browser with an account of an organisation: to the issuer and back.

A cookie of the browser holds the sealed state of the sign-in, so any hub behind a balancer can finish it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar
from urllib.parse import urlencode

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from kgd.errors import Forbidden
from kgd.model.token import TokenRecord
from kgd.ui import rendering
from kgd.ui.sessions import Place, Sessions, Visitor, comes_from_elsewhere
from kgd.ui.visit import ROOT, own

THREADS = 8
"""Number of browsers that may wait for a sign-in server; a stranger can begin any number of sign-ins."""
LONGEST_TO = 1_500
"""Length of the longest page address that fits into the cookie."""

Handler = Callable[[Request], Awaitable[Response]]
Html = Callable[[str, Mapping[str, Any]], Response]
R = TypeVar("R")


class SignIns(Protocol):
    """Sign-in with accounts; implemented by `kgd.daemon.sign_in.SignIns`. Its methods block."""

    def choices(self) -> list[tuple[str, str]]: ...
    def begin(self, name: str, to: str) -> tuple[str, str]: ...
    def finish(self, cookie: str, answer: Mapping[str, str]) -> tuple[TokenRecord, str]: ...
    def leave(self, id: str) -> None: ...


class SignInPages:
    """The routes that send a browser to an issuer, and receive it when it returns.

    Args:
        html: Renders a template as a response.
    """

    def __init__(self, sign_ins: SignIns, sessions: Sessions, place: Place, html: Html) -> None:
        self._sign_ins, self._sessions, self._place, self._html = sign_ins, sessions, place, html
        self._cookie = f"{place.cookie}-sign-in"
        self._threads: anyio.CapacityLimiter | None = None

    def routes(self) -> list[tuple[str, Handler, tuple[str, ...]]]:
        return [(f"{ROOT}/sign-in/{{name}}", self.begin, ("GET",)), (f"{ROOT}/signed-in", self.back, ("GET",))]

    def choices(self, to: str) -> list[tuple[str, str]]:
        """The address and the title of each way to sign in. Afterwards, the browser opens the page `to`."""
        query = f"?{urlencode({'to': to})}" if to else ""
        return [(f"{ROOT}/sign-in/{name}{query}", title) for name, title in self._sign_ins.choices()]

    async def leave(self, visitor: Visitor | None) -> None:
        """End the sign-in of a browser that signs out."""
        if visitor and visitor.token:
            await anyio.to_thread.run_sync(self._sign_ins.leave, visitor.token)

    async def begin(self, request: Request) -> Response:
        """Send the browser to the issuer."""
        if comes_from_elsewhere(request):
            raise Forbidden("another site may not sign you in", next="Open the start page and sign in there.")
        to = own(request.query_params.get("to", ""))
        to = to if len(to) <= LONGEST_TO else own("")
        name = str(request.path_params["name"])
        url, begun = await self._in_thread(partial(self._sign_ins.begin, name, to))
        response = RedirectResponse(url, 303, rendering.HEADERS | {"cache-control": "no-store"})
        # Not "strict", because the browser comes back from the issuer's site.
        response.set_cookie(self._cookie, begun, max_age=600, **(self._place.cookie_options() | {"samesite": "lax"}))
        return response

    async def back(self, request: Request) -> Response:
        """Start a session for the person who signed in. The answer is a page that opens the requested page: after a
        redirect, a browser that comes from another site would not send its new cookie."""
        begun, answer = request.cookies.get(self._cookie, ""), dict(request.query_params)
        record, to = await self._in_thread(partial(self._sign_ins.finish, begun, answer))
        program = request.headers.get("user-agent", "")
        key = await anyio.to_thread.run_sync(self._sessions.open, Visitor(record.holder.id), program)
        response = self._html("signed_in.html", {"holder": record.holder.name, "wanted": own(to)})
        options = self._place.cookie_options()
        response.set_cookie(self._place.cookie, key, max_age=365 * 86_400, **options)
        response.delete_cookie(self._cookie, **(options | {"samesite": "lax"}))
        return response

    async def _in_thread(self, function: Callable[[], R]) -> R:
        """Run a call that may wait for a sign-in server, without the threads of other requests."""
        if self._threads is None:
            self._threads = anyio.CapacityLimiter(THREADS)
        return await anyio.to_thread.run_sync(function, limiter=self._threads)
