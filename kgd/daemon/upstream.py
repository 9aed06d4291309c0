"""Upstreams of a hub: a change is acknowledged only once all upstream remotes have it.

Concurrent callers share rounds: a caller that arrives during a round waits for the next one, which includes its change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from kgd.daemon.syncing import Answer, Syncing
from kgd.errors import KgdError, Unavailable

SECONDS = 45.0
"""Seconds that a caller waits for a round to start and finish."""


class Upstream:
    """The remotes that a daemon's workspaces push to. Safe for threads.

    If several hubs share a workspace, each commit has been pushed before the writer acknowledges it.

    Args:
        syncing: Returns the sync of the workspace with this id.
    """

    def __init__(self, syncing: Callable[[str], Syncing]) -> None:
        self._syncing = syncing
        self._lock = threading.Lock()
        self._queues: dict[tuple[str, str], _Queue] = {}

    def push(self, workspace: str) -> None:
        """Return when every upstream has the workspace's tip; without upstreams, return at once.

        Raises:
            Unavailable: An upstream did not accept the tip. The change is kept and pushed later.
        """
        self._round(workspace, "both")

    def fetch(self, workspace: str) -> None:
        """Return when the workspace has the tips of its upstreams.

        Raises:
            Unavailable: An upstream could not be reached.
        """
        self._round(workspace, "pull")

    def _round(self, id: str, direction: str) -> None:
        syncing = self._syncing(id)
        if syncing.is_shared:
            if direction == "pull":
                syncing.workspace.catch_up()
            return
        if not any(one.remote.direction != "pull" for one in syncing.machines()):
            return
        with self._lock:
            queue = self._queues.setdefault((id, direction), _Queue())
        queue.run(lambda: _error_of(syncing.sync(direction=direction)))


class _Queue:
    """Rounds, one at a time; one of the waiting callers runs the next round for all."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._begun = self._done = 0
        self._error: KgdError | None = None

    def run(self, round: Callable[[], KgdError | None]) -> None:
        with self._changed:
            mine = self._begun + 1
            if not self._changed.wait_for(lambda: self._done >= mine or self._done == self._begun, SECONDS):
                raise Unavailable("the upstream is slow; the change is kept here and is pushed later")
            if self._done >= mine:
                if self._error:
                    raise self._error
                return
            self._begun += 1
        error: KgdError | None = Unavailable("the sync with the upstream was interrupted")
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


def _error_of(answers: Iterable[Answer]) -> KgdError | None:
    """The reason why an upstream does not have the workspace's tip; None if all have it."""
    for answer in answers:
        if answer.machine.remote.direction == "pull":
            continue
        waits = [wait for wait in answer.done.waits if wait.kind != "proposal"]
        if answer.error or waits:
            reason = answer.error.message if answer.error else waits[0].reason
            return Unavailable(
                f"it is kept here, but the upstream '{answer.machine.remote.name}' has not accepted it: {reason}"[:320],
                next="kgd pushes it as soon as possible; to check, repeat the call with the same request_id.",
            )
    return None
