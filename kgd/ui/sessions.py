"""Sessions of browsers: one-time sign-in links, session keys, and the proof in each form.

Sessions are stored on disk by a digest of their keys, so that open pages survive a restart of the daemon.
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

from kgd.daemon.browser_sessions import Browser
from kgd.errors import NotFound, Unauthorized, Unavailable

LINK_SECONDS = 600
"""Lifetime of an unused link."""
IDLE_SECONDS = 14 * 86_400
"""A session ends after this time without a request. Open pages send requests by themselves."""
CLOCK_SECONDS = 60
"""Smaller backward steps of the clock are corrections."""
SEEN_SECONDS = 3_600
"""Precision of "last seen": each update is a write."""
SESSIONS_EACH, SESSIONS_LIMIT = 50, 2_000
"""Most sessions of one holder and of all; beyond, the least recently used session ends."""
LINKS_EACH, LINKS_LIMIT = 10, 1_000
"""Most unused links of one holder and of all; beyond, the oldest link expires."""
PROGRAM_LIMIT = 200

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Visitor:
    """The holder of a session. `token` is the id of their token; empty for the user of this machine."""

    token: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A sign-in link: its visitor, and the page that it opens."""

    visitor: Visitor
    to: str
    until: float

    def is_good(self, now: float) -> bool:
        """Whether the link is valid; setting back the clock does not extend it."""
        return 0 <= self.until - now <= LINK_SECONDS + CLOCK_SECONDS


@dataclass(slots=True)
class _Kept:
    visitor: Visitor
    program: str
    since: float
    seen: float


class Sessions:
    """The sessions of one home. Thread-safe.

    Args:
        path: The file of sessions, readable by its owner only. Its content does not grant access.
        clock: Returns Unix seconds.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path, self._clock = path, clock
        self._lock = threading.Lock()
        self._links: dict[str, Link] = {}
        self._kept = _read(path)

    @property
    def some(self) -> bool:
        """Whether any session exists."""
        return bool(self.browsers())

    def browsers(self) -> list[Browser]:
        """Return the signed-in browsers, most recently seen first."""
        with self._lock:
            self._drop_old()
            found = [
                Browser(digest[:12], kept.visitor.token, kept.program, kept.since, kept.seen)
                for digest, kept in self._kept.items()
            ]
        return sorted(found, key=lambda one: (-one.seen, one.id))

    def invite(self, visitor: Visitor, to: str = "") -> str:
        """Return the code of a link that signs in one browser, once, within `LINK_SECONDS`, and opens `to`."""
        code = secrets.token_urlsafe(24)
        with self._lock:
            made = self._links
            _make_room([one for one in made if made[one].visitor == visitor], LINKS_EACH, made)
            _make_room(list(made), LINKS_LIMIT, made)
            made[_digest(code)] = Link(visitor, to, self._clock() + LINK_SECONDS)
        return code

    def invited(self, code: str) -> Link | None:
        """Return a link without using it up; None if it is not valid."""
        with self._lock:
            link = self._links.get(_digest(code))
        return link if link and link.is_good(self._clock()) else None

    def enter(self, code: str, program: str = "") -> tuple[str, str]:
        """Use up a link. Returns the key of a new session, and the page to open.

        Raises:
            Unauthorized: The link is used, expired or unknown.
            Unavailable: The session cannot be stored. The link stays valid.
        """
        with self._lock:
            link = self._links.pop(_digest(code), None)
        if link is None or not link.is_good(self._clock()):
            raise Unauthorized("this link has already been used or has expired", next="Run `kgd ui` for a new link.")
        try:
            return self.open(link.visitor, program), link.to
        except Unavailable:
            with self._lock:
                self._links[_digest(code)] = link
            raise

    def open(self, visitor: Visitor, program: str = "") -> str:
        """Return the key of a new session.

        Raises:
            Unavailable: The session cannot be stored.
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
                del self._kept[_digest(key)]  # its key was never handed out
                raise
        return key

    def visitor(self, key: str) -> Visitor | None:
        """Return the holder of a session; None if the session has ended or is unknown."""
        now = self._clock()
        with self._lock:
            kept = self._kept.get(_digest(key))
            if kept is None or kept.seen + IDLE_SECONDS < now:
                return None
            if abs(now - kept.seen) > SEEN_SECONDS:  # in both directions: the clock may have been ahead
                kept.seen = now
                with contextlib.suppress(Unavailable):  # reading still works on a full disk
                    self._write()
            return kept.visitor

    def close(self, key: str) -> None:
        """End a session. Raises as `end`."""
        with self._lock:
            if self._kept.pop(_digest(key), None):
                self._write_ends()

    def end(self, id: str | None = None) -> int:
        """End one session by its id in `browsers`, or all sessions and links. Returns the number of ended sessions.

        Raises:
            NotFound: There is no such session.
            Unavailable: The file cannot be changed. The sessions have ended but return with the next start.
        """
        with self._lock:
            ending = [digest for digest in self._kept if id is None or digest[:12] == id]
            if id is not None and not ending:
                raise NotFound("this browser is no longer signed in", at=id[:20], next="Reload the list.")
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
            kept.seen = min(kept.seen, now)  # a clock that was ahead must not extend a session
        self._kept = {digest: kept for digest, kept in self._kept.items() if kept.seen >= oldest}

    def _write_ends(self) -> None:
        """Write the sessions, or delete the file if writing fails: ended sessions must not return with a restart."""
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
        f"the browser sessions cannot be stored: {error.strerror}",
        at=str(path),
        next="Free disk space, or make the file writable.",
    )


def proof(key: str) -> str:
    """Return the secret of a session's forms, which pages of other sites can neither read nor guess."""
    return hmac.digest(key.encode("utf-8", "replace"), b"form", "sha256").hex()


def is_proof(key: str, given: str) -> bool:
    return hmac.compare_digest(proof(key).encode(), given.encode("utf-8", "replace"))


def _make_room(oldest_first: list[K], limit: int, known: dict[K, object] | dict[K, Link] | dict[K, _Kept]) -> None:
    """Delete the oldest entries until one more fits."""
    for one in oldest_first[: max(0, len(oldest_first) - limit + 1)]:
        del known[one]


def _visible(text: str) -> str:
    return "".join(c for c in text if c.isprintable())[:PROGRAM_LIMIT]


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _read(path: Path) -> dict[str, _Kept]:
    """Read the sessions. An unreadable file ends all sessions, and users sign in again."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        return {
            str(digest): _Kept(
                Visitor(str(kept["token"])),
                str(kept.get("program", "")),
                float(kept.get("since", kept["seen"])),
                float(kept["seen"]),
            )
            for digest, kept in orjson.loads(path.read_bytes()).items()
        }
    return {}
