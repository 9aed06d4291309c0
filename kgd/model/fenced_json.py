"""JSON exchanged with language models: values as one line of visible characters, and answers that are one object."""

from __future__ import annotations

import json
import re
from typing import Any

from kgd.errors import Refused

_FENCE = re.compile(r"```(?:json)?\s*\n(?P<inside>.*)\n\s*```", re.DOTALL)


def fenced(value: Any) -> str:
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
