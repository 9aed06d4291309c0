"""Labels: names beside dots, where they cover neither each other nor a dot.

A label for which the picture has no room may appear when the picture is magnified.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import cos, hypot
from typing import Literal

from kgd.drawing import GROUP, Dot, Line
from kgd.drawing.layout import Layout, Point, along, cells_of
from kgd.drawing.looks import CHARACTER, HEIGHT, shortened, width, wrapped

Side = Literal["right", "left", "below", "above", "title"]
"""The side of a dot, or the upper left corner of a box."""

SIZES = (1, 2, 4)
"""Magnifications that show more labels."""
LENGTHS = (26, 14)
"""Lengths to which labels are cut, the first with room; `LONGEST` is the length to which they then grow."""
LONGEST = 48
LINES = 4
"""Largest number of lines of a label; one in an opened group also keeps to its row."""
START = 1.4
"""Size of a start node, as a multiple of the size of other nodes."""
GAP = 4.0
"""Gap between a dot and its label."""
TITLE = (10.0, 16.0)
"""Distance of a title from the left and the upper edge of its box."""
CELL = 48.0
MOST_LINES = 400
"""Largest number of lines that labels avoid."""

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True, slots=True)
class Label:
    """A dot's label. `size` is the smallest of `SIZES` at which it has room; 0 if it never has."""

    text: str
    side: Side
    size: int


def place_labels(dots: Sequence[Dot], layout: Layout, lines: Sequence[Line] = ()) -> dict[str, Label]:
    """The label of each dot; starts and then the nearest dots come first. A side without a line is preferred. Once all
    have their place, labels that were cut grow where there is room."""
    found: dict[str, Label] = {}
    crossed = _crossed(lines, layout)
    for size in SIZES:
        taken = occupied(dots, layout, found, size)
        for dot in dots:
            if dot.uri not in found and (label := _with_room(dot, layout, taken, crossed, size)):
                found[dot.uri] = label
                taken.take(box(dot, layout, label.text, label.side, size), dot.uri)
        for dot in dots if size == 1 and not layout.line else ():
            if (label := found.get(dot.uri)) and label.text.endswith("…"):
                text = label_text(dot, LONGEST)
                place = box(dot, layout, text, label.side)
                is_longer = width(text) > width(label.text)
                if is_longer and taken.has_room(place, dot.uri) and crossed.has_room(place, dot.uri):
                    taken.take(place, dot.uri)
                    found[dot.uri] = Label(text, label.side, 1)
    return {dot.uri: found.get(dot.uri) or Label(label_text(dot, LENGTHS[0]), "right", 0) for dot in dots}


def _texts(dot: Dot, layout: Layout) -> Iterator[tuple[str, Sequence[Side]]]:
    """The texts of a label with their sides, the first with room: in an opened group, lines as wide as the column of
    the dot, below it."""
    name, sides = dot.name or dot.uri, _sides(dot, layout)
    if layout.line:
        yield wrapped(name, layout.line, LINES), sides
        return
    place = layout.places.get(dot.uri)
    column = int(place.room / CHARACTER) if place else 0
    if place and column and max(map(width, name.split()), default=0) <= column:  # otherwise a word would be cut
        most = min(LINES, int((place.deep - 2 * (place.size + GAP)) / HEIGHT))
        yield from ((wrapped(name, column, lines), ("below",)) for lines in range(max(1, most), 0, -1))
    yield from ((label_text(dot, longest), sides) for longest in LENGTHS)


def label_text(dot: Dot, longest: int) -> str:
    """The name of a dot, cut to a number of characters; a group keeps its number of nodes."""
    if dot.shape != "group":
        return shortened(dot.name or dot.uri, longest)
    name, space, count = dot.name.rpartition(" ")
    return shortened(name, longest - len(count) - 1) + space + count


def occupied(dots: Sequence[Dot], layout: Layout, labels: Mapping[str, Label], size: int = 1) -> Taken:
    """The areas of figures, of the edges of boxes, and of the labels shown at a magnification."""
    taken = Taken()
    for dot in dots:
        if (label := labels.get(dot.uri)) and 0 < label.size <= size:
            taken.take(box(dot, layout, label.text, label.side, size), dot.uri)
    for dot in dots:
        point, half = layout.points[dot.uri], radius(dot, layout)
        if not layout.is_box(dot.uri):
            taken.take((point.x - half, point.y - half, point.x + half, point.y + half), dot.uri)
            continue
        across, down = layout.places[dot.uri].wide / 2, layout.places[dot.uri].high / 2
        left, top, right, bottom = point.x - across, point.y - down, point.x + across, point.y + down
        upright = ((left, top, left, bottom), (right, top, right, bottom))
        for edge in (*upright, (left, top, right, top), (left, bottom, right, bottom)):
            taken.take(edge, dot.uri)
    return taken


def _crossed(lines: Sequence[Line], layout: Layout) -> Taken:
    """The areas that lines around starts cross."""
    crossed = Taken()
    for line in lines if layout.rings and len(lines) <= MOST_LINES else ():
        a, b = ((layout.points[uri].x, layout.points[uri].y) for uri in (line.source, line.target))
        curve = layout.curves.get((line.source, line.target), (a, ((a[0] + b[0]) / 2, (a[1] + b[1]) / 2), b))
        steps = max(2, int(hypot(b[0] - a[0], b[1] - a[1]) / HEIGHT))
        for x, y in (along(curve, n / steps) for n in range(steps + 1)):
            crossed.take((x - 1, y - 1, x + 1, y + 1), line.source, line.target)
    return crossed


def _with_room(dot: Dot, layout: Layout, taken: Taken, crossed: Taken, size: int) -> Label | None:
    """The first text that has room, on a side that no line crosses if there is one."""
    for text, sides in _texts(dot, layout):
        areas = [(side, box(dot, layout, text, side, size)) for side in sides]
        free = [(side, area) for side, area in areas if taken.has_room(area, dot.uri)]
        for side, area in free:
            if crossed.has_room(area, dot.uri):
                return Label(text, side, size)
        if free:
            return Label(text, free[0][0], size)
    return None


def radius(dot: Dot, layout: Layout) -> float:
    """The radius of a dot's figure."""
    if "start" in dot.marks:
        return max(8.0, START * dot.size) if layout.rings else dot.size
    return layout.places[dot.uri].size if dot.uri in layout.places else dot.size


def distance(dot: Dot, layout: Layout) -> float:
    """Distance from the centre of a dot to its label."""
    return radius(dot, layout) + GAP + (4 if dot.marks else 0)


def _sides(dot: Dot, layout: Layout) -> tuple[Side, ...]:
    if layout.is_box(dot.uri):
        return ("title",)
    if layout.line:
        return ("below",)
    if dot.shape == "group" or dot.parent.startswith(GROUP):
        return ("below", "above", "right", "left")
    outward = cos(layout.points[dot.uri].angle) < -1e-9
    return ("left", "right", "below", "above") if outward else ("right", "left", "below", "above")


def middle(dot: Dot, layout: Layout, side: Side, size: int = 1) -> Point:
    """The horizontal anchor of the label: its start, end or middle, depending on its side."""
    point, away = layout.points[dot.uri], distance(dot, layout)
    if side == "title":
        place = layout.places[dot.uri]
        return Point(point.x - place.wide / 2 + TITLE[0], point.y - place.high / 2 + TITLE[1], 0.0)
    across = {"left": -away, "right": away}.get(side, 0.0)
    down = {"above": -away - HEIGHT / size / 2, "below": away + HEIGHT / size / 2}.get(side, 0.0)
    return Point(point.x + across, point.y + down, 0.0)


def box(dot: Dot, layout: Layout, text: str, side: Side, size: int = 1) -> Box:
    """The area that a label covers at a magnification."""
    lines = text.split("\n")
    at, wide, high = middle(dot, layout, side, size), max(map(width, lines)) * CHARACTER / size, HEIGHT / size
    left = at.x - wide if side == "left" else at.x if side in ("right", "title") else at.x - wide / 2
    return left, at.y - high / 2, left + wide, at.y + high * (len(lines) - 0.5)


class Taken:
    """The areas already covered, indexed by cells."""

    def __init__(self) -> None:
        self._cells: Mapping[tuple[int, int], list[tuple[Box, tuple[str, ...]]]] = defaultdict(list)

    def take(self, box: Box, *by: str) -> None:
        for cell in cells_of(*box, CELL):
            self._cells[cell].append((box, by))

    def has_room(self, box: Box, but: str) -> bool:
        left, top, right, bottom = box
        for cell in cells_of(*box, CELL):
            for (a, b, c, d), by in self._cells.get(cell, ()):
                if but not in by and left < c and a < right and top < d and b < bottom:
                    return False
        return True
