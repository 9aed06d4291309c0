"""This file is where a place in a long answer is written down: opaque to the client, and nothing is kept here.

A cursor holds the position itself, so that it survives a restart of the daemon and works on any of its threads. It
comes back from outside and is trusted no more than any argument.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any

import orjson

from kgd.errors import Invalid


def write(tool: str, question: Any, position: list[Any]) -> str:
    """A cursor for `position` in the answer to `question` (any JSON: what must be equal when it is used)."""
    body = orjson.dumps([tool, _digest(question), position])
    return base64.urlsafe_b64encode(body).decode().rstrip("=")


def read(tool: str, question: Any, cursor: str) -> list[Any]:
    """The position in `cursor`.

    Raises:
        Invalid: It is not a cursor of this tool, or it belongs to a call with other arguments.
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
    """A non-negative whole number of a position.

    Raises:
        Invalid: Somebody else wrote this cursor.
    """
    value = position[at] if at < len(position) else None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _refuse("this is not a cursor")
    return value


def text(position: list[Any], at: int) -> str:
    """A text of a position; empty where it ends before.

    Raises:
        Invalid: Somebody else wrote this cursor.
    """
    value = position[at] if at < len(position) else ""
    if not isinstance(value, str):
        raise _refuse("this is not a cursor")
    return value


def _refuse(message: str) -> Invalid:
    return Invalid(
        message, at="cursor", next="Repeat the call that gave it, with the same arguments, or start without."
    )


def _digest(question: Any) -> str:
    return hashlib.blake2b(orjson.dumps(question, option=orjson.OPT_SORT_KEYS), digest_size=6).hexdigest()
