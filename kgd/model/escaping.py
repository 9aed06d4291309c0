"""Text for display: escaping of untrusted text, so that no character stays invisible, and ages in words; and JSON for
and from language models.

Control characters, direction marks, invisible characters and tag characters become escapes; words are unchanged. kgd
itself states where a text comes from, and never takes that from the text.
"""

from __future__ import annotations

import json
import re
from typing import Any

from kgd.errors import Refused

_HIDDEN = (
    (0x00, 0x08),
    (0x0B, 0x1F),
    (0x7F, 0x9F),
    (0xAD, 0xAD),
    (0x61C, 0x61C),
    (0x180E, 0x180E),
    (0x200B, 0x200B),
    (0x200E, 0x200F),
    (0x2028, 0x202E),
    (0x2060, 0x206F),
    (0xD800, 0xDFFF),
    (0xFEFF, 0xFEFF),
    (0xFFF9, 0xFFFB),
    (0xE0000, 0xE01EF),
)
"""Not included: tab and line feed, and the joiners needed in several scripts and emoji."""
_TABLE = {
    code: chr(code).encode("unicode_escape", "surrogatepass").decode("ascii")
    for first, last in _HIDDEN
    for code in range(first, last + 1)
}
DEEPEST = 40
"""Maximum number of nested levels of a value to display; deeper levels are cut off."""
_FENCE = re.compile(r"```(?:json)?\s*\n(?P<inside>.*)\n\s*```", re.DOTALL)


def fenced(text: str) -> str:
    """The text with every invisible character escaped."""
    return text if text.isascii() and text.isprintable() else text.translate(_TABLE)


def fenced_line(text: str, limit: int) -> str:
    """Like `fenced`, but as one line of at most `limit` characters."""
    return fenced(text.replace("\n", " ").replace("\t", " "))[:limit]


def one_line(text: str) -> str:
    """The text as one printable line."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def printable(path: str) -> str:
    """A path as valid text. Bytes that are not UTF-8, which git allows in names, become escapes."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def fenced_value(value: Any, depth: int = DEEPEST) -> Any:
    """A JSON value in which every string, including keys, is `fenced`."""
    if isinstance(value, str):
        return fenced(value)
    if isinstance(value, list | tuple):
        return [fenced_value(item, depth - 1) for item in value] if depth else []
    if isinstance(value, dict):
        return {fenced(str(key)): fenced_value(item, depth - 1) for key, item in value.items()} if depth else {}
    return value


def fenced_json(value: Any) -> str:
    """A value as one line of JSON, in which unprintable characters are escaped."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


def read_object(answer: str, longest: int, too_long: str = "the answer is too long") -> dict[str, Any]:
    """The JSON object that an answer consists of, with or without a Markdown fence.

    Raises:
        Refused: The answer is longer than `longest` characters, or is not exactly one object with unique keys.
    """
    found = _FENCE.fullmatch(answer.strip())
    text = found["inside"] if found else answer
    if len(text) > longest:
        raise Refused(too_long)
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise Refused("the answer is not one JSON object")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is given twice")
    return found


def _refuse(name: str) -> Any:
    raise ValueError(name)


_HOUR, _DAY = 3_600, 86_400
_UNITS = (
    (365 * _DAY, 365 * _DAY, "year"),
    (70 * _DAY, 30 * _DAY, "month"),
    (14 * _DAY, 7 * _DAY, "week"),
    (_DAY, _DAY, "day"),
    (_HOUR, _HOUR, "hour"),
    (60, 60, "minute"),
)
"""Rows of (least age, length and name of the unit), in seconds."""


def ago(seconds: float) -> str:
    """``just now``, ``5 minutes ago``, ``3 days ago``, ``2 years ago``."""
    for least, length, unit in _UNITS:
        if seconds >= least:
            count = int(seconds // length)
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return "just now"
