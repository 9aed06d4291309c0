"""The interfaces of the state of browsers (sign-in links and sessions) and of the web pages to the daemon.

`tests/ui/test_browser_state.py` tests its contract with each implementation.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

LINK_SECONDS = 600
"""Lifetime of an unused link."""
CLOCK_SECONDS = 60
"""Backward steps of the clock, and differences between clocks, that are smaller than this are ignored."""
SESSIONS_EACH, SESSIONS_LIMIT = 50, 2_000
"""Largest number of sessions per holder, and in all; beyond it, the least recently used session ends."""
LINKS_EACH, LINKS_LIMIT = 10, 1_000
"""Largest number of unused links per holder, and in all; beyond it, the oldest link expires."""


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


@dataclass(frozen=True, slots=True)
class SignedIn:
    """A session. Times are Unix seconds."""

    visitor: Visitor
    program: str
    since: float
    seen: float


class BrowserState(Protocol):
    """Sessions and links by the digests of their secrets. Thread-safe.

    Every method raises Unavailable if the state cannot be reached or stored; then nothing has changed, unless the
    method says otherwise.
    """

    def add_link(self, digest: str, link: Link) -> None:
        """Add a link, and delete the oldest links beyond the limits."""

    def link(self, digest: str) -> Link | None:
        """A link, which stays unused."""

    def exchange(self, link: str, session: str, program: str, now: float) -> Link | None:
        """Replace a valid link by a session of its visitor; None without a valid link. Of several calls with the same
        link, at any hubs, only one succeeds."""

    def add(self, digest: str, session: SignedIn) -> None:
        """Add a session, and delete the least recently used sessions beyond the limits."""

    def find(self, digest: str) -> SignedIn | None: ...

    def all(self) -> dict[str, SignedIn]:
        """All sessions."""

    def seen(self, digest: str, at: float) -> None:
        """Record a use of a session."""

    def tidy(self, oldest: float, now: float) -> None:
        """Delete the sessions that were last used before `oldest`. A later last use than `now` becomes `now`, so that a
        clock that was ahead does not extend a session."""

    def end(self, digests: Collection[str]) -> None:
        """End sessions. After Unavailable, the sessions may continue after a restart."""

    def end_links(self) -> None: ...

    def say(self, digest: str, text: str) -> None:
        """Keep a message for the session's next page; may be lost."""

    def said(self, digest: str) -> str:
        """Return and delete the message for the session's next page."""


@dataclass(frozen=True, slots=True)
class Browser:
    """A signed-in browser. Times are Unix seconds.

    `id` names the session and does not give access. `token` is the id of its token; empty for this machine's user.
    `program` is the browser's user agent.
    """

    id: str
    token: str
    program: str
    since: float
    seen: float


class Pages(Protocol):
    """The interface of the pages to one daemon. Thread-safe."""

    @property
    def url(self) -> str:
        """URL of the pages; empty before they are first served."""

    def link(self, workspace: str = "") -> str:
        """A single-use sign-in link to a workspace. Starts serving the pages if needed, which blocks for a moment.

        Raises:
            Unavailable: The pages cannot be served.
        """

    def browsers(self) -> list[Browser]:
        """Signed-in browsers, newest first."""

    def end(self, id: str | None = None) -> int:
        """Sign out one browser or all, and notify their open pages; returns the number."""
