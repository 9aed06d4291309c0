"""Routing: lines as curves that pass beside other figures, and between groups also beside labels, where there is room.

The work is bounded by the number of curves that are compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import ceil, hypot, inf

from kgd.drawing.packing import LABEL, LONGEST_LABEL, Place
from kgd.drawing.scene import Dot, Line
from kgd.drawing.text import CHARACTER, width

MOST_CURVES = 8_000
"""Largest number of curves between groups that are compared for a picture; each line has the same share."""
MOST_BENT = 400
"""Largest number of lines around starts for which curves are compared."""
AROUND = (0.0, 0.1, -0.1, 0.18, -0.18, 0.28, -0.28, 0.4, -0.4)
"""Distances of a control point from the middle of a line around starts, as shares of its length, in the order of
trial."""
THROUGH = 0.3
"""Distance from the middle of a control point between two dots of one side, relative to that of the nearer dot."""
NEAR = 12.0
"""Gap between the middle of a dot and a line around starts."""

Spot = tuple[float, float]
Cell = tuple[int, int]
Curve = tuple[Spot, Spot, Spot]
"""A quadratic curve: start, control point and end."""

BENDS = tuple(sign * bend for bend in (0.08, 0.11, 0.14, 0.18, 0.22, 0.28, 0.35, 0.44, 0.56, 0.7) for sign in (1, -1))
"""Distances of a control point from the middle of its line, as shares of the line's length, in the order of trial."""
WIDE = 24.0
"""Size of a cell with dots; larger than `NEAR`."""
CELL, APART, CLEAR = 8.0, 12.0, 5.0
"""Size of a cell, distance between compared points of a line, and gap between a line and a circle."""
COVERED, HIDDEN, NAMED, SHARED, CURVED, LONGER = 400.0, 10.0, 40.0, 1.0, 20.0, 0.02
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
    between = [line for line in lines if not line.has_arrow]
    share = MOST_CURVES // max(1, len(between))
    for line in between:
        ends = line.source, line.target
        least, cells = inf, list[Cell]()
        for least_cost, curve in _curves(places[line.source], places[line.target])[:share]:
            if least_cost >= least:
                break
            cost, passed = least_cost, list[Cell]()
            for x, y in _spots(curve):
                cell = int(x // CELL), int(y // CELL)
                passed.append(cell)
                cost += SHARED * (cell in used)
                cost += COVERED * (not (columns[0] <= x <= columns[1] and rows[0] <= y <= rows[1]))
                for uri, one in costs.get(cell, ()):
                    cost += one if uri not in ends else 0.0
                if cost >= least:
                    break
            else:
                found[ends], least, cells = curve, cost, passed
        used.update(cells)
    return found


def bend(lines: Sequence[Line], spots: Mapping[str, Spot]) -> dict[tuple[str, str], Curve]:
    """The curve of each line between the middles of two dots that, straight, would pass over another dot. None in a
    picture with more than `MOST_BENT` lines."""
    cells: dict[Cell, list[tuple[str, Spot]]] = defaultdict(list)
    for uri, (x, y) in spots.items() if len(lines) <= MOST_BENT else ():
        for cell in product(
            range(int(x // WIDE) - 1, int(x // WIDE) + 2), range(int(y // WIDE) - 1, int(y // WIDE) + 2)
        ):
            cells[cell].append((uri, (x, y)))

    def passed(curve: Curve, ends: tuple[str, str]) -> int:
        met = {
            uri
            for x, y in _spots(curve)
            for uri, (right, down) in cells.get((int(x // WIDE), int(y // WIDE)), ())
            if uri not in ends and hypot(x - right, y - down) < NEAR
        }
        return len(met)

    found: dict[tuple[str, str], Curve] = {}
    for line in lines if cells else ():
        ends = line.source, line.target
        a, b = spots[line.source], spots[line.target]
        least = inf
        for share in AROUND:
            over = (a[0] + b[0]) / 2 + (b[1] - a[1]) * share, (a[1] + b[1]) / 2 + (a[0] - b[0]) * share
            if (count := passed((a, over, b), ends)) < least:
                least = count
                if share:
                    found[ends] = a, over, b
            if not least:
                break
    return found


def through_middle(lines: Sequence[Line], spots: Mapping[str, Spot]) -> dict[tuple[str, str], Curve]:
    """The curves between dots in the columns beside x = 0. Each curve reaches the further dot along the dot's row."""
    found: dict[tuple[str, str], Curve] = {}
    for line in lines:
        a, b = spots[line.source], spots[line.target]
        near, far = sorted((a, b), key=lambda spot: abs(spot[0]))
        is_beside = near[0] * far[0] > 0  # both at one side
        over = (THROUGH * near[0] if is_beside else 0.0, far[1])
        if near[0] == far[0]:
            over = -THROUGH * near[0], (near[1] + far[1]) / 2
        found[line.source, line.target] = a, over, b
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
        half = min(width(dot.name) * CHARACTER, LONGEST_LABEL) / 2 + CLEAR
        for cell in _cells(x - half, y + size, x + half, y + size + LABEL + CLEAR):
            costs[cell].append(("", NAMED))
    return costs


def _cells(left: float, top: float, right: float, bottom: float) -> Iterator[Cell]:
    for x in range(int(left // CELL), int(right // CELL) + 1):
        for y in range(int(top // CELL), int(bottom // CELL) + 1):
            yield x, y


def _spots(curve: Curve) -> Iterator[Spot]:
    """Points of a curve, `APART` or less from each other."""
    (ax, ay), over, (bx, by) = curve
    count = ceil((hypot(over[0] - ax, over[1] - ay) + hypot(bx - over[0], by - over[1])) / APART) + 1
    return (along(curve, n / count) for n in range(count + 1))


def along(curve: Curve, share: float) -> Spot:
    """A point of a curve."""
    (ax, ay), (x, y), (bx, by) = curve
    first, second, third = (1 - share) ** 2, 2 * share * (1 - share), share**2
    return first * ax + second * x + third * bx, first * ay + second * y + third * by
