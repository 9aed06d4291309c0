"""Routing: lines between groups as curves that pass beside the other groups and their labels where there is room.

The cost is bounded by the number of lines and the number of curves compared for each line.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import ceil, hypot, inf

from kgd.drawing.packing import LABEL, LONGEST_LABEL, Place
from kgd.drawing.scene import Dot, Line
from kgd.drawing.text import CHARACTER, width

Spot = tuple[float, float]
Cell = tuple[int, int]
Curve = tuple[Spot, Spot, Spot]
"""A quadratic curve: start, control point and end."""

BENDS = tuple(sign * bend for bend in (0.08, 0.11, 0.14, 0.18, 0.22, 0.28, 0.35, 0.44, 0.56, 0.7) for sign in (1, -1))
"""Distances of a control point from the middle of its line, as shares of the line's length, in the order of trial."""
CELL, APART, CLEAR = 8.0, 12.0, 5.0
"""Size of a cell, distance between compared points of a line, and gap between a line and a circle."""
COVERED, HIDDEN, NAMED, SHARED, CURVED, LONGER = 100.0, 10.0, 3.0, 1.0, 20.0, 0.02
"""Costs of a curve: for each point in a circle or outside the picture, for each point in an open box, which hides it,
for each point in a label, for each point on another line, for a bend as long as the line, and for each unit that it is
longer than the shortest."""


def route(lines: Iterable[Line], dots: Sequence[Dot], places: Mapping[str, Place]) -> dict[tuple[str, str], Curve]:
    """The curve of each line between groups."""
    if not places:
        return {}
    costs = _costs(dots, places)
    sizes = [(place, place.wide / 2 or place.size, place.high / 2 or place.size) for place in places.values()]
    columns = min(at.x - wide for at, wide, _ in sizes), max(at.x + wide for at, wide, _ in sizes)
    rows = min(at.y - high for at, _, high in sizes), max(at.y + high for at, _, high in sizes)
    used: set[Cell] = set()
    found: dict[tuple[str, str], Curve] = {}
    for line in lines:
        if line.has_arrow:
            continue
        ends = line.source, line.target
        least, cells = inf, list[Cell]()
        for least_cost, curve in _curves(places[line.source], places[line.target]):
            if least_cost >= least:
                break
            spots = _spots(curve)
            passed = [(int(x // CELL), int(y // CELL)) for x, y in spots]
            cost = least_cost + SHARED * sum(cell in used for cell in passed)
            cost += COVERED * sum(not (columns[0] <= x <= columns[1] and rows[0] <= y <= rows[1]) for x, y in spots)
            cost += sum(one for cell in passed for uri, one in costs.get(cell, ()) if uri not in ends)
            if cost < least:
                found[ends], least, cells = curve, cost, passed
        used.update(cells)
    return found


def _curves(one: Place, other: Place) -> list[tuple[float, Curve]]:
    """The curves to compare between two figures, each with its cost in an empty picture, the cheapest first."""
    curves = []
    for a, b in product(_anchors(one, other), _anchors(other, one)):
        long = hypot(b[0] - a[0], b[1] - a[1])
        for bend in BENDS:
            over = (a[0] + b[0]) / 2 + (b[1] - a[1]) * bend, (a[1] + b[1]) / 2 + (a[0] - b[0]) * bend
            curves.append((CURVED * abs(bend) + LONGER * long, (a, over, b)))
    least = min((LONGER * hypot(b[0] - a[0], b[1] - a[1]) for _, (a, _, b) in curves), default=0.0)
    return sorted(((cost - least, curve) for cost, curve in curves), key=lambda one: one[0])


def _anchors(place: Place, other: Place) -> list[Spot]:
    """The points where a line may end: the centre of a circle; for a box, the point nearest to the other figure, and
    the middle of each side."""
    across, down = place.wide / 2, place.high / 2
    x, y = min(max(other.x - place.x, -across), across), min(max(other.y - place.y, -down), down)
    sides = [(0.0, -down), (0.0, down), (-across, 0.0), (across, 0.0)] if place.wide else []
    return [(place.x + right, place.y + below) for right, below in dict.fromkeys([(x, y), *sides])]


def _costs(dots: Sequence[Dot], places: Mapping[str, Place]) -> dict[Cell, list[tuple[str, float]]]:
    """The costs of cells, each with the group that a line may begin or end at; a label is never free."""
    costs: dict[Cell, list[tuple[str, float]]] = defaultdict(list)
    opened = {dot.parent for dot in dots if dot.shape != "group"}
    for dot in dots:
        x, y, size, wide, high, *_ = places[dot.uri]
        for uri, inset in ((dot.uri, 0.0), ("", CELL)) if dot.uri in opened else ():
            for cell in _cells(x - wide / 2 + inset, y - high / 2 + inset, x + wide / 2 - inset, y + high / 2 - inset):
                costs[cell].append((uri, HIDDEN))
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


def _spots(curve: Curve) -> list[Spot]:
    """Points of a curve, `APART` or less from each other."""
    (ax, ay), over, (bx, by) = curve
    count = ceil((hypot(over[0] - ax, over[1] - ay) + hypot(bx - over[0], by - over[1])) / APART) + 1
    return [along(curve, n / count) for n in range(count + 1)]


def along(curve: Curve, share: float) -> Spot:
    """A point of a curve."""
    (ax, ay), (x, y), (bx, by) = curve
    first, second, third = (1 - share) ** 2, 2 * share * (1 - share), share**2
    return first * ax + second * x + third * bx, first * ay + second * y + third * by
