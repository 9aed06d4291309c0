"""This file is where a long list in JSON is read one element at a time, as far as it is sound."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_BLANK = re.compile(r"[ \t\r\n]*")


def elements(text: str, trouble: list[str]) -> Iterator[tuple[str, Any]]:
    """Each element of the list with its place, from 1. Where the list breaks off, `trouble` gets a line, and it ends.

    What is nested too deep is told and ends it too: nobody knows where such an element is over.
    """
    decoder = json.JSONDecoder(parse_constant=_refuse)
    at, number = _after(text, text.index("[") + 1), 1
    while at < len(text) and text[at] != "]":
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            why = "nested too deep" if isinstance(error, RecursionError) else "it breaks off, or is no JSON"
            trouble.append(f"element {number}: {why}; what stands behind it could not be read")
            return
        yield f"element {number}", value
        at = _after(text, at)
        if at < len(text) and text[at] == ",":
            at = _after(text, at + 1)
        elif at < len(text) and text[at] != "]":
            trouble.append(f"element {number}: no comma follows it; what stands behind it could not be read")
            return
        number += 1
    if at >= len(text):
        trouble.append(f"the list breaks off behind element {number - 1}")


def _after(text: str, at: int) -> int:
    """The place of the next character that is not blank."""
    found = _BLANK.match(text, at)
    return found.end() if found else at


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")
