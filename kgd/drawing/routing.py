"""Routing: lines between groups as curves that pass beside the other groups and their labels where there is room.

The work is bounded by the number of lines, and the number of bends that are compared for each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, hypot, inf

from kgd.drawing.packing import LABEL, LONGEST_LABEL, Place
from kgd.drawing.scene import Dot, Line
from kgd.drawing.text import CHARACTER, width

Spot = tuple[float, float]
Cell = tuple[int, int]

BENDS = tuple(sign * bend for bend in (0.08, 0.11, 0.14, 0.18, 0.22, 0.28, 0.35, 0.44, 0.56, 0.7) for sign in (1, -1))
"""Distances of a control point from the middle of its line, by the line's length."""
CELL, APART, CLEAR = 8.0, 12.0, 5.0
"""Size of a cell, distance between compared points of a line, and gap between a line and a circle."""
COVERED, NAMED, SHARED, CURVED = 100.0, 3.0, 1.0, 20.0
"""Cost of a cell of a circle or outside of the picture, of a label or an open group, and of another line; of a bend."""


def route(lines: Iterable[Line], dots: Sequence[Dot], places: Mapping[str, Place]) -> dict[tuple[str, str], Spot]:
    """The bend of each line between groups: the way from its middle to the control point of a quadratic curve."""
    if not places:
        return {}
    costs = _costs(dots, places)
    sizes = [(place, place.wide / 2 or place.size, place.high / 2 or place.size) for place in places.values()]
    columns = min(at.x - wide for at, wide, _ in sizes), max(at.x + wide for at, wide, _ in sizes)
    rows = min(at.y - high for at, _, high in sizes), max(at.y + high for at, _, high in sizes)
    used: set[Cell] = set()
    found: dict[tuple[str, str], Spot] = {}
    for line in lines:
        if line.has_arrow:
            continue
        ends = line.source, line.target
        a, b = anchors(places[line.source], places[line.target])
        best, least = (0.0, 0.0), inf
        cells: list[Cell] = []
        for bend in BENDS:
            if CURVED * abs(bend) >= least:
                break
            away = (b[1] - a[1]) * bend, (a[0] - b[0]) * bend
            spots = _spots(a, b, away)
            passed = [(int(x // CELL), int(y // CELL)) for x, y in spots]
            cost = CURVED * abs(bend) + SHARED * sum(cell in used for cell in passed)
            cost += COVERED * sum(not (columns[0] <= x <= columns[1] and rows[0] <= y <= rows[1]) for x, y in spots)
            cost += sum(one for cell in passed for uri, one in costs.get(cell, ()) if uri not in ends)
            if cost < least:
                best, least, cells = away, cost, passed
        found[ends] = best
        used.update(cells)
    return found


def anchors(*ends: Place) -> tuple[Spot, Spot]:
    """The ends of a line before its curve: the centre of a circle, and the place of a box nearest to the other end."""
    return _anchor(ends[0], ends[1]), _anchor(ends[1], ends[0])


def _anchor(place: Place, other: Place) -> Spot:
    across, down = place.wide / 2, place.high / 2
    return place.x + min(max(other.x - place.x, -across), across), place.y + min(max(other.y - place.y, -down), down)


def _costs(dots: Sequence[Dot], places: Mapping[str, Place]) -> dict[Cell, list[tuple[str, float]]]:
    """The costs of cells, each with the group that a line may begin or end at; a label is never free."""
    costs: dict[Cell, list[tuple[str, float]]] = defaultdict(list)
    opened = {dot.parent for dot in dots if dot.shape != "group"}
    for dot in dots:
        x, y, size, wide, high = places[dot.uri]
        if dot.uri in opened:
            for cell in _cells(x - wide / 2, y - high / 2, x + wide / 2, y + high / 2):
                costs[cell].append((dot.uri, NAMED))
        if wide or dot.shape != "group":
            continue
        size += CLEAR
        for cell in _cells(x - size, y - size, x + size, y + size):
            if hypot((cell[0] + 0.5) * CELL - x, (cell[1] + 0.5) * CELL - y) <= size:
                costs[cell].append((dot.uri, COVERED))
        half = min(width(dot.name) * CHARACTER, LONGEST_LABEL) / 2
        for cell in _cells(x - half, y + size, x + half, y + size + LABEL):
            costs[cell].append(("", NAMED))
    return costs


def _cells(left: float, top: float, right: float, bottom: float) -> Iterator[Cell]:
    for x in range(int(left // CELL), int(right // CELL) + 1):
        for y in range(int(top // CELL), int(bottom // CELL) + 1):
            yield x, y


def _spots(a: Spot, b: Spot, away: Spot) -> list[Spot]:
    """Points of a curve, `APART` or less from each other."""
    over = (a[0] + b[0]) / 2 + away[0], (a[1] + b[1]) / 2 + away[1]
    count = ceil((hypot(b[0] - a[0], b[1] - a[1]) + hypot(*away)) / APART) + 1
    return [along((a, over, b), n / count) for n in range(count + 1)]


def along(curve: tuple[Spot, Spot, Spot], share: float) -> Spot:
    """A point of a quadratic curve: its begin, its control point and its end."""
    (ax, ay), (x, y), (bx, by) = curve
    first, second, third = (1 - share) ** 2, 2 * share * (1 - share), share**2
    return first * ax + second * x + third * bx, first * ay + second * y + third * by
