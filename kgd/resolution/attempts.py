"""This file is where it is known how often a model was asked about a conflict, so that no one is asked for ever.

It lives as long as the daemon: what is forgotten with it costs a few questions more, and nothing else.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable

STRIKES = 3
"""Bad or missing answers of one client within an hour, after which it is not asked about that conflict."""
AN_HOUR = 3600.0
PER_HOUR = 120
"""Questions an hour that one daemon asks of all models together."""


class Attempts:
    """Counts questions and what came of them. Safe for threads.

    Args:
        clock: Seconds of a clock that does not jump.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._failed: dict[tuple[str, str], deque[float]] = {}
        self._unanswered: dict[tuple[str, str], deque[float]] = {}
        self._asked: deque[float] = deque()

    def why_not(self, conflict: str, client: str) -> str:
        """Why this client should not be asked about this conflict now; empty if it may be."""
        with self._lock:
            since = self._clock() - AN_HOUR
            key = client, conflict
            vain = [*self._unanswered.get(key, ()), *self._failed.get(key, ())]
            if sum(at > since for at in vain) >= STRIKES:
                return f"this model was asked {STRIKES} times in vain within an hour"
            while self._asked and self._asked[0] <= since:
                self._asked.popleft()
            return f"{PER_HOUR} questions were asked within the hour" if len(self._asked) >= PER_HOUR else ""

    def asked(self, conflicts: Iterable[str], client: str) -> None:
        """A question about each of them is on its way; it counts as unanswered for an hour, or until it is."""
        with self._lock:
            for conflict in conflicts:
                self._asked.append(self._clock())
                self._unanswered.setdefault((client, conflict), deque(maxlen=STRIKES)).append(self._clock())

    def answered(self, conflict: str, client: str) -> None:
        """An answer to the last question about it came."""
        with self._lock:
            if waiting := self._unanswered.get((client, conflict)):
                waiting.pop()

    def failed(self, conflict: str, client: str) -> None:
        """The answer was of no use, or looked well and could not be written; that counts for an hour."""
        with self._lock:
            self._failed.setdefault((client, conflict), deque(maxlen=STRIKES)).append(self._clock())
