"""Text of pictures: its size, and shortening by width."""

from __future__ import annotations

from textwrap import wrap
from unicodedata import east_asian_width

TEXT = 13
"""The size of the text in the picture's units, which are pixels."""
HEIGHT, CHARACTER = 15.0, 7.2
"""The height of a label, and the width of its character; a wide character takes twice the width."""


def shortened(text: str, longest: int) -> str:
    """The text, cut to a number of characters with an ellipsis."""
    if width(text) <= longest:
        return text
    kept, room = "", longest - 1
    for character in text:
        room -= width(character)
        if room < 0:
            break
        kept += character
    return kept.rstrip(" ,.;:-") + "…"


def wrapped(text: str, longest: int, most: int) -> str:
    """The text in at most `most` lines of at most `longest` characters; if it is longer, it ends with an ellipsis."""
    room = longest if width(text) == len(text) else longest // 2
    return "\n".join(wrap(text, room, max_lines=most, placeholder="…"))


def width(text: str) -> int:
    """The number of characters, where a wide one counts twice."""
    return len(text) if text.isascii() else sum(2 if east_asian_width(one) in "WF" else 1 for one in text)
