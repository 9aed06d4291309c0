"""Addresses below `/ui` that are not pages: static files, and redirects to the nearest page above an address."""

from __future__ import annotations

from functools import cache
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from kgd.errors import NotFound
from kgd.ui import rendering
from kgd.ui.navigation import NAVIGATION
from kgd.ui.pages import ENTRIES, PAGES
from kgd.ui.visit import ROOT, Entry

START = "overview"
"""The first page of a workspace."""
KEPT = {"cache-control": "public, max-age=31536000, immutable"}


async def static(request: Request) -> Response:
    """Answer with a static file, which browsers may cache permanently."""
    name = request.path_params["name"]
    if name not in rendering.STATIC:
        raise NotFound("this file does not exist", next="Open the start page.")
    return Response(rendering.asset(name)[0], headers=rendering.HEADERS | KEPT, media_type=rendering.STATIC[name])


async def first(request: Request) -> Response:
    """Redirect to the start page."""
    return RedirectResponse(f"{ROOT}/", 303, rendering.HEADERS)


async def unknown(request: Request) -> Response:
    """Redirect to the nearest page if the address is the beginning of a page's address, or ends in a slash.

    Raises:
        NotFound: It is not.
    """
    target = nearest(request.path_params["rest"]) if request.method in ("GET", "HEAD") else None
    if target is None:
        raise NotFound("this page does not exist", next="Check the address.")
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


def shown_as(entry: Entry) -> str:
    """Return the name of the navigation's entry to mark: of the page itself, or of the page that it belongs to."""
    return entry.place if entry.place in NAVIGATION else entry.name


def page_above(entry: Entry) -> str:
    """Return the page in the navigation that an address belongs to."""
    return entry.name if entry.name in NAVIGATION else START


def _above(place: str, places: frozenset[str], first: str) -> str | None:
    if place and place not in places and not any(one.startswith(f"{place}/") for one in places):
        return None
    while place and place not in places:
        place = place.rpartition("/")[0]
    return place or first


@cache
def _places(entries: tuple[Entry, ...]) -> frozenset[str]:
    return frozenset(entry.place for entry in entries if "GET" in entry.methods)
