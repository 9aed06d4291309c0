"""This file is where it is known whose browser asks: links that work once, sessions, and the proof a form carries.

A session is kept on disk, by a digest of its key, so that a page that is open survives a restart of the daemon.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import orjson

from kgd.daemon.browsers import Browser
from kgd.errors import NotFound, Unauthorized, Unavailable

LINK_SECONDS = 600
"""How long a link that was never used can be."""
IDLE_SECONDS = 14 * 86_400
"""After so long without a look a session has ended. A page that is open looks by itself."""
CLOCK_SECONDS = 60
"""A clock that goes back by less is only being put right."""
SEEN_SECONDS = 3_600
"""How exact "last used" is: each look that is noted is a write."""
SESSIONS_EACH, SESSIONS_LIMIT = 50, 2_000
"""Sessions of one holder, and of all: beyond, the one that was used longest ago ends."""
LINKS_EACH, LINKS_LIMIT = 10, 1_000
"""Links that wait: beyond, the oldest lets nobody in any more."""
PROGRAM_LIMIT = 200

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who looks. `token` is the id of the token that they came in with; empty for the person of this machine."""

    token: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """What a link is for: whom it lets in, and where they arrive."""

    visitor: Visitor
    to: str
    until: float

    def is_good(self, now: float) -> bool:
        """A clock that was set back makes no link last longer."""
        return 0 <= self.until - now <= LINK_SECONDS + CLOCK_SECONDS


@dataclass(slots=True)
class _Kept:
    visitor: Visitor
    program: str
    since: float
    seen: float


class Sessions:
    """The sessions of one home. Safe for threads.

    Args:
        path: Where they are kept; only its owner can read it, and what it holds opens nothing.
        clock: Unix seconds.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path, self._clock = path, clock
        self._lock = threading.Lock()
        self._links: dict[str, Link] = {}
        self._kept = _read(path)

    @property
    def some(self) -> bool:
        """Whether a browser may still have a page open."""
        return bool(self.browsers())

    def browsers(self) -> list[Browser]:
        """Those that were let in, the last one that was seen first."""
        with self._lock:
            self._drop_old()
            found = [
                Browser(digest[:12], kept.visitor.token, kept.program, kept.since, kept.seen)
                for digest, kept in self._kept.items()
            ]
        return sorted(found, key=lambda one: (-one.seen, one.id))

    def invite(self, visitor: Visitor, to: str = "") -> str:
        """The code of a link that lets one browser in, once, within `LINK_SECONDS`; they arrive at `to`."""
        code = secrets.token_urlsafe(24)
        with self._lock:
            made = self._links
            _make_room([one for one in made if made[one].visitor == visitor], LINKS_EACH, made)
            _make_room(list(made), LINKS_LIMIT, made)
            made[_digest(code)] = Link(visitor, to, self._clock() + LINK_SECONDS)
        return code

    def invited(self, code: str) -> Link | None:
        """What a link is for, which uses nothing up; None where it lets nobody in."""
        with self._lock:
            link = self._links.get(_digest(code))
        return link if link and link.is_good(self._clock()) else None

    def enter(self, code: str, program: str = "") -> tuple[str, str]:
        """The key of a new session, for a link's code, and where they arrive.

        Raises:
            Unauthorized: The link was used, or is too old, or never was one.
            Unavailable: The session cannot be kept; the link is as good as before.
        """
        with self._lock:
            link = self._links.pop(_digest(code), None)
        if link is None or not link.is_good(self._clock()):
            raise Unauthorized("this link was used already, or is too old", next="`kgd ui` makes another one.")
        try:
            return self.open(link.visitor, program), link.to
        except Unavailable:
            with self._lock:
                self._links[_digest(code)] = link
            raise

    def open(self, visitor: Visitor, program: str = "") -> str:
        """The key of a new session.

        Raises:
            Unavailable: It cannot be kept.
        """
        key, now = secrets.token_urlsafe(32), self._clock()
        with self._lock:
            self._drop_old()
            known = sorted(self._kept, key=lambda digest: self._kept[digest].seen)
            _make_room([one for one in known if self._kept[one].visitor == visitor], SESSIONS_EACH, self._kept)
            _make_room([one for one in known if one in self._kept], SESSIONS_LIMIT, self._kept)
            self._kept[_digest(key)] = _Kept(visitor, _visible(program), now, now)
            try:
                self._write()
            except Unavailable:
                del self._kept[_digest(key)]  # nobody has its key
                raise
        return key

    def visitor(self, key: str) -> Visitor | None:
        """Who has this session; None where it has ended, or never was one."""
        now = self._clock()
        with self._lock:
            kept = self._kept.get(_digest(key))
            if kept is None or kept.seen + IDLE_SECONDS < now:
                return None
            if abs(now - kept.seen) > SEEN_SECONDS:  # either way: a clock may have been ahead
                kept.seen = now
                with contextlib.suppress(Unavailable):  # a full disk keeps nobody from reading
                    self._write()
            return kept.visitor

    def close(self, key: str) -> None:
        """End a session. Raises as `end`."""
        with self._lock:
            if self._kept.pop(_digest(key), None):
                self._write_ends()

    def end(self, id: str | None = None) -> int:
        """End the session that `browsers` names so, or all of them, and the links that wait; how many sessions.

        Raises:
            NotFound: There is no such session.
            Unavailable: They have ended, and come back with the next start: what is kept of them cannot be changed.
        """
        with self._lock:
            ending = [digest for digest in self._kept if id is None or digest[:12] == id]
            if id is not None and not ending:
                raise NotFound("this browser is not let in any more", at=id[:20], next="Look at the list again.")
            for digest in ending:
                del self._kept[digest]
            if id is None:
                self._links.clear()
            self._write_ends()
        return len(ending)

    def _drop_old(self) -> None:
        now = self._clock()
        oldest = now - IDLE_SECONDS
        for kept in self._kept.values():
            kept.seen = min(kept.seen, now)  # a clock that was years ahead leaves no session that lasts as long
        self._kept = {digest: kept for digest, kept in self._kept.items() if kept.seen >= oldest}

    def _write_ends(self) -> None:
        """Where there is no room for those that go on, none is kept: what ended must not come back with a restart."""
        try:
            self._write()
        except Unavailable:
            try:
                self._path.unlink(missing_ok=True)
            except OSError as error:
                raise _cannot(self._path, error) from error

    def _write(self) -> None:
        told = {
            digest: {"token": kept.visitor.token, "program": kept.program, "since": kept.since, "seen": kept.seen}
            for digest, kept in self._kept.items()
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
        f"the sessions of browsers cannot be kept: {error.strerror}", at=str(path),
        next="Make room there, or make it writable.",
    )  # fmt: skip


def proof(key: str) -> str:
    """What a form of this session carries; a page of another site can neither read nor guess it."""
    return hmac.digest(key.encode("utf-8", "replace"), b"form", "sha256").hex()


def is_proof(key: str, given: str) -> bool:
    return hmac.compare_digest(proof(key).encode(), given.encode("utf-8", "replace"))


def _make_room(oldest_first: list[K], limit: int, known: dict[K, object] | dict[K, Link] | dict[K, _Kept]) -> None:
    """Have one place below the limit."""
    for one in oldest_first[: max(0, len(oldest_first) - limit + 1)]:
        del known[one]


def _visible(text: str) -> str:
    return "".join(c for c in text if c.isprintable())[:PROGRAM_LIMIT]


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _read(path: Path) -> dict[str, _Kept]:
    """What is there; a file that cannot be read ends all sessions, which asks for no more than another link."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        return {
            str(digest): _Kept(
                Visitor(str(kept["token"])), str(kept.get("program", "")), float(kept.get("since", kept["seen"])),
                float(kept["seen"]),
            )
            for digest, kept in orjson.loads(path.read_bytes()).items()
        }  # fmt: skip
    return {}
