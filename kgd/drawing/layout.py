"""Layout: positions of dots. Around starts, the cost sets the distance from the centre, and the tree of cheapest paths
the angle.

Equal scenes have equal layouts. A dot's share of the circle is proportional to the number of leaves behind it. Dots of
one cost are on one ring, in several rows if the ring is crowded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, cos, floor, log10, pi, sin

from kgd.drawing.packing import Place, layout_groups
from kgd.drawing.routing import Curve, route
from kgd.drawing.scene import Dot, Scene

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
STEP_RIGHT, STEP_DOWN = 200.0, 90.0
"""Distance from each node of a path to the next: to the right or, in a tall picture, below."""
ROW = 24
"""Longest line of a label in the row of a path, in characters."""
WIDE, TALL = (980.0, 560.0), (362.0, 560.0)
"""Width and height of a whole workspace in groups."""


@dataclass(frozen=True, slots=True)
class Point:
    """A dot's position; `angle` is measured at the centre of the picture."""

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
    """`places` has the circles of groups, and the boxes of groups with visible content. `curves` has the lines between
    two groups. If `line` is above 0, labels are below their dots, in lines of at most `line` characters; otherwise a
    label is one line, on any side of its dot, or lines as wide as its place in an opened group."""

    points: Mapping[str, Point]
    rings: tuple[Ring, ...] = ()
    places: Mapping[str, Place] = field(default_factory=dict)
    curves: Mapping[tuple[str, str], Curve] = field(default_factory=dict)
    line: int = 0

    def is_box(self, uri: str) -> bool:
        return uri in self.places and self.places[uri].wide > 0


def layout_scene(scene: Scene, *, tall: bool = False) -> Layout:
    """Positions of all dots of a scene; paths and groups have other ones for a tall window."""
    if scene.arrangement == "path":
        right, down = (0.0, STEP_DOWN) if tall else (STEP_RIGHT, 0.0)
        points = {dot.uri: Point(n * right, n * down, 0.0) for n, dot in enumerate(scene.dots)}
        return Layout(points, line=0 if tall else ROW)
    if scene.arrangement == "groups":
        found = layout_groups(scene.dots, scene.lines, *(TALL if tall else WIDE))
        places = {uri: Place(*(round(number, 1) for number in place)) for uri, place in found.items()}
        points = {uri: Point(place.x, place.y, 0.0) for uri, place in places.items()}
        return Layout(points, places=places, curves=route(scene.lines, scene.dots, places))
    return layout_dots(scene.dots)


def layout_dots(dots: Sequence[Dot]) -> Layout:
    """Positions around the starts. O(n log n); dots are in the order of a scene, each after its parent."""
    angles = _angles(dots)
    step = _step([dot.cost for dot in dots])
    rings: dict[float, list[Dot]] = defaultdict(list)
    for dot in dots:
        is_start = not dot.parent and dot.cost == 0 and dot.shape != "missing"
        rings[-1.0 if is_start else _ring(dot.cost, step)].append(dot)
    dearest = max([0.0, *rings]) or 1.0
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
    return Layout(points, tuple(circles))


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
