"""Layout: positions of dots. Around starts, the cost sets the distance from the centre, and the tree of cheapest paths
the angle.

Equal scenes have equal layouts. A dot's share of the circle is proportional to the number of leaves behind it. The
neighbours of a start are ordered by type. Dots of one cost are on one ring, in several rows if the ring is crowded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from math import ceil, cos, floor, log10, pi, sin

from kgd.drawing.looks import place_of
from kgd.drawing.packing import Place, layout_groups
from kgd.drawing.routing import Curve, bend, route, through_middle
from kgd.drawing.scene import Dot, Line, Scene

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
BETWEEN = 0.5
"""Gap between neighbours of different types, in leaves."""
ROUNDS = 3
"""Number of passes that order the dots of a type by their lines to other dots."""
INNER, OUTER, ROW_HIGH = 40.0, 84.0, 40.0
"""In a tall picture, around starts: the distances of the nearest and the furthest dots from the middle, and the height
of a row."""
STEP_RIGHT, STEP_DOWN = 200.0, 90.0
"""Distance from each node of a path to the next: to the right or, in a tall picture, below."""
ROW = 24
"""Longest line of a label in the row of a path, in characters."""
KEPT = 8
WIDE, TALL = (980.0, 560.0), (362.0, 560.0)
"""Width and height of a whole workspace in groups."""


@dataclass(frozen=True, slots=True)
class Point:
    """A dot's position; `angle` is measured at the centre of the picture."""

    x: float
    y: float
    angle: float


@dataclass(frozen=True, slots=True)
class Layout:
    """`places` has the circles of groups, and the boxes of groups with visible content. `curves` has the lines between
    two groups, and the curved lines around starts. `rings` has the radii of the circles for dots of one cost. If `line`
    is above 0, labels are below their dots, in lines of at most `line` characters. Otherwise a label is one line on any
    side of its dot or, in an opened group, several lines as wide as its place."""

    points: Mapping[str, Point]
    rings: tuple[float, ...] = ()
    places: Mapping[str, Place] = field(default_factory=dict)
    curves: Mapping[tuple[str, str], Curve] = field(default_factory=dict)
    line: int = 0

    def is_box(self, uri: str) -> bool:
        return uri in self.places and self.places[uri].wide > 0


@lru_cache(maxsize=KEPT)
def layout_scene(scene: Scene, *, tall: bool = False) -> Layout:
    """Positions of all dots of a scene; they differ in a tall window. The last layouts are kept, because a page and its
    SVG file show the same scene."""
    if scene.arrangement == "path":
        right, down = (0.0, STEP_DOWN) if tall else (STEP_RIGHT, 0.0)
        points = {dot.uri: Point(n * right, n * down, 0.0) for n, dot in enumerate(scene.dots)}
        return Layout(points, line=0 if tall else ROW)
    if scene.arrangement == "groups":
        found = layout_groups(scene.dots, scene.lines, *(TALL if tall else WIDE))
        places = {uri: Place(*(round(number, 1) for number in place)) for uri, place in found.items()}
        points = {uri: Point(place.x, place.y, 0.0) for uri, place in places.items()}
        return Layout(points, places=places, curves=route(scene.lines, scene.dots, places))
    if tall:
        return _columns(scene.dots, scene.lines)
    layout = layout_dots(scene.dots, scene.lines)
    spots = {uri: (point.x, point.y) for uri, point in layout.points.items()}
    return replace(layout, curves=bend(scene.lines, spots))


def layout_dots(dots: Sequence[Dot], lines: Sequence[Line] = ()) -> Layout:
    """Positions around the starts. O(n log n); dots are in the order of a scene, each after its parent.

    Args:
        lines: The lines by which the dots of a type are ordered.
    """
    angles = _angles(dots, lines)
    step = _step([dot.cost for dot in dots])
    rings: dict[float, list[Dot]] = defaultdict(list)
    for dot in dots:
        rings[-1.0 if _is_start(dot) else _ring(dot.cost, step)].append(dot)
    dearest = max([0.0, *rings]) or 1.0
    points: dict[str, Point] = {}
    circles: list[float] = []
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
            circles.append(radius)
    return Layout(points, tuple(circles))


def _is_start(dot: Dot) -> bool:
    return not dot.parent and dot.cost == 0 and dot.shape != "missing"


def _columns(dots: Sequence[Dot], lines: Sequence[Line]) -> Layout:
    """Positions for a tall window: the starts in the middle, and all others at their right or left, clockwise in the
    order of their angles. Each has a row of its own, so that its label, outside, is beside no other; a higher cost is
    further from the middle. Lines lead through the middle, where no label is."""
    angles = _angles(dots, lines)
    starts = [dot for dot in dots if _is_start(dot)]
    others = sorted((dot for dot in dots if not _is_start(dot)), key=lambda dot: (angles[dot.uri] - TOP) % (2 * pi))
    step = _step([dot.cost for dot in dots])
    costs = sorted({_ring(dot.cost, step) for dot in others})
    right, left = others[: len(others) // 2], others[: len(others) // 2 - 1 if len(others) > 1 else None : -1]
    above = len(right) // 2
    points: dict[str, Point] = {}
    # The labels of the starts are in rows between those at the right.
    for side, rows in ((1.0, [*right[:above], *starts, *right[above:]]), (-1.0, left)):
        for number, dot in enumerate(rows):
            down = (number - (len(rows) - 1) / 2) * ROW_HIGH
            share = 0.0 if dot in starts else costs.index(_ring(dot.cost, step)) / max(1, len(costs) - 1)
            away = 0.0 if dot in starts else INNER + (OUTER - INNER) * share
            points[dot.uri] = Point(round(side * away, 1), round(down, 1), angles[dot.uri])
    spots = {uri: (point.x, point.y) for uri, point in points.items()}
    return Layout(points, curves=through_middle(lines, spots))


def _angles(dots: Sequence[Dot], lines: Sequence[Line]) -> dict[str, float]:
    """The angle of each dot: the middle of its part. Children divide their parent's part in proportion to their numbers
    of leaves. They are ordered by type, and related ones are near each other."""
    known = {dot.uri for dot in dots}
    below: dict[str, list[Dot]] = defaultdict(list)
    for dot in dots:
        below[dot.parent if dot.parent in known else ""].append(dot)
    for children in below.values():
        children.sort(key=lambda dot: (_kind(dot), dot.uri))
    angles = _divided(dots, below)
    kinds = {_kind(dot) for dot in below.get(dots[0].uri, ())} if len(below.get("", ())) == 1 else ()
    others: dict[str, list[str]] = defaultdict(list)
    for line in lines if len(kinds) > 1 else ():
        if not line.is_path:
            others[line.source].append(line.target)
            others[line.target].append(line.source)
    for _ in range(ROUNDS if others else 0):
        for parent, children in below.items():
            if parent:
                children.sort(key=partial(_towards, angles, angles[parent], others))
        angles = _divided(dots, below)
    return angles


def _kind(dot: Dot) -> tuple[bool, tuple[int, str]]:
    return dot.shape == "missing", place_of(dot.type)


def _towards(
    angles: Mapping[str, float], middle: float, others: Mapping[str, Sequence[str]], dot: Dot
) -> tuple[tuple[bool, tuple[int, str]], float]:
    """The sort key of a dot among its siblings: its type, then the mean angle of its related dots, or its own angle if
    it has none. Angles are measured from `middle`."""
    apart = [(angles[uri] - middle + pi) % (2 * pi) - pi for uri in others.get(dot.uri, (dot.uri,))]
    return _kind(dot), sum(apart) / len(apart)


def _divided(dots: Sequence[Dot], below: Mapping[str, Sequence[Dot]]) -> dict[str, float]:
    kinds = {uri: len({_kind(dot) for dot in children}) for uri, children in below.items()}
    begun = {dot.uri for dot in below.get("", ())}
    leaves: dict[str, float] = {}
    for dot in reversed(dots):
        gaps = BETWEEN * kinds[dot.uri] if dot.uri in begun and kinds.get(dot.uri, 0) > 1 else 0.0
        leaves[dot.uri] = sum(leaves.get(child.uri, 1.0) for child in below.get(dot.uri, ())) + gaps or 1.0
    angles: dict[str, float] = {}
    total = sum(leaves[dot.uri] for dot in below.get("", ())) or 1.0
    waiting = [("", TOP, 2 * pi / total)]
    while waiting:
        parent, begin, leaf = waiting.pop()
        before = None
        for child in below.get(parent, ()):
            if parent in begun and kinds[parent] > 1 and _kind(child) != before:
                begin += BETWEEN * leaf / (1 if before else 2)
                before = _kind(child)
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
