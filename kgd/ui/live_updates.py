"""Live updates: a stream of events per open page, with a cue to refresh after each change."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

import anyio.to_thread

from kgd.errors import KgdError
from kgd.model.uri import Uri

PING_SECONDS = 15.0
"""Seconds after which a silent stream sends a sign of life, so that both ends notice a lost connection."""
REST_SECONDS = 0.2
"""Seconds between two cues, so that a burst of commits causes one refresh."""
STREAMS_EACH, STREAMS_LIMIT = 60, 600
"""Largest number of streams per visitor, and in all; beyond it, the oldest stream ends."""
RETRY_MILLISECONDS = 1_500
LOOKED_AT = 500
"""A commit with more nodes is announced to every listener without checking read permission."""
REMEMBERED = 200
"""Number of changes kept for pages that start to listen late. A page that missed more than these refreshes."""

CUE = b"event: changed\ndata: 1\n\n"
"""Makes a page refresh. With several hubs, its data is a commit that the refreshed page must include."""

Sees = Callable[[Uri], bool]
"""Whether a listener may read the node of a URI."""


@dataclass(eq=False, slots=True)
class _Stream:
    workspace: str
    who: str
    sees: Sees | None
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    has_changed: bool = False
    is_over: bool = False

    def end(self) -> None:
        self.is_over = True
        self.woken.set()


class _Change(NamedTuple):
    mark: str
    workspace: str
    uris: Collection[str]

    def is_heard(self, workspace: str, sees: Sees | None) -> bool:
        return self.workspace == workspace and (
            sees is None or not self.uris or any(sees(Uri(one)) for one in self.uris)
        )


class Live:
    """The streams of all open pages. Belongs to the event loop; only `announce`, `mark` and `look` are thread-safe.

    Args:
        position: Returns the commit that the pages of a workspace include, if a browser may use several hubs.
    """

    def __init__(self, position: Callable[[str], str] = lambda workspace: "") -> None:
        self._position = position
        self._loop = asyncio.get_running_loop()
        self._streams: dict[_Stream, None] = {}
        self._closed = False
        self._began = deque([secrets.token_hex(8)], maxlen=2)
        """The current mark, which is replaced after `REMEMBERED` changes, and the previous mark."""
        self._told = 0
        self._changes: deque[_Change] = deque(maxlen=2 * REMEMBERED)  # all changes since the older mark

    def mark(self, workspace: str, sees: Sees | None = None) -> str:
        """Return a mark of this moment. A page passes it to `stream` to learn of changes since then.

        The mark reveals nothing about changes that the visitor may not see, not even their number.
        """
        heard = (one.mark for one in reversed(self._changes.copy()) if one.is_heard(workspace, sees))
        return next(heard, self._began[-1])

    def workspaces(self) -> set[str]:
        """The workspaces whose pages are open. May be called from any thread."""
        return {one.workspace for one in self._streams.copy()}

    def announce(self, workspace: str, uris: Collection[str] = ()) -> None:
        """Report changed nodes to the pages of a workspace; returns at once."""
        with contextlib.suppress(RuntimeError):  # the loop has ended, and no page is open
            self._loop.call_soon_threadsafe(self._tell, workspace, uris)

    def look(self) -> None:
        """Make every stream check its session now; returns at once."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._wake_all)

    async def stream(
        self, workspace: str, who: str, still: Callable[[], object], sees: Sees | None = None, since: str = ""
    ) -> AsyncIterator[bytes]:
        """Yield the events of one page until it disconnects, `close` is called, or `still` raises KgdError.

        After `still` raises, a last cue makes the page refresh and show the error.

        Args:
            who: The visitor whose limit of streams applies.
            still: Checks the session; may block.
            since: The page's `mark`.
        """
        own = _Stream(workspace, who, sees)
        self._make_room(who)
        self._streams[own] = None
        mark = self.mark(workspace, sees)
        if since and since != mark and not (since in self._began and mark in self._began):
            own.has_changed = True
            own.woken.set()
        try:
            yield b"retry: %d\nevent: open\ndata: 0\n\n" % RETRY_MILLISECONDS
            while not (own.is_over or self._closed):
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(own.woken.wait(), PING_SECONDS)
                own.woken.clear()
                if own.is_over or self._closed:
                    return
                try:
                    await anyio.to_thread.run_sync(still)
                except KgdError:
                    yield CUE
                    return
                changed, own.has_changed = own.has_changed, False
                cue = CUE.replace(b"1", (self._position(workspace) or "1").encode())
                yield cue if changed else b": still here\n\n"
                if changed:
                    await asyncio.sleep(REST_SECONDS)
        finally:
            self._streams.pop(own, None)

    def close(self) -> None:
        """End every stream; an open stream would keep a server from stopping."""
        self._closed = True
        for one in self._streams:
            one.end()

    def _make_room(self, who: str) -> None:
        theirs = [one for one in self._streams if one.who == who]
        for oldest_first, limit in ((theirs, STREAMS_EACH), (list(self._streams), STREAMS_LIMIT)):
            for one in oldest_first[: max(0, len(oldest_first) - limit + 1)]:
                self._streams.pop(one, None)
                one.end()

    def _tell(self, workspace: str, uris: Collection[str]) -> None:
        change = _Change(secrets.token_hex(8), workspace, uris if len(uris) <= LOOKED_AT else ())
        self._changes.append(change)
        self._told += 1
        if self._told % REMEMBERED == 0:
            self._began.append(secrets.token_hex(8))
        for one in self._streams:
            if change.is_heard(one.workspace, one.sees):
                one.has_changed = True
                one.woken.set()

    def _wake_all(self) -> None:
        for one in self._streams:
            one.woken.set()
