"""The return of memory after long work: freed memory goes back to the system, which glibc alone would keep."""

from __future__ import annotations

import ctypes


def give_memory_back() -> None:
    """Some milliseconds, so for a work that is not done often: 15 MB after 100k nodes, 48 MB after their vectors."""
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
