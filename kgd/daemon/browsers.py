"""This file is where it is said what the daemon knows of browsers: which are let in, and how one more is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Browser:
    """One browser that was let in. Times are Unix seconds.

    `id` names the session and opens nothing. `token` is the id of the token that it came in with; empty for the person
    of this machine. `program` is what the browser says of itself.
    """

    id: str
    token: str
    program: str
    since: float
    seen: float


class Pages(Protocol):
    """The pages of one daemon. Any thread may call it."""

    @property
    def url(self) -> str:
        """Where they are served now; empty where nobody has asked for them yet."""

    def link(self, workspace: str = "") -> str:
        """An address that lets one browser in, once, at the workspace. Serves the pages first; may block for a moment.

        Raises:
            Unavailable: They cannot be served.
        """

    def browsers(self) -> list[Browser]:
        """Those that may look, the last one first."""

    def end(self, id: str | None = None) -> int:
        """Let one browser in no longer, or all of them; how many that were. An open page of theirs hears of it."""
