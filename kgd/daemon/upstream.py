"""This file is where a hub makes sure that what it acknowledges is in the upstream of its workspace too.

Many callers share a round: whoever comes while one is under way waits for the next, which begins after their change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kgd.errors import KgdError, Unavailable

if TYPE_CHECKING:
    from kgd.daemon.daemon import Daemon
    from kgd.daemon.syncing import Answer

SECONDS = 45.0
"""How long a caller waits for a round to begin and end."""


class Upstream:
    """The upstreams of a daemon's workspaces: the remotes that they push to. Safe for threads."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._lock = threading.Lock()
        self._queues: dict[tuple[str, str], _Queue] = {}

    def push(self, workspace: str) -> None:
        """Return when every upstream of the workspace holds what it holds; at once where it has none.

        Raises:
            Unavailable: One has not taken it. The change is kept here and goes there as soon as that is possible.
        """
        self._round(workspace, "both")

    def fetch(self, workspace: str) -> None:
        """Return when the workspace holds what its upstreams hold.

        Raises:
            Unavailable: One could not be asked.
        """
        self._round(workspace, "pull")

    def _round(self, id: str, direction: str) -> None:
        workspace = self._daemon.workspace(id)
        syncing = self._daemon.syncing(workspace)
        if not any(one.remote.direction != "pull" for one in syncing.machines()):
            return
        with self._lock:
            queue = self._queues.setdefault((id, direction), _Queue())
        queue.run(lambda: _told(syncing.sync(direction=direction)))


class _Queue:
    """One round after the other; of those who wait, one runs it for all."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._begun = self._done = 0
        self._error: KgdError | None = None

    def run(self, round: Callable[[], KgdError | None]) -> None:
        with self._changed:
            mine = self._begun + 1
            if not self._changed.wait_for(lambda: self._done >= mine or self._done == self._begun, SECONDS):
                raise Unavailable("the upstream is slow; the change is kept here and goes there by itself")
            if self._done >= mine:
                if self._error:
                    raise self._error
                return
            self._begun += 1
        error: KgdError | None = Unavailable("the round with the upstream broke off")
        try:
            error = round()
        except KgdError as known:
            error = known
        finally:
            with self._changed:
                self._done, self._error = self._begun, error
                self._changed.notify_all()
        if error:
            raise error


def _told(answers: Iterable[Answer]) -> KgdError | None:
    """Why an upstream does not hold what the workspace holds; None where all do."""
    for answer in answers:
        if answer.machine.remote.direction == "pull":
            continue
        waits = [wait for wait in answer.done.waits if wait.kind != "proposal"]
        if answer.error or waits:
            reason = answer.error.message if answer.error else waits[0].reason
            return Unavailable(
                f"it is kept here, but the upstream '{answer.machine.remote.name}' has not taken it: {reason}"[:320],
                next="It goes there by itself when that is possible; ask again with the same request_id to know.",
            )
    return None
