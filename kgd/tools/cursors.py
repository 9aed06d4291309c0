"""Cursors: positions in long answers, opaque to the client and without state in the daemon.

A cursor contains the position itself, so it survives a restart of the daemon and works on any of its threads. It is
untrusted input, like every argument.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any

import orjson

from kgd.errors import Invalid


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
    except (binascii.Error, orjson.JSONDecodeError, ValueError, TypeError):
        raise _refuse("this is not a cursor") from None
    if made_by != tool or not isinstance(position, list):
        raise _refuse(f"this is not a cursor of {tool}")
    if digest != _digest(question):
        raise _refuse("this cursor belongs to a call with other arguments")
    return position


def index(position: list[Any], at: int) -> int:
    """The non-negative integer at index `at` of a position.

    Raises:
        Invalid: There is none, so kgd did not write this cursor.
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
