"""Waiting in tests for effects of other threads and processes that signal no event."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

WATCHED = 25.0
"""Deadline for a change that the watch must find, in seconds; the next periodic scan comes after 30 s at most."""


def until(condition: Callable[[], object], seconds: float = 60.0, say: Callable[[], object] = lambda: "") -> float:
    """Poll until the condition holds, and return the seconds it took; after `seconds` the test fails with `say`."""
    began, pause = time.monotonic(), 0.005
    while not condition():
        assert time.monotonic() < began + seconds, f"the condition did not hold within {seconds:g} s: {say()}"
        time.sleep(pause)
        pause = min(1.3 * pause, 0.1)  # constant polling would slow down the awaited work
    return time.monotonic() - began


def at_rest(status: dict[str, Any]) -> bool:
    """Whether the code is read, and all texts are scanned for mentions and embedded."""
    stages = {stage["name"]: stage for stage in status["stages"]}
    done, _, all_of = stages["embedding"].get("about", "").partition(": ")[2].removesuffix(" texts").partition(" of ")
    background = [stages[name]["state"] for name in ("code", "mentions") if name in stages]
    return set(background) <= {"ok"} and bool(done) and done == all_of
