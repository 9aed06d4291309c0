"""This file is where it is known how often a model was asked about a conflict, so that no one is asked for ever.

It lives as long as the daemon: what is forgotten with it costs a few questions more, and nothing else.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable

STRIKES = 3
"""Bad or missing answers about one conflict, after which it waits for a person or for the calling agent."""
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
        self._failed: Counter[str] = Counter()
        self._unanswered: dict[str, deque[float]] = {}
        self._asked: deque[float] = deque()

    def why_not(self, conflict: str) -> str:
        """In words why nobody should be asked about this conflict now; empty where somebody may."""
        with self._lock:
            since = self._clock() - AN_HOUR
            waiting = sum(at > since for at in self._unanswered.get(conflict, ()))
            if self._failed[conflict] + waiting >= STRIKES:
                return f"models were asked {STRIKES} times in vain"
            while self._asked and self._asked[0] <= since:
                self._asked.popleft()
            return f"{PER_HOUR} questions were asked within the hour" if len(self._asked) >= PER_HOUR else ""

    def asked(self, conflicts: Iterable[str]) -> None:
        """A question about each of them is on its way; it counts as unanswered for an hour, or until it is."""
        with self._lock:
            for conflict in conflicts:
                self._asked.append(self._clock())
                self._unanswered.setdefault(conflict, deque(maxlen=STRIKES)).append(self._clock())

    def answered(self, conflict: str) -> None:
        """An answer to the last question about it came."""
        with self._lock:
            if waiting := self._unanswered.get(conflict):
                waiting.pop()

    def failed(self, conflict: str) -> None:
        """The answer was of no use; that counts for good, and so does one that looked well and could not be written."""
        with self._lock:
            self._failed[conflict] += 1
