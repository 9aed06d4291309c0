"""This file is where answers are kept small enough for the conversation that asked.

A token is taken as four characters. Whatever is asked for, an answer stays below 40 KB: hosts replace longer ones by a
file or cut them. What does not fit is named, and a cursor continues there.
"""

from __future__ import annotations

from typing import Any

import orjson

HARD_LIMIT = 40_000
"""Bytes of one structured answer."""

RESERVE = 1_200
"""Bytes kept free for what surrounds the lists: cursor, hint, cuts, context id."""

LEAST = 400
"""Below this many bytes a part of a content is not worth sending."""


class Room:
    """How many bytes of an answer are left."""

    def __init__(self, budget: int, limit: int = HARD_LIMIT) -> None:
        self.left = max(LEAST, min(budget * 4, limit) - RESERVE)
        self.used = 0

    def take(self, value: Any, *, first: bool = False) -> bool:
        """Takes the place that `value` needs as JSON; no when it is not there. The `first` one is let in."""
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
    """How many characters of `text` take at most `room` bytes as JSON; at least one where there is any text."""
    if size_of(text) <= room:
        return len(text)
    low, high = 1, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size_of(text[:middle]) <= room else (low, middle - 1)
    return low


def clip(value: Any, limit: int) -> Any:
    """The value with every text in it cut to `limit` characters, saying how long it was."""
    if isinstance(value, str):
        return value if len(value) <= limit else f"{value[:limit]}… ({len(value)} characters)"
    if isinstance(value, list | tuple):
        return [clip(item, limit) for item in value]
    if isinstance(value, dict):
        return {key: clip(item, limit) for key, item in value.items()}
    return value
