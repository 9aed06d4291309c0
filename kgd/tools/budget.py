"""Size limits of answers, so that they fit into an agent's conversation.

A token counts as four characters. At any budget, an answer stays below 40 KB, because hosts cut longer answers or
replace them by a file. The answer names the items that do not fit, and a cursor continues there.
"""

from __future__ import annotations

from typing import Any

import orjson

HARD_LIMIT = 40_000
"""Bytes of one structured answer."""

RESERVE = 1_200
"""Bytes reserved for the fields around the lists: cursor, hint, cuts, context id."""

LEAST = 400
"""Smallest part of a content, in bytes, that is worth sending."""


class Room:
    """The bytes left in an answer."""

    def __init__(self, budget: int, limit: int = HARD_LIMIT) -> None:
        self.left = max(LEAST, min(budget * 4, limit) - RESERVE)
        self.used = 0

    def take(self, value: Any, *, first: bool = False) -> bool:
        """Reserve the bytes of `value` as JSON. If there is no room, returns False and reserves nothing.

        With `first`, a value that is the first to be added may exceed the budget, up to the hard limit.
        """
        size = size_of(value)
        if size > self.left and not (first and self.used == 0 and size <= HARD_LIMIT - RESERVE):
            return False
        self.left -= size
        self.used += size
        return True


def size_of(value: Any) -> int:
    """Bytes of `value` as JSON, with its separator."""
    return len(orjson.dumps(value)) + 1


def fitting(text: str, room: int) -> int:
    """The number of leading characters of `text` that take at most `room` bytes as JSON; at least 1 if it has any."""
    if size_of(text) <= room:
        return len(text)
    low, high = 1, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size_of(text[:middle]) <= room else (low, middle - 1)
    return low


def clip(value: Any, limit: int) -> Any:
    """The value with each longer text in it cut to `limit` characters, followed by its full length."""
    if isinstance(value, str):
        return value if len(value) <= limit else f"{value[:limit]}… ({len(value)} characters)"
    if isinstance(value, list | tuple):
        return [clip(item, limit) for item in value]
    if isinstance(value, dict):
        return {key: clip(item, limit) for key, item in value.items()}
    return value
