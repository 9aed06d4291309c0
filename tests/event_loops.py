"""Event loops of tests, each in its own thread."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import anyio

T = TypeVar("T")


def apart(work: Callable[[], Coroutine[object, object, T]]) -> T:
    """
    Run a coroutine function in a separate thread, and return its result.

    Between the tests of pages, Playwright's event loop occupies the thread of the tests.
    """
    with ThreadPoolExecutor(1) as elsewhere:
        return elsewhere.submit(anyio.run, work).result()
