"""This file is where it is decided which labels have room, so that no label lies over another or over a dot.

Who looks closer has more room: a label that is too much for the whole picture may have its place at twice the size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos
from unicodedata import east_asian_width

from kgd.drawing.layout import Layout, Point
from kgd.drawing.scene import Dot

SIZES = (1, 2, 4)
"""How much larger a picture can be looked at, as far as labels are concerned."""
LONGEST = 26
HEIGHT, CHARACTER = 13.0, 6.6
"""Of a label, in the picture's own units; a wide character counts twice."""
OFF = 9.0
"""From the middle of a dot to its label."""
CELL = 48.0

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True, slots=True)
class Label:
    """`size` is the smallest of `SIZES` at which it has room; 0 where it never has."""

    text: str
    on_left: bool
    size: int


def labelled(dots: Sequence[Dot], layout: Layout) -> dict[str, Label]:
    """The label of each dot; those of starts and then of the nearest come first."""
    texts = {dot.uri: shortened(dot.name or dot.uri) for dot in dots}
    found: dict[str, Label] = {}
    for size in SIZES:
        taken = _Taken()
        for dot in dots:
            point = layout.points[dot.uri]
            taken.take((point.x - 6, point.y - 6, point.x + 6, point.y + 6), dot.uri)
        for uri, label in found.items():
            taken.take(_box(layout.points[uri], label.text, label.on_left, size), uri)
        for dot in dots:
            if dot.uri in found:
                continue
            point = layout.points[dot.uri]
            outward = cos(point.angle) < -1e-9
            for on_left in (outward, not outward):
                box = _box(point, texts[dot.uri], on_left, size)
                if taken.has_room(box, dot.uri):
                    taken.take(box, dot.uri)
                    found[dot.uri] = Label(texts[dot.uri], on_left, size)
                    break
    return {dot.uri: found.get(dot.uri) or Label(texts[dot.uri], False, 0) for dot in dots}


def shortened(text: str, longest: int = LONGEST) -> str:
    """At most so wide, with a sign where something was cut."""
    if width(text) <= longest:
        return text
    kept, room = "", longest - 1
    for character in text:
        room -= width(character)
        if room < 0:
            break
        kept += character
    return kept.rstrip() + "…"


def width(text: str) -> int:
    return len(text) if text.isascii() else sum(2 if east_asian_width(one) in "WF" else 1 for one in text)


def _box(point: Point, text: str, on_left: bool, size: int) -> Box:
    wide, half = width(text) * CHARACTER / size, HEIGHT / size / 2
    left = point.x - OFF - wide if on_left else point.x + OFF
    return left, point.y - half, left + wide, point.y + half


class _Taken:
    """What is covered already, found by the cells that it lies in."""

    def __init__(self) -> None:
        self._cells: Mapping[tuple[int, int], list[tuple[Box, str]]] = defaultdict(list)

    def take(self, box: Box, by: str) -> None:
        for cell in _cells(box):
            self._cells[cell].append((box, by))

    def has_room(self, box: Box, but: str) -> bool:
        left, top, right, bottom = box
        for cell in _cells(box):
            for (a, b, c, d), by in self._cells.get(cell, ()):
                if by != but and left < c and a < right and top < d and b < bottom:
                    return False
        return True


def _cells(box: Box) -> list[tuple[int, int]]:
    left, top, right, bottom = (int(side // CELL) for side in box)
    return [(x, y) for x in range(left, right + 1) for y in range(top, bottom + 1)]
