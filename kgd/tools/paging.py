"""Pages of an answer: the fields that apply, the size in tokens, and the cursor of the next page."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import orjson

from kgd.errors import MALFORMED, Invalid

HARD_LIMIT = 40_000
"""Largest size of a structured answer in bytes."""

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

        With `first`, a value may exceed the budget, up to the hard limit, if nothing is reserved yet.
        """
        size = size_of(value)
        if size > self.left and not (first and self.used == 0 and size <= HARD_LIMIT - RESERVE):
            return False
        self.left -= size
        self.used += size
        return True


def present(**fields: Any) -> Any:
    """The fields of an answer that apply: those that are neither empty, zero, false nor None."""
    return {name: value for name, value in fields.items() if value}


def size_of(value: Any) -> int:
    """Bytes of `value` as JSON, with its separator."""
    return len(orjson.dumps(value)) + 1


def fitting(text: str, room: int) -> int:
    """The number of leading characters of `text` that take at most `room` bytes as JSON; at least 1 if `text` is not
    empty."""
    if size_of(text) <= room:
        return len(text)
    low, high = 1, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size_of(text[:middle]) <= room else (low, middle - 1)
    return low


def clip(value: Any, limit: int) -> Any:
    """The value, in which each text of more than `limit` characters is cut and followed by its full length."""
    if isinstance(value, str):
        return value if len(value) <= limit else f"{value[:limit]}… ({len(value)} characters)"
    if isinstance(value, list | tuple):
        return [clip(item, limit) for item in value]
    if isinstance(value, dict):
        return {key: clip(item, limit) for key, item in value.items()}
    return value


def write(tool: str, question: Any, position: list[Any]) -> str:
    """A cursor for a position in an answer.

    Args:
        question: Any JSON. The cursor is valid only for a call with an equal question.
        position: JSON values that `index` and `text` read.
    """
    body = orjson.dumps([tool, _digest(question), position])
    return base64.urlsafe_b64encode(body).decode().rstrip("=")


def read(tool: str, question: Any, cursor: str) -> list[Any]:
    """The position in `cursor`.

    Raises:
        Invalid: The text is not a cursor of this tool, or belongs to a call with other arguments.
    """
    try:
        body = orjson.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        made_by, digest, position = body
    except MALFORMED:
        raise _refuse("this is not a cursor") from None
    if made_by != tool or not isinstance(position, list):
        raise _refuse(f"this is not a cursor of {tool}")
    if digest != _digest(question):
        raise _refuse("this cursor belongs to a call with other arguments")
    return position


def index(position: list[Any], at: int) -> int:
    """The non-negative integer at index `at` of a position.

    Raises:
        Invalid: There is no such integer, so kgd did not write this cursor.
    """
    value = position[at] if at < len(position) else None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _refuse("this is not a cursor")
    return value


def text(position: list[Any], at: int) -> str:
    """The text at index `at` of a position; empty if the position is shorter.

    Raises:
        Invalid: The value is not a text, so kgd did not write this cursor.
    """
    value = position[at] if at < len(position) else ""
    if not isinstance(value, str):
        raise _refuse("this is not a cursor")
    return value


def _refuse(message: str) -> Invalid:
    return Invalid(
        message, at="cursor", next="Repeat the call that returned it, with the same arguments, or start without one."
    )


def _digest(question: Any) -> str:
    return hashlib.blake2b(orjson.dumps(question, option=orjson.OPT_SORT_KEYS), digest_size=6).hexdigest()
