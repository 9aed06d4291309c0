"""Sessions of browsers: one-time sign-in links, session keys, and the proof in each form; and checks of the origin of
requests.

Sessions are kept in a file, so that open pages survive a restart of the daemon; unused links are kept in memory.

A page on another site can make a browser send requests to kgd. On this machine the request even carries the session
cookie, because cookies ignore ports. Therefore the origin that the browser reports is checked for each request.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Collection, Hashable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import orjson
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request

from kgd.daemon.request_bodies import Bodies
from kgd.errors import MALFORMED, Forbidden, Invalid, KgdError, NotFound, Unauthorized, Unavailable
from kgd.model.browser_state import (
    LINK_SECONDS,
    LINKS_EACH,
    LINKS_LIMIT,
    SESSIONS_EACH,
    SESSIONS_LIMIT,
    Browser,
    BrowserState,
    Link,
    SignedIn,
    Visitor,
)

IDLE_SECONDS = 14 * 86_400
"""A session ends after this time without a request. Open pages send requests by themselves."""
SEEN_SECONDS = 3_600
"""Precision of "last seen" in seconds; each update costs a write."""
PROGRAM_LIMIT = 200
ID_LENGTH = 12
KEPT_SAID = 500

K = TypeVar("K", bound=Hashable)

__all__ = [
    "Link",
    "Place",
    "Sessions",
    "Visitor",
    "browser_id",
    "comes_from_elsewhere",
    "form_of",
    "is_proof",
    "proof",
    "refusal",
]


class Sessions:
    """The sessions of one home, and of the hubs that share its state. Thread-safe.

    The sessions of this machine's user are never shared: they open everything on the machine, and a database must not
    give this access.

    Args:
        path: The file of sessions.
        clock: Returns Unix seconds.
        shared: The sessions of token holders, if several hubs share them.
    """

    def __init__(self, path: Path, clock: Callable[[], float], shared: BrowserState | None = None) -> None:
        self._own: BrowserState = SessionFile(path)
        self._shared, self._clock = shared, clock

    @property
    def some(self) -> bool:
        """Whether any session exists."""
        return bool(self.browsers())

    def browsers(self) -> list[Browser]:
        """Return the signed-in browsers, most recently seen first."""
        found = []
        for state in self._states():
            self._tidy(state)
            found += [
                Browser(digest[:ID_LENGTH], kept.visitor.token, kept.program, kept.since, kept.seen)
                for digest, kept in state.all().items()
            ]
        return sorted(found, key=lambda one: (-one.seen, one.id))

    def invite(self, visitor: Visitor, to: str = "") -> str:
        """Return the code of a link that signs in one browser, once, within `LINK_SECONDS`, and opens `to`."""
        code = secrets.token_urlsafe(24)
        self._of(visitor).add_link(_digest(code), Link(visitor, to, self._clock() + LINK_SECONDS))
        return code

    def invited(self, code: str) -> Link | None:
        """Return a link without consuming it; None if it is not valid."""
        found = (state.link(_digest(code)) for state in self._states())
        return next((link for link in found if link and link.is_good(self._clock())), None)

    def enter(self, code: str, program: str = "") -> tuple[str, str]:
        """Consume a sign-in link. Returns the key of a new session, and the page to open.

        Raises:
            Unauthorized: The link has already been used, has expired or is unknown.
            Unavailable: The session cannot be stored. The link stays valid.
        """
        key = secrets.token_urlsafe(32)
        for state in self._states():
            self._tidy(state)
            if link := state.exchange(_digest(code), _digest(key), _visible(program), self._clock()):
                return key, link.to
        raise Unauthorized("this link has already been used or has expired", next="Run `kgd ui` for a new link.")

    def open(self, visitor: Visitor, program: str = "") -> str:
        """Return the key of a new session.

        Raises:
            Unavailable: The session cannot be stored.
        """
        key, now, state = secrets.token_urlsafe(32), self._clock(), self._of(visitor)
        self._tidy(state)
        state.add(_digest(key), SignedIn(visitor, _visible(program), now, now))
        return key

    def visitor(self, key: str) -> Visitor | None:
        """Return the holder of a session; None if the session has ended or is unknown.

        Raises:
            Unavailable: The shared sessions cannot be read.
        """
        if not key:
            return None
        digest, now = _digest(key), self._clock()
        for state in self._states():
            if (kept := state.find(digest)) is None or kept.seen + IDLE_SECONDS < now:
                continue
            if abs(now - kept.seen) > SEEN_SECONDS:  # in both directions: the clock may have been ahead
                with contextlib.suppress(Unavailable):  # reading still works on a full disk
                    state.seen(digest, now)
            return kept.visitor
        return None

    def close(self, key: str) -> None:
        """End a session. Raises as `end` does."""
        if key:
            for state in self._states():
                state.end([_digest(key)])

    def end(self, id: str | None = None) -> int:
        """End one session by its id in `browsers`, or all sessions and links. Returns the number of ended sessions.

        Raises:
            NotFound: There is no such session.
            Unavailable: The sessions cannot be changed. They may continue when the daemon restarts.
        """
        ended = 0
        for state in self._states():
            ending = [one for one in state.all() if id is None or one[:ID_LENGTH] == id]
            if id is None:
                state.end_links()
            state.end(ending)
            ended += len(ending)
        if id is not None and not ended:
            raise NotFound("this browser is no longer signed in", at=id[:20], next="Reload the list.")
        return ended

    def say(self, key: str, text: str) -> None:
        """Keep a message for the next page of a session; it may be lost."""
        for state in self._states():
            with contextlib.suppress(Unavailable):
                if state.find(_digest(key)):
                    return state.say(_digest(key), text)

    def said(self, key: str) -> str:
        """Return and delete the message for the next page of a session; empty if there is none."""
        with contextlib.suppress(Unavailable):
            return next(filter(None, (state.said(_digest(key)) for state in self._states())), "")
        return ""

    def _states(self) -> Iterable[BrowserState]:
        return (self._own, self._shared) if self._shared else (self._own,)

    def _of(self, visitor: Visitor) -> BrowserState:
        return self._shared if self._shared and visitor.token else self._own

    def _tidy(self, state: BrowserState) -> None:
        state.tidy(self._clock() - IDLE_SECONDS, self._clock())


def proof(key: str) -> str:
    """Return the secret of a session's forms, which pages of other sites can neither read nor guess."""
    return hmac.digest(key.encode("utf-8", "replace"), b"form", "sha256").hex()


def is_proof(key: str, given: str) -> bool:
    return hmac.compare_digest(proof(key).encode(), given.encode("utf-8", "replace"))


def browser_id(key: str) -> str:
    """Return the id that `Sessions.browsers` has for the session of a key."""
    return _digest(key)[:ID_LENGTH]


def _visible(text: str) -> str:
    return "".join(c for c in text if c.isprintable())[:PROGRAM_LIMIT]


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


class SessionFile:
    """The links and sessions of one home. Implements `BrowserState`.

    Args:
        path: The file of sessions, readable by its owner only. Reading the file does not give access.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._links: dict[str, Link] = {}
        self._sessions = _read(path)
        self._said: dict[str, str] = {}

    def add_link(self, digest: str, link: Link) -> None:
        with self._lock:
            made = self._links
            _make_room([one for one in made if made[one].visitor == link.visitor], LINKS_EACH, made)
            _make_room(list(made), LINKS_LIMIT, made)
            made[digest] = link

    def link(self, digest: str) -> Link | None:
        with self._lock:
            return self._links.get(digest)

    def exchange(self, link: str, session: str, program: str, now: float) -> Link | None:
        with self._lock:
            found = self._links.pop(link, None)
            if found is None or not found.is_good(now):
                return None
            try:
                self._add(session, SignedIn(found.visitor, program, now, now))
            except Unavailable:
                self._links[link] = found
                raise
            return found

    def add(self, digest: str, session: SignedIn) -> None:
        with self._lock:
            self._add(digest, session)

    def find(self, digest: str) -> SignedIn | None:
        with self._lock:
            return self._sessions.get(digest)

    def all(self) -> dict[str, SignedIn]:
        with self._lock:
            return dict(self._sessions)

    def seen(self, digest: str, at: float) -> None:
        with self._lock:
            if digest in self._sessions:
                self._sessions[digest] = replace(self._sessions[digest], seen=at)
                self._write()

    def tidy(self, oldest: float, now: float) -> None:
        with self._lock:
            kept = {one: replace(found, seen=min(found.seen, now)) for one, found in self._sessions.items()}
            self._sessions = {one: found for one, found in kept.items() if found.seen >= oldest}

    def end(self, digests: Collection[str]) -> None:
        """Write the sessions, or delete the file if writing fails: ended sessions must not return with a restart."""
        with self._lock:
            ended = [self._sessions.pop(one) for one in digests if one in self._sessions]
            if not ended:
                return
            try:
                self._write()
            except Unavailable:
                try:
                    self._path.unlink(missing_ok=True)
                except OSError as error:
                    raise _cannot(self._path, error) from error

    def end_links(self) -> None:
        with self._lock:
            self._links.clear()

    def say(self, digest: str, text: str) -> None:
        with self._lock:
            while len(self._said) >= KEPT_SAID:
                del self._said[next(iter(self._said))]
            self._said[digest] = text

    def said(self, digest: str) -> str:
        with self._lock:
            return self._said.pop(digest, "")

    def _add(self, digest: str, session: SignedIn) -> None:
        known = sorted(self._sessions, key=lambda one: self._sessions[one].seen)
        theirs = [one for one in known if self._sessions[one].visitor == session.visitor]
        _make_room(theirs, SESSIONS_EACH, self._sessions)
        _make_room([one for one in known if one in self._sessions], SESSIONS_LIMIT, self._sessions)
        self._sessions[digest] = session
        try:
            self._write()
        except Unavailable:
            del self._sessions[digest]  # its key was never handed out
            raise

    def _write(self) -> None:
        told = {
            digest: {"token": kept.visitor.token, "program": kept.program, "since": kept.since, "seen": kept.seen}
            for digest, kept in self._sessions.items()
        }
        waiting = self._path.with_suffix(".new")
        try:
            handle = os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(orjson.dumps(told))
            os.replace(waiting, self._path)
        except OSError as error:
            raise _cannot(self._path, error) from error


def _cannot(path: Path, error: OSError) -> Unavailable:
    return Unavailable(
        f"the browser sessions cannot be stored: {error.strerror}",
        at=str(path),
        next="Free disk space, or make the file writable.",
    )


def _make_room(oldest_first: list[K], limit: int, known: dict[K, Link] | dict[K, SignedIn]) -> None:
    """Delete the oldest entries until there is room for another entry."""
    for one in oldest_first[: max(0, len(oldest_first) - limit + 1)]:
        del known[one]


def _read(path: Path) -> dict[str, SignedIn]:
    """Read the sessions. An unreadable file ends all sessions, and users sign in again."""
    with contextlib.suppress(OSError, *MALFORMED):
        return {
            str(digest): SignedIn(
                Visitor(str(kept["token"])),
                str(kept.get("program", "")),
                float(kept.get("since", kept["seen"])),
                float(kept["seen"]),
            )
            for digest, kept in orjson.loads(path.read_bytes()).items()
        }
    return {}


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
