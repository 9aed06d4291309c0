"""Layout: positions of dots, with the distance from the middle set by cost and the angle by the tree of cheapest paths;
and labels without overlap.

Equal scenes have equal layouts. A dot's share of the circle is proportional to the number of leaves behind it. Dots of
one cost are on one ring, in several rows if the ring is crowded. A label for which the picture has no room may appear
when the picture is magnified.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, cos, floor, log10, pi, sin
from unicodedata import east_asian_width

from kgd.drawing.scene import Dot

APART = 17.0
"""Distance between two dots of a row, and between two rows."""
GAP = 44.0
"""Minimum distance between the last row of a ring and the next ring."""
REACH = 300.0
"""Radius of the dots with the highest cost in an uncrowded picture."""
MOST_RINGS = 10
"""Maximum number of costs with separate rings; if there are more, near costs share a ring."""
MOST_ROWS = 80
TOP = -pi / 2


@dataclass(frozen=True, slots=True)
class Point:
    """A dot's position; `angle` is measured at the middle of the picture."""

    x: float
    y: float
    angle: float


@dataclass(frozen=True, slots=True)
class Ring:
    """The circle for all dots with the same cost. `label` is that cost or, if several costs share the ring, the
    highest."""

    radius: float
    label: str


@dataclass(frozen=True, slots=True)
class Layout:
    points: Mapping[str, Point]
    rings: tuple[Ring, ...]
    radius: float


def layout_dots(dots: Sequence[Dot]) -> Layout:
    """Positions of all dots. O(n log n); dots are in the order of a scene, each after its parent."""
    angles = _angles(dots)
    step = _step([dot.cost for dot in dots])
    rings: dict[float, list[Dot]] = defaultdict(list)
    for dot in dots:
        is_start = not dot.parent and dot.cost == 0 and dot.shape != "missing"
        rings[-1.0 if is_start else _ring(dot.cost, step)].append(dot)
    dearest = max(rings, default=0.0) or 1.0
    points: dict[str, Point] = {}
    circles: list[Ring] = []
    outer = 0.0
    for cost in sorted(rings):
        members = sorted(rings[cost], key=lambda dot: angles[dot.uri])
        if cost < 0 and len(members) == 1:
            points[members[0].uri] = Point(0.0, 0.0, TOP)
            continue
        radius = max(2 * APART, len(members) * 1.5 * APART / (2 * pi)) if cost < 0 else outer + GAP
        radius = max(radius, REACH * cost / dearest)
        outer = _stand(members, angles, radius, points)
        if cost >= 0:
            circles.append(Ring(radius, f"{'≤ ' if step else ''}{cost:g}"))
    return Layout(points, tuple(circles), outer)


def _angles(dots: Sequence[Dot]) -> dict[str, float]:
    """The angle of each dot: the middle of its sector. Children divide their parent's sector in proportion to their
    numbers of leaves."""
    known = {dot.uri for dot in dots}
    below: dict[str, list[Dot]] = defaultdict(list)
    for dot in dots:
        below[dot.parent if dot.parent in known else ""].append(dot)
    leaves: dict[str, int] = {}
    for dot in reversed(dots):
        leaves[dot.uri] = sum(leaves.get(child.uri, 1) for child in below[dot.uri]) or 1
    angles: dict[str, float] = {}
    total = sum(leaves[dot.uri] for dot in below[""]) or 1
    waiting = [("", TOP, 2 * pi / total)]
    while waiting:
        parent, begin, leaf = waiting.pop()
        for child in sorted(below[parent], key=lambda dot: dot.uri):
            width = leaves[child.uri] * leaf
            angles[child.uri] = begin + width / 2
            waiting.append((child.uri, begin, leaf))
            begin += width
    return angles


def _stand(members: Sequence[Dot], angles: Mapping[str, float], radius: float, points: dict[str, Point]) -> float:
    """Put the dots of a ring into the first row with room; returns the radius of the last row."""
    ends: list[tuple[float, float]] = []
    """The first and the last used angle of each row."""
    for dot in members:
        angle = angles[dot.uri]
        row = 0
        while row < len(ends):
            apart = min(angle - ends[row][1], ends[row][0] + 2 * pi - angle) * (radius + row * APART)
            if apart >= APART or row == MOST_ROWS:
                break
            row += 1
        if row == len(ends):
            ends.append((angle, angle))
        ends[row] = ends[row][0], angle
        away = radius + row * APART
        points[dot.uri] = Point(round(away * cos(angle), 1), round(away * sin(angle), 1), angle)
    return radius + (len(ends) - 1) * APART


def _step(costs: Sequence[float]) -> float:
    """The range of costs that share a ring, as a round number; 0 if each cost has its own ring."""
    if len(set(costs)) <= MOST_RINGS:
        return 0.0
    width = max(costs) / MOST_RINGS
    size = 10.0 ** floor(log10(width))
    return next(size * one for one in (1, 2, 2.5, 5, 10) if size * one >= width * (1 - 1e-9))


def _ring(cost: float, step: float) -> float:
    return round(ceil(cost / step - 1e-9) * step, 6) if step else cost


SIZES = (1, 2, 4)
"""Magnifications that show more labels."""
LONGEST = 26
HEIGHT, CHARACTER = 13.0, 6.6
"""The size of a label's character in the picture's units; a wide character takes twice the width."""
OFF = 9.0
"""Distance from the middle of a dot to its label."""
CELL = 48.0

Box = tuple[float, float, float, float]
"""Left, top, right, bottom."""


@dataclass(frozen=True, slots=True)
class Label:
    """A dot's label. `size` is the smallest of `SIZES` at which it has room; 0 if it never has."""

    text: str
    on_left: bool
    size: int


def place_labels(dots: Sequence[Dot], layout: Layout) -> dict[str, Label]:
    """The label of each dot; starts and then the nearest dots come first."""
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


def _box(point: Point, text: str, on_left: bool, size: int) -> Box:
    wide, half = width(text) * CHARACTER / size, HEIGHT / size / 2
    left = point.x - OFF - wide if on_left else point.x + OFF
    return left, point.y - half, left + wide, point.y + half


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
