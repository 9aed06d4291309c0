"""This file is where it is decided where each dot stands: outward by cost, around by the tree of cheapest paths.

The same scene is always laid out alike. A dot's share of the circle is the number of dots without followers behind it.
Dots of one cost stand on one ring, and where they are too many for it, in rows behind each other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, cos, floor, log10, pi, sin

from kgd.drawing.scene import Dot

APART = 17.0
"""Between the middles of two dots of a row, and of two rows."""
GAP = 44.0
"""Between the last row of a ring and the next ring, at least."""
REACH = 300.0
"""Where the dearest dots stand if nothing is crowded."""
MOST_RINGS = 10
"""Costs that have a ring of their own each; of more costs, near ones share a ring."""
MOST_ROWS = 80
TOP = -pi / 2


@dataclass(frozen=True, slots=True)
class Point:
    """Where a dot stands; `angle` as seen from the middle."""

    x: float
    y: float
    angle: float


@dataclass(frozen=True, slots=True)
class Ring:
    """A circle on which all dots of a cost stand. `label` says the cost, of a ring for several the dearest."""

    radius: float
    label: str


@dataclass(frozen=True, slots=True)
class Layout:
    points: Mapping[str, Point]
    rings: tuple[Ring, ...]
    radius: float


def laid_out(dots: Sequence[Dot]) -> Layout:
    """Where everything stands. O(n log n); dots come in the order of a scene, each behind its parent."""
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
    """Each dot in the middle of its share of its parent's share."""
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
    """Put the dots of a ring into the first row that has room; answers where the last row is."""
    ends: list[tuple[float, float]] = []
    """Of each row, the first angle that is taken and the last."""
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
    """How many costs share a ring, as a width that people count in; 0 where each has its own."""
    if len(set(costs)) <= MOST_RINGS:
        return 0.0
    width = max(costs) / MOST_RINGS
    size = 10.0 ** floor(log10(width))
    return next(size * one for one in (1, 2, 2.5, 5, 10) if size * one >= width * (1 - 1e-9))


def _ring(cost: float, step: float) -> float:
    return round(ceil(cost / step - 1e-9) * step, 6) if step else cost
