"""Labels: names beside dots, where they cover neither each other nor a dot.

A label for which the picture has no room may appear when the picture is magnified.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import cos
from typing import Literal
from unicodedata import east_asian_width

from kgd.drawing.layout import Layout, Point
from kgd.drawing.scene import Dot

Side = Literal["right", "left", "below", "above", "middle"]

SIZES = (1, 2, 4)
"""Magnifications that show more labels."""
LONGEST = 26
TEXT = 13
"""The size of the text in the picture's units, which are pixels."""
HEIGHT, CHARACTER = 15.0, 7.2
"""The height of a label, and the width of its character; a wide character takes twice the width."""
GAP = 4.0
"""Gap between a dot and its label."""
CELL = 48.0

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True, slots=True)
class Label:
    """A dot's label. `size` is the smallest of `SIZES` at which it has room; 0 if it never has."""

    text: str
    side: Side
    size: int


def place_labels(dots: Sequence[Dot], layout: Layout) -> dict[str, Label]:
    """The label of each dot; starts and then the nearest dots come first."""
    texts = {dot.uri: shortened(dot.name or dot.uri) for dot in dots}
    found: dict[str, Label] = {}
    for size in SIZES:
        taken = _Taken()
        for dot in dots:
            point, half = layout.points[dot.uri], radius(dot, layout)
            if dot.uri not in layout.sizes or not _is_open(dot, layout):
                taken.take((point.x - half, point.y - half, point.x + half, point.y + half), dot.uri)
        for dot in dots:
            if label := found.get(dot.uri):
                taken.take(box(dot, layout, label.text, label.side, size), dot.uri)
        for dot in dots:
            for side in _sides(dot, layout, texts[dot.uri]) if dot.uri not in found else ():
                place = box(dot, layout, texts[dot.uri], side, size)
                if side == "middle" or taken.has_room(place, dot.uri):
                    taken.take(place, dot.uri)
                    found[dot.uri] = Label(texts[dot.uri], side, size)
                    break
    return {dot.uri: found.get(dot.uri) or Label(texts[dot.uri], "right", 0) for dot in dots}


def radius(dot: Dot, layout: Layout) -> float:
    """The radius of a dot's figure."""
    return 8.0 if "start" in dot.marks else layout.sizes.get(dot.uri, dot.size)


def distance(dot: Dot, layout: Layout) -> float:
    """Distance from the centre of a dot to its label."""
    return radius(dot, layout) + GAP + (4 if dot.marks else 0)


def _is_open(dot: Dot, layout: Layout) -> bool:
    return layout.sizes.get(dot.uri, 0) > dot.size


def _sides(dot: Dot, layout: Layout, text: str) -> tuple[Side, ...]:
    if dot.shape == "group":
        if _is_open(dot, layout):
            return ("above",)
        return ("middle",) if width(text) * CHARACTER < 2 * dot.size else ("below", "above", "right", "left")
    outward = cos(layout.points[dot.uri].angle) < -1e-9
    return ("left", "right", "below", "above") if outward else ("right", "left", "below", "above")


def shortened(text: str) -> str:
    """The text, cut to the width `LONGEST` with an ellipsis."""
    if width(text) <= LONGEST:
        return text
    kept, room = "", LONGEST - 1
    for character in text:
        room -= width(character)
        if room < 0:
            break
        kept += character
    return kept.rstrip() + "…"


def width(text: str) -> int:
    return len(text) if text.isascii() else sum(2 if east_asian_width(one) in "WF" else 1 for one in text)


def middle(dot: Dot, layout: Layout, side: Side, size: int = 1) -> Point:
    """The horizontal anchor of the label: its start, end or middle, depending on its side."""
    point, away = layout.points[dot.uri], distance(dot, layout)
    across = {"left": -away, "right": away}.get(side, 0.0)
    down = {"above": -away - HEIGHT / size / 2, "below": away + HEIGHT / size / 2}.get(side, 0.0)
    return Point(point.x + across, point.y + down, 0.0)


def box(dot: Dot, layout: Layout, text: str, side: Side, size: int = 1) -> Box:
    """The area that a label covers at a magnification."""
    at, wide, half = middle(dot, layout, side, size), width(text) * CHARACTER / size, HEIGHT / size / 2
    left = at.x - wide if side == "left" else at.x if side == "right" else at.x - wide / 2
    return left, at.y - half, left + wide, at.y + half


class _Taken:
    """The areas already covered, indexed by cells."""

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
