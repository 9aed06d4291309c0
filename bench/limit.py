"""A time limit for measurements, so that a run ends by itself."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

AGAIN = 60.0
"""Seconds until the next attempt, for code that continues after any error."""
SOON = 0.1


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the block after `seconds`; its processes are stopped as after any other error.

    In the main thread. May be nested: the outer block's time continues.
    """

    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"broken off after {seconds:g} s")

    begun = time.monotonic()
    left, again = signal.getitimer(signal.ITIMER_REAL)
    if left and left < seconds:  # the outer one rings first
        yield
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(SOON, left - (time.monotonic() - begun)), again)
