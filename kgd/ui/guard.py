"""This file is where it is decided what a request of a browser has to pass before anything is read of it.

A page of another site can have a person's browser send requests, and with a session on this machine even with their
cookie, since cookies know no ports. So what a browser says of where a request comes from is looked at each time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from kgd.daemon.bodies import Bodies
from kgd.errors import Forbidden, Invalid, KgdError

FORM_LIMIT = 1 << 20
ENTRY_LIMIT = 8 << 10
"""Bytes of the form of a browser that is not known yet."""
FIELDS_LIMIT = 2_000
OWN = ("", "same-origin", "none")
"""What `Sec-Fetch-Site` says of a request that our own page made, or the person; nothing in older browsers."""
FRAMES = ("iframe", "frame", "embed", "object")


@dataclass(frozen=True, slots=True)
class Place:
    """Where the pages are: by which names, for which origins, over TLS or not, and how a session's cookie is called."""

    takes_host: Callable[[str], bool]
    takes_origin: Callable[[str, str], bool]
    """Whether a page of that origin is one of ours, by the Host that it asked."""
    is_secure: bool
    cookie: str
    path: str
    """Below which the cookie is sent."""


def refusal(place: Place, request: Request) -> tuple[KgdError, int] | None:
    """Why a request that another site may have caused is not answered, and with which status; None for one of ours."""
    hosts, origins = request.headers.getlist("host"), request.headers.getlist("origin")
    if len(hosts) != 1 or len(origins) > 1:
        return Invalid("a request has one Host, and one Origin at most", at="Host, Origin"), 400
    if not place.takes_host(hosts[0]):
        return Invalid("nobody is called by that name here", at="Host"), 421
    # A page that may not say where it is from says "null", as a stranger's may: ours do not.
    if origins and not place.takes_origin(origins[0], hosts[0]):
        return Forbidden("pages of other sites may not ask this one", at="Origin"), 403
    site, mode, goal = (request.headers.get(f"sec-fetch-{name}", "") for name in ("site", "mode", "dest"))
    is_link = request.method in ("GET", "HEAD") and mode == "navigate" and goal == "document"
    if (site not in OWN and not is_link) or goal in FRAMES:
        return Forbidden("pages of other sites may lead here, and no more", at="Sec-Fetch-Site"), 403
    return None


def comes_from_elsewhere(request: Request) -> bool:
    """Whether another site's page led here."""
    return request.headers.get("sec-fetch-site", "") not in OWN


@asynccontextmanager
async def form_of(
    request: Request, bodies: Bodies, client: str = "", limit: int = ENTRY_LIMIT
) -> AsyncIterator[FormData]:
    """The fields that were sent; held as long as the context lasts.

    Args:
        client: Who sends it, once that is known.

    Raises:
        Limit: It is too large, or comes too slowly; no more than the limit was read.
        Invalid: It is no form.
        Unavailable, TooMuch: There is no room for it at this moment.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Invalid("what is sent here has to be a form", at="Content-Type")
    async with bodies.read(aiter(request.stream()), request.headers.get("content-length"), client, limit) as body:
        request._body = body
        try:
            form = await request.form(max_fields=FIELDS_LIMIT)
        except HTTPException as error:  # which is how the library refuses too many fields, and what is no form
            raise Invalid(f"the form cannot be read: {error.detail}", at="form") from error
        except (MultiPartException, ValueError) as error:
            raise Invalid(f"the form cannot be read: {error}", at="form") from error
        yield form
