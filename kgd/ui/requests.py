"""Requests of browsers: checks of their origin, and reading of forms.

A page on another site can make a browser send requests to kgd. On this machine the request even carries the session
cookie, because cookies ignore ports. Therefore the origin that the browser reports is checked for each request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from kgd.daemon.request_bodies import Bodies
from kgd.errors import Forbidden, Invalid, KgdError

FORM_LIMIT = 1 << 20
ENTRY_LIMIT = 8 << 10
"""Largest size in bytes of a form without a session."""
FIELDS_LIMIT = 2_000
OWN = ("", "same-origin", "none")
"""`Sec-Fetch-Site` of requests by our own pages or by the user; older browsers omit it."""
FRAMES = ("iframe", "frame", "embed", "object")


@dataclass(frozen=True, slots=True)
class Place:
    """The host names, origins, TLS and cookie of the pages."""

    takes_host: Callable[[str], bool]
    takes_origin: Callable[[str, str], bool]
    """Whether an origin is ours, given the requested host."""
    is_secure: bool
    cookie: str
    path: str
    """Path of the cookie."""

    def cookie_options(self) -> dict[str, Any]:
        """The attributes of the session's cookie."""
        return {"path": self.path, "secure": self.is_secure, "httponly": True, "samesite": "strict"}


def refusal(place: Place, request: Request) -> tuple[KgdError, int] | None:
    """Return the error and status for a request that another site may have caused; None if the request is ours."""
    hosts, origins = request.headers.getlist("host"), request.headers.getlist("origin")
    if len(hosts) != 1 or len(origins) > 1:
        return Invalid("a request must have one Host, and at most one Origin", at="Host, Origin"), 400
    if not place.takes_host(hosts[0]):
        return Invalid("this server does not have that name", at="Host"), 421
    # A page without a known origin sends "null". Our pages never do; other sites' pages may.
    if origins and not place.takes_origin(origins[0], hosts[0]):
        return Forbidden("other sites' pages may not send requests here", at="Origin"), 403
    site, mode, goal = (request.headers.get(f"sec-fetch-{name}", "") for name in ("site", "mode", "dest"))
    is_link = request.method in ("GET", "HEAD") and mode == "navigate" and goal == "document"
    if (site not in OWN and not is_link) or goal in FRAMES:
        return Forbidden("other sites' pages may only link here", at="Sec-Fetch-Site"), 403
    return None


def comes_from_elsewhere(request: Request) -> bool:
    """Whether another site caused the request."""
    return request.headers.get("sec-fetch-site", "") not in OWN


@asynccontextmanager
async def form_of(
    request: Request, bodies: Bodies, client: str = "", limit: int = ENTRY_LIMIT
) -> AsyncIterator[FormData]:
    """Read a form; its body counts towards the limit of buffered bytes while the context lasts.

    Args:
        client: The sender, if known.
        limit: Largest size of the body in bytes.

    Raises:
        Limit: The body is too large or too slow. At most `limit` bytes were read.
        Invalid: The body is not a form.
        Unavailable, TooMuch: The server is busy.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Invalid("the body must be a form", at="Content-Type")
    async with bodies.read(aiter(request.stream()), request.headers.get("content-length"), client, limit) as body:
        request._body = body
        try:
            form = await request.form(max_fields=FIELDS_LIMIT)
        except HTTPException as error:  # the library's error for too many fields or a malformed form
            raise Invalid(f"the form cannot be read: {error.detail}", at="form") from error
        except (MultiPartException, ValueError) as error:
            raise Invalid(f"the form cannot be read: {error}", at="form") from error
        yield form
