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
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import orjson

from kgd.errors import Unauthorized

LINK_SECONDS = 600
"""How long a link that was never used can be."""
IDLE_SECONDS = 14 * 86_400
"""After so long without a look a session has ended."""
SEEN_SECONDS = 3_600
"""How exact "last used" is: each look that is noted is a write."""
SESSIONS_LIMIT = 200
"""Beyond, the one that was used longest ago ends."""
LINKS_LIMIT = 100


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who looks. `token` is the id of the token that they came in with; empty for the person of this machine."""

    token: str = ""


@dataclass(slots=True)
class _Kept:
    visitor: Visitor
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
        self._links: dict[str, tuple[Visitor, float]] = {}
        self._kept = _read(path)

    @property
    def some(self) -> bool:
        """Whether a browser may still have a page open."""
        with self._lock:
            self._drop_old()
            return bool(self._kept)

    def invite(self, visitor: Visitor) -> str:
        """The code of a link that lets one browser in, once, within `LINK_SECONDS`."""
        code = secrets.token_urlsafe(24)
        with self._lock:
            while len(self._links) >= LINKS_LIMIT:
                self._links.pop(next(iter(self._links)))
            self._links[_digest(code)] = visitor, self._clock() + LINK_SECONDS
        return code

    def enter(self, code: str) -> str:
        """The key of a new session, for a link's code.

        Raises:
            Unauthorized: The link was used, or is too old, or never was one.
        """
        with self._lock:
            visitor, until = self._links.pop(_digest(code), (Visitor(), 0.0))
        if until < self._clock():
            raise Unauthorized("this link was used already, or is too old", next="`kgd ui` makes another one.")
        return self.open(visitor)

    def open(self, visitor: Visitor) -> str:
        """The key of a new session."""
        key = secrets.token_urlsafe(32)
        with self._lock:
            self._kept[_digest(key)] = _Kept(visitor, self._clock())
            self._drop_old()
            while len(self._kept) > SESSIONS_LIMIT:
                del self._kept[min(self._kept, key=lambda digest: self._kept[digest].seen)]
            self._write()
        return key

    def visitor(self, key: str) -> Visitor | None:
        """Who has this session; None where it has ended, or never was one."""
        now = self._clock()
        with self._lock:
            kept = self._kept.get(_digest(key))
            if kept is None or kept.seen + IDLE_SECONDS < now:
                return None
            if now - kept.seen > SEEN_SECONDS:
                kept.seen = now
                self._write()
            return kept.visitor

    def close(self, key: str) -> None:
        """End a session."""
        with self._lock:
            if self._kept.pop(_digest(key), None):
                self._write()

    def _drop_old(self) -> None:
        oldest = self._clock() - IDLE_SECONDS
        self._kept = {digest: kept for digest, kept in self._kept.items() if kept.seen >= oldest}

    def _write(self) -> None:
        told = {digest: {"token": kept.visitor.token, "seen": kept.seen} for digest, kept in self._kept.items()}
        waiting = self._path.with_suffix(".new")
        handle = os.open(waiting, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(orjson.dumps(told))
        os.replace(waiting, self._path)


def proof(key: str) -> str:
    """What a form of this session carries; a page of another site can neither read nor guess it."""
    return hmac.digest(key.encode(), b"form", "sha256").hex()


def is_proof(key: str, given: str) -> bool:
    return hmac.compare_digest(proof(key).encode(), given.encode("utf-8", "replace"))


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def _read(path: Path) -> dict[str, _Kept]:
    """What is there; a file that cannot be read ends all sessions, which asks for no more than another link."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
        known = orjson.loads(path.read_bytes())
        return {digest: _Kept(Visitor(str(kept["token"])), float(kept["seen"])) for digest, kept in known.items()}
    return {}
