"""Sign-in links in memory, and sessions in a file, so that open pages survive a restart of the daemon."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Collection, Hashable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import orjson

from kgd.errors import Unavailable
from kgd.model.browser_state import (
    LINKS_EACH,
    LINKS_LIMIT,
    SESSIONS_EACH,
    SESSIONS_LIMIT,
    Link,
    SignedIn,
    Visitor,
)

KEPT_SAID = 500

K = TypeVar("K", bound=Hashable)


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
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
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
