"""Positions of the writes and reads of a hub's client, so that its next read includes them.

Several hubs may serve one workspace, and a load balancer may send each request to another hub. An answer carries the
commit that it includes, its *position*. A call that carries positions waits until its hub has them, since a write may
also refer to what the client has just written. A read then fails without them; a write goes on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from kgd.git.objects import is_id

HEADER = "x-kgd-at"
META = "kgd/at"
"""The key in `_meta` of MCP: an object with positions by workspace."""
MOST = 8
"""Largest number of positions of one call."""
KEPT_SECONDS = 600.0
"""Seconds for which a position is sent. Hubs follow their upstream much sooner. A position that a restored backup does
not have would be refused permanently."""


def split(positions: str) -> list[str]:
    """The positions of a header."""
    return [one.strip() for one in positions.split(",") if one.strip()]


class Positions:
    """The last positions of each workspace. Safe for threads.

    Concurrent answers arrive in any order, so a position is replaced only by the answer to a read that carried it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: dict[str, dict[str, float]] = {}
        self._lock = threading.Lock()

    def of(self, workspace: str) -> list[str]:
        """The positions for the next request, oldest first."""
        oldest = self._clock() - KEPT_SECONDS
        with self._lock:
            return [one for one, at in self._known.get(workspace, {}).items() if at > oldest]

    def answered(self, workspace: str, position: str, included: list[str]) -> None:
        """Record the position of an answer, which replaces the positions that it includes."""
        if not is_id(position):
            return
        with self._lock:
            known = self._known.setdefault(workspace, {})
            for one in (*included, position):
                known.pop(one, None)
            known[position] = self._clock()
            while len(known) > MOST:
                del known[next(iter(known))]
