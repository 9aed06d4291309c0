"""Layout: positions of dots, and the curves of the lines between them. Around starts, the cost sets the distance from
the centre, and the tree of cheapest paths the angle.

Equal scenes have equal layouts. A dot's share of the circle is proportional to the number of leaves behind it. The
neighbours of a start are ordered by type. Dots of one cost are on one ring, in several rows if the ring is crowded.

Lines pass beside other figures, and between groups also beside labels, where there is room. The work is bounded by the
number of curves that are compared.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import product
from math import ceil, cos, floor, hypot, inf, log10, pi, sin, tan

from kgd.drawing import Dot, Line, Mark, Scene
from kgd.drawing.looks import CHARACTER, place_of, width
from kgd.drawing.packing import LABEL, LONGEST_LABEL, Place, layout_groups

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
    return Layout(points, curves=_through_middle(lines, spots))


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


MOST_CURVES = 8_000
"""Largest number of curves between groups that are compared for a picture; each line has the same share."""
MOST_BENT = 400
"""Largest number of lines around starts for which curves are compared."""
AROUND = (0.0, 0.1, -0.1, 0.18, -0.18, 0.28, -0.28, 0.4, -0.4)
"""Distances of a control point from the middle of a line around starts, as shares of its length, in the order of
trial."""
THROUGH = 0.3
"""Distance from the middle of a control point between two dots of one side, relative to that of the nearer dot."""
FIRST_ANGLES = (0.15, 0.6)
"""Least angle between the row of a dot in the middle and its lines to the left and, beyond its label, to the right."""
REACHED = (0.8, 0.9)
"""Limits of the control point of a line from the middle, as shares of the distances across and down to its end."""
NEAR = 12.0
"""Gap between the middle of a dot and a line around starts."""

CORNERS: Mapping[Mark, tuple[int, int]] = {
    "conflict": (1, -1),
    "unverified": (-1, -1),
    "proposed": (-1, 1),
    "foreign": (1, 1),
}
"""The corner of a dot where each mark is drawn: steps to the right and down."""

Spot = tuple[float, float]
Cell = tuple[int, int]
Curve = tuple[Spot, Spot, Spot]
"""A quadratic curve: start, control point and end."""

BENDS = tuple(sign * bend for bend in (0.08, 0.11, 0.14, 0.18, 0.22, 0.28, 0.35, 0.44, 0.56, 0.7) for sign in (1, -1))
"""Distances of a control point from the middle of its line, as shares of the line's length, in the order of trial."""
NARROW = 1.3
"""Factor by which labels are larger, relative to the circles, in a narrow window than in the picture."""
DOT_CELL = 24.0
"""Size of a cell with dots; larger than `NEAR`."""
CELL, STEP, CLEAR = 8.0, 12.0, 5.0
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
        for cell in cells_of(x - DOT_CELL, y - DOT_CELL, x + DOT_CELL, y + DOT_CELL, DOT_CELL):
            cells[cell].append((uri, (x, y)))

    def passed(curve: Curve, ends: tuple[str, str]) -> int:
        met = {
            uri
            for x, y in _spots(curve)
            for uri, (right, down) in cells.get((int(x // DOT_CELL), int(y // DOT_CELL)), ())
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


def _through_middle(lines: Sequence[Line], spots: Mapping[str, Spot]) -> dict[tuple[str, str], Curve]:
    """The curves between dots in the columns beside x = 0. Each curve reaches the outer dot along its row. The
    curves of a dot in the middle begin in different directions, so that their ends stay distinct."""
    found: dict[tuple[str, str], Curve] = {}
    fans: dict[tuple[str, bool, bool], list[str]] = defaultdict(list)
    for line in lines:
        near, far = sorted((line.source, line.target), key=lambda uri: abs(spots[uri][0]))
        (x, y), (away, down) = spots[near], spots[far]
        if x == 0 != away:
            fans[near, away > 0, down > y].append(far)
        is_beside = x * away > 0  # both at one side
        over = -THROUGH * x, (y + down) / 2
        if x != away:
            over = (THROUGH * x if is_beside else 0.0, down)
        found[line.source, line.target] = spots[line.source], over, spots[line.target]
    for (near, is_right, _), others in fans.items():
        first = FIRST_ANGLES[is_right]
        ordered = sorted(set(others), key=lambda uri: abs(spots[uri][1] - spots[near][1]))
        for number, far in enumerate(ordered):
            (x, y), (away, down) = spots[near], spots[far]
            steep = tan(first + (pi / 2 - first) * (number + 0.5) / len(ordered))
            across = min(REACHED[0] * abs(away), REACHED[1] * abs(down - y) / steep)
            over = x + across * (1 if is_right else -1), y + across * steep * (1 if down > y else -1)
            for ends in ((near, far), (far, near)):
                if ends in found and down != y:
                    found[ends] = found[ends][0], over, found[ends][2]
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
        long = width(dot.name) * CHARACTER
        if wide:  # its title
            left, top = x - wide / 2, y - high / 2
            for cell in cells_of(left, top, left + min(long + LABEL, wide), top + LABEL + CLEAR):
                costs[cell].append(("", NAMED))
        for uri, inset in ((dot.uri, 0.0), ("", CELL)) if dot.uri in opened else ():
            for cell in cells_of(
                x - wide / 2 + inset, y - high / 2 + inset, x + wide / 2 - inset, y + high / 2 - inset
            ):
                costs[cell].append((uri, HIDDEN))
        if wide or dot.shape != "group":
            continue
        size += CLEAR
        for cell in cells_of(x - size, y - size, x + size, y + size):
            if hypot((cell[0] + 0.5) * CELL - x, (cell[1] + 0.5) * CELL - y) <= size:
                costs[cell].append((dot.uri, COVERED))
        for mark, _ in dot.counts:
            right, below = x + CORNERS[mark][0] * size, y + CORNERS[mark][1] * size
            for cell in cells_of(right - LABEL, below - LABEL / 2, right + LABEL, below + LABEL / 2):
                costs[cell].append((dot.uri, NAMED))
        half = NARROW * min(long, LONGEST_LABEL) / 2 + CLEAR
        for cell in cells_of(x - half, y + size, x + half, y + size + NARROW * LABEL + CLEAR):
            costs[cell].append(("", NAMED))
    return costs


def cells_of(left: float, top: float, right: float, bottom: float, size: float = CELL) -> Iterator[Cell]:
    """The cells of a size that an area touches."""
    columns = range(int(left // size), int(right // size) + 1)
    return product(columns, range(int(top // size), int(bottom // size) + 1))


def _spots(curve: Curve) -> Iterator[Spot]:
    """Points of a curve, `STEP` or less from each other."""
    (ax, ay), over, (bx, by) = curve
    count = ceil((hypot(over[0] - ax, over[1] - ay) + hypot(bx - over[0], by - over[1])) / STEP) + 1
    return (along(curve, n / count) for n in range(count + 1))


def along(curve: Curve, share: float) -> Spot:
    """A point of a curve."""
    (ax, ay), (x, y), (bx, by) = curve
    first, second, third = (1 - share) ** 2, 2 * share * (1 - share), share**2
    return first * ax + second * x + third * bx, first * ay + second * y + third * by
