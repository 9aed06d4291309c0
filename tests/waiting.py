"""This file is where tests wait for what comes about by itself, in another thread or process, without an event."""

from __future__ import annotations

import time
from collections.abc import Callable


def until(condition: Callable[[], object], seconds: float = 15.0, say: Callable[[], object] = lambda: "") -> float:
    """Ask until the condition holds, and return how long that took; after `seconds` the test fails with `say`."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() < began + seconds, f"it did not come about within {seconds:g} s: {say()}"
        time.sleep(0.01)
    return time.monotonic() - began
