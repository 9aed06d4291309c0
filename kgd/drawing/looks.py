"""Looks: the form and the colour of a node's type, the same in every picture; and the size of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos, pi, sin
from textwrap import wrap
from typing import Literal
from unicodedata import east_asian_width
from zlib import crc32

Form = Literal[
    "circle",
    "triangle",
    "wedge",
    "diamond",
    "square",
    "pentagon",
    "hexagon",
    "honeycomb",
    "page",
    "folder",
    "chevron",
    "ribbon",
    "bar",
    "spool",
    "bubble",
    "arrow",
    "label",
    "star",
    "spark",
    "cross",
    "trapezoid",
    "bow",
]
Corners = Sequence[tuple[float, float]]
Hue = Literal["green", "amber", "purple", "rose", "teal", "orange", "blue", "grey", "brown"]

COLOURS: Mapping[Hue, str] = {
    "green": "#1a634a",
    "amber": "#8a5a00",
    "purple": "#6b46b8",
    "rose": "#b0266b",
    "teal": "#0f7285",
    "orange": "#b8430f",
    "blue": "#2f5c9e",
    "grey": "#69736d",
    "brown": "#7a4f2b",
}
"""Colours on white paper; a page with a theme sets its own for the classes of the same names."""


@dataclass(frozen=True, slots=True)
class Look:
    form: Form
    hue: Hue


def _around(count: int, first: float, *reaches: float) -> Corners:
    """Corners at equal angles, whose distances from the centre repeat."""
    ways = [(first + n * 2 * pi / count, reaches[n % len(reaches)]) for n in range(count)]
    return [(away * cos(angle), away * sin(angle)) for angle, away in ways]


OUTLINES: Mapping[Form, Corners] = {
    "triangle": _around(3, -pi / 2, 1.35),
    "wedge": _around(3, pi / 2, 1.35),
    "diamond": _around(4, 0.0, 1.3),
    "square": _around(4, pi / 4, 1.3),
    "pentagon": _around(5, -pi / 2, 1.2),
    "hexagon": _around(6, 0.0, 1.2),
    "honeycomb": _around(12, -pi / 2, 1.36, 1.18, 0.68, 1.18),
    "page": [(-0.85, -1.15), (0.25, -1.15), (0.85, -0.5), (0.85, 1.15), (-0.85, 1.15)],
    "folder": [(-1.15, -1.0), (-0.2, -1.0), (0.1, -0.55), (1.15, -0.55), (1.15, 0.9), (-1.15, 0.9)],
    "chevron": [(-0.9, -1.15), (0.1, -1.15), (1.15, 0.0), (0.1, 1.15), (-0.9, 1.15), (0.05, 0.0)],
    "ribbon": [(-0.85, -1.2), (0.85, -1.2), (0.85, 1.2), (0.0, 0.45), (-0.85, 1.2)],
    "bar": [(-1.3, -0.6), (1.3, -0.6), (1.3, 0.6), (-1.3, 0.6)],
    "spool": [(-1.1, -1.15), (1.1, -1.15), (0.35, 0.0), (1.1, 1.15), (-1.1, 1.15), (-0.35, 0.0)],
    "bubble": [(-1.2, -1.0), (1.2, -1.0), (1.2, 0.55), (0.1, 0.55), (-0.6, 1.25), (-0.6, 0.55), (-1.2, 0.55)],
    "arrow": [(-1.2, -0.5), (0.05, -0.5), (0.05, -1.15), (1.25, 0.0), (0.05, 1.15), (0.05, 0.5), (-1.2, 0.5)],
    "label": [(-1.3, 0.0), (-0.55, -0.9), (1.15, -0.9), (1.15, 0.9), (-0.55, 0.9)],
    "star": _around(10, -pi / 2, 1.45, 0.62),
    "spark": _around(8, -pi / 2, 1.5, 0.6),
    "cross": _around(12, -pi / 2, 0.5, 1.4, 1.4),
    "trapezoid": [(-0.65, -1.0), (0.65, -1.0), (1.3, 0.95), (-1.3, 0.95)],
    "bow": [(-1.2, -1.05), (0.0, -0.35), (1.2, -1.05), (1.2, 1.05), (0.0, 0.35), (-1.2, 1.05)],
}
"""The corners of each form except the circle. A form looks as large as a circle of radius 1; `y` leads down."""
KNOWN: Mapping[str, Look] = {
    "concept": Look("circle", "green"),
    "insight": Look("triangle", "amber"),
    "decision": Look("diamond", "purple"),
    "gotcha": Look("wedge", "rose"),
    "pattern": Look("pentagon", "teal"),
    "task": Look("square", "orange"),
    "entity": Look("star", "brown"),
    "document": Look("ribbon", "teal"),
    "chunk": Look("bar", "brown"),
    "thread": Look("spool", "purple"),
    "message": Look("bubble", "purple"),
    "resource": Look("arrow", "brown"),
    "tag": Look("label", "teal"),
    "file": Look("page", "grey"),
    "dir": Look("folder", "grey"),
    "symbol": Look("chevron", "grey"),
    "atom": Look("hexagon", "blue"),
    "molecule": Look("honeycomb", "blue"),
}
"""The look of each type of kgd. No two have the same form, so a reader can tell them apart without colours."""
OTHERS = tuple(
    Look(form, hue)
    for hue in ("rose", "teal", "orange", "purple", "amber", "brown", "green")
    for form in ("cross", "trapezoid", "spark", "bow")
)
"""Looks with forms that no type of kgd has."""


TONES: Mapping[str, tuple[Hue, str]] = {
    "conflict": ("rose", "open conflict"),
    "stale": ("amber", "stale"),
    "expired": ("purple", "expired"),
    "fine": ("grey", "no problem"),
    "week": ("green", "last week"),
    "month": ("teal", "last month"),
    "half_year": ("amber", "last half year"),
    "older": ("rose", "older"),
    "unknown": ("grey", "unknown"),
}
"""The colour of each class of `tones_of` in `kgd.tools.read.grouping`, and its text in a legend, in their order."""
ORDER = {type: number for number, type in enumerate(KNOWN)}


def look_of(type: str, tone: str = "") -> Look:
    """The look of a type; with `tone`, in the colour of this class. A type that kgd does not define gets one of
    `OTHERS` by a hash of its name; a class without a type is a circle."""
    look = KNOWN.get(type) or OTHERS[crc32(type.encode()) % len(OTHERS)]
    return Look(look.form if type else "circle", TONES[tone][0]) if tone else look


def place_of(type: str) -> tuple[int, str]:
    """The sort key of a type: types of knowledge, then code and areas, then types that kgd does not define."""
    return ORDER.get(type, len(ORDER)), type


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
