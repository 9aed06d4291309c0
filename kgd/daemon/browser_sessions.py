"""Browser sessions, and the interface of the web pages to the daemon."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


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
    """The interface of the pages to one daemon. Safe for threads."""

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
