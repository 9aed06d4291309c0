"""Packing: groups as circles with their labels below, and groups that contain others as boxes, in a given frame.

Circles keep their proportions and are as large as the frame allows; opened groups get most of it if the others still
have room. No label, circle or box overlaps another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from math import ceil, hypot, prod, sqrt
from typing import NamedTuple

from kgd.drawing import Dot, Line
from kgd.drawing.looks import CHARACTER, width

LABEL = 20.0
"""Height of a label below a circle."""
GAP = 12.0
"""Gap between two circles of a row, and between two rows."""
LONGEST_LABEL = 104.0
"""Width that a label always gets; a longer one may be cut."""
MEMBER = (46.0, 38.0)
"""Width and height of the cell of a member; `ROOMY` is the cell that it gets in an uncrowded picture."""
ROOMY = (112.0, 44.0)
WIDER = 30.0
"""Extra width of the gaps between members of a row, compared with the gaps between rows, for their labels."""
HEADER, PAD, GUTTER = 26.0, 6.0, 10.0
"""Height of a box's title, and gaps between a box and its content and between two boxes."""
SCALES = tuple(2.0 * 0.9**n for n in range(24))
"""Factors of the circles' sizes to try, the largest first."""
OPENED = ((0.85, 0.75), (0.65, 0.55, 0.45), (0.3, 0.0))
"""Shares of a frame to try for the opened groups in it, the largest first, in steps: each step is tried in the frame,
then in a larger one. 0 is the share by their areas."""
SMALLEST = 0.4
"""Smallest factor of the circles' sizes for such a share; below it, the next smaller share is tried."""
GROWTH = 1.25
"""Growth of a frame that is too small at all scales."""
ROUNDS = 2
"""Number of times that groups are ordered by their relations, and packed again."""


FEW = 4
"""Largest number of parts for which all divisions of a frame are compared."""

Part = Sequence[Dot]
"""One box, or all circles beside boxes."""
Share = tuple[float, Part]
"""A part of a frame with its area."""


class Place(NamedTuple):
    """The centre of a figure, with the radius of its circle, or with the width and the height of its box. The label of
    a member is at most `room` wide; its row is `deep` high."""

    x: float
    y: float
    size: float
    wide: float = 0.0
    high: float = 0.0
    room: float = 0.0
    deep: float = 0.0


class Frame(NamedTuple):
    """A rectangle: left and top edge, width and height."""

    left: float
    top: float
    wide: float
    high: float


Packed = tuple[dict[str, Place], dict[str, float]]
"""The place of each dot, and the share of the opened groups in each group."""


@dataclass(frozen=True, slots=True)
class _Packing:
    """The dots of each group, and the factor of the circles' sizes.

    `opened` has the share of the opened groups in a group; without it, the first of `shares` with room is used.
    """

    inside: Mapping[str, Sequence[Dot]]
    scale: float
    opened: Mapping[str, float]
    shares: Sequence[float] = (0.0,)
    cells: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Width and height of the smallest cell of each circle and member, once it is computed."""

    def cell(self, dot: Dot) -> tuple[float, float]:
        """The smallest cell of a circle or a member."""
        if dot.shape != "group":
            return MEMBER
        if dot.uri not in self.cells:
            across, label = 2 * dot.size * self.scale, (width(dot.name) + 1) * CHARACTER
            self.cells[dot.uri] = max(across, min(label, LONGEST_LABEL)) + GAP, across + LABEL + GAP
        return self.cells[dot.uri]

    def least(self, dots: Sequence[Dot]) -> float:
        """The area without which dots do not fit."""
        return sum(self.least(self.inside[dot.uri]) if dot.uri in self.inside else prod(self.cell(dot)) for dot in dots)

    def area(self, dot: Dot) -> float:
        """The area that a dot should get."""
        if content := self.inside.get(dot.uri):
            return 1.15 * sum(map(self.area, content)) + HEADER * LONGEST_LABEL
        wide, high = ROOMY if dot.shape != "group" else self.cell(dot)
        return wide * high

    def _shares(self, dots: Sequence[Dot], opened: float) -> list[Share]:
        """The parts of a frame, the largest first; opened groups together get their share."""
        circles = [dot for dot in dots if dot.uri not in self.inside]
        parts = [[dot] for dot in dots if dot.uri in self.inside] + [circles] * bool(circles)
        areas = [(sum(map(self.area, part)), part, any(map(self._is_opened, part))) for part in parts]
        own, others = (sum(area for area, _, is_opened in areas if is_opened is one) for one in (True, False))
        more = others * opened / (1 - opened) / own if own and others and opened else 1.0
        shares: list[Share] = [(area * more if is_opened else area, part) for area, part, is_opened in areas]
        return sorted(shares, key=lambda share: (-share[0], share[1][0].uri))

    def _is_opened(self, dot: Dot) -> bool:
        """Whether a group shows members, in it or in a group inside of it."""
        return any(one.shape != "group" or self._is_opened(one) for one in self.inside.get(dot.uri, ()))

    def place(self, parent: str, frame: Frame) -> Packed | None:
        """The places of the dots in a group, or None if they do not fit."""
        dots = self.inside.get(parent, ())
        if min(frame.wide, frame.high) <= 0 or self.least(dots) > frame.wide * frame.high:
            return None
        if not any(dot.uri in self.inside for dot in dots):
            rows = self._rows(dots, frame)
            return None if rows is None else (rows, {})
        shares = self.shares if any(map(self._is_opened, dots)) else (0.0,)
        options = (self.opened[parent],) if parent in self.opened else shares
        return next(filter(None, (self._divide(parent, frame, opened) for opened in options)), None)

    def _divide(self, parent: str, frame: Frame, opened: float) -> Packed | None:
        """Divide a group's frame into its parts; None if one of them does not fit."""
        found, shares = dict[str, Place](), {parent: opened}
        parts = _divided(self._shares(self.inside[parent], opened), frame)[1]
        # Circles first: they are the part that may not fit, and take less time.
        for part, (left, top, wide, high) in sorted(parts, key=lambda one: one[0][0].uri in self.inside):
            box, dot = Frame(left + GUTTER / 2, top + GUTTER / 2, wide - GUTTER, high - GUTTER), part[0]
            if dot.uri not in self.inside:
                if (rows := self._rows(part, box)) is None:
                    return None
                found |= rows
                continue
            content = Frame(box.left + PAD, box.top + HEADER, box.wide - 2 * PAD, box.high - HEADER - PAD)
            if (inner := self.place(dot.uri, content)) is None:
                return None
            middle = box.left + box.wide / 2, box.top + box.high / 2
            found[dot.uri] = Place(*middle, min(box.wide, box.high) / 2, box.wide, box.high)
            found |= inner[0]
            shares |= inner[1]
        return found, shares

    def _rows(self, dots: Sequence[Dot], frame: Frame) -> dict[str, Place] | None:
        """Dots in rows that spread over the frame; the number of rows gives similar gaps in both directions."""
        best: tuple[float, list[list[Dot]]] | None = None
        if self.least(dots) > frame.wide * frame.high:
            return None
        wider = 0.0 if any(dot.shape == "group" for dot in dots) else WIDER
        likely = sqrt(len(dots) * max(0.0, frame.high) / max(1.0, frame.wide))
        for count in range(max(1, int(likely * 0.5)), min(len(dots), ceil(likely * 2) + 1) + 1):
            rows = self._split(dots, count)
            across = max(sum(self.cell(dot)[0] for dot in row) for row in rows)
            down = sum(max(self.cell(dot)[1] for dot in row) for row in rows)
            if across <= frame.wide and down <= frame.high:
                uneven = abs((frame.wide - across) / max(map(len, rows)) - wider - (frame.high - down) / count)
                best = min(best or (uneven, rows), (uneven, rows), key=lambda one: one[0])
        return self._spread(best[1], frame) if best else None

    def _split(self, dots: Sequence[Dot], count: int) -> list[list[Dot]]:
        """Consecutive rows of similar widths; none is empty if there are as many dots."""
        wide = [self.cell(dot)[0] for dot in dots]
        whole, before, rows = sum(wide), 0.0, [list[Dot]() for _ in range(count)]
        for number, (dot, own) in enumerate(zip(dots, wide, strict=True)):
            row = min(count - 1, int((before + own / 2) * count / whole))
            rows[max(row, count - len(dots) + number)].append(dot)
            before += own
        return [row for row in rows if row]

    def _spread(self, rows: Sequence[Sequence[Dot]], frame: Frame) -> dict[str, Place]:
        found: dict[str, Place] = {}
        heights = [max(self.cell(dot)[1] for dot in row) for row in rows]
        below, top = (frame.high - sum(heights)) / len(rows), frame.top
        for row, high in zip(rows, heights, strict=True):
            cells = [self.cell(dot)[0] for dot in row]
            beside, left = (frame.wide - sum(cells)) / len(row), frame.left
            for dot, wide in zip(row, cells, strict=True):
                middle = left + (wide + beside) / 2, top + (high + below - LABEL) / 2
                is_group = dot.shape == "group"
                own = Place(*middle, dot.size * self.scale if is_group else dot.size)
                found[dot.uri] = own if is_group else own._replace(room=wide + beside - PAD, deep=high + below)
                left += wide + beside
            top += high + below
        return found


def layout_groups(dots: Sequence[Dot], lines: Sequence[Line], wide: float, high: float) -> dict[str, Place]:
    """The place of each dot in a frame of this size, with related groups near each other; the frame grows if they do
    not fit."""
    inside: dict[str, list[Dot]] = defaultdict(list)
    for dot in dots:
        inside[dot.parent].append(dot)
    found = _packed(inside, Frame(0.0, 0.0, wide, high)) if dots else {}
    links: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for line in lines:
        if not line.has_arrow:
            links[line.source].append((line.target, line.width))
            links[line.target].append((line.source, line.width))
    for _ in range(ROUNDS if links else 0):
        # Boxes have places by their areas.
        circles = [uri for uri, content in inside.items() if not any(dot.uri in inside for dot in content)]
        inside |= {uri: _near(inside[uri], found, links) for uri in circles}
        found = _packed(inside, Frame(0.0, 0.0, wide, high))
    return found


def _packed(inside: Mapping[str, Sequence[Dot]], frame: Frame) -> dict[str, Place]:
    """Opened groups get the largest share that leaves room to small circles, which then grow into the rest."""
    is_opened = any(dot.shape != "group" for content in inside.values() for dot in content)
    larger = Frame(0.0, 0.0, frame.wide * GROWTH, frame.high * GROWTH)
    for shares, within in product(OPENED, (frame, larger)) if is_opened else ():
        if least := _Packing(inside, SMALLEST, {}, shares).place("", within):
            scales = (scale for scale in SCALES if scale > SMALLEST)
            grown = (_Packing(inside, scale, least[1]).place("", within) for scale in scales)
            return next(filter(None, grown), least)[0]
    for scale in SCALES:
        if is_opened and scale > SMALLEST:
            continue
        if found := _Packing(inside, scale, {}).place("", frame):
            return found[0]
    return _packed(inside, larger)


def _near(
    dots: Sequence[Dot], places: Mapping[str, Place], links: Mapping[str, Sequence[tuple[str, float]]]
) -> list[Dot]:
    """The groups of a box in an order that makes the lines shorter: two exchange their places if that helps."""
    order, at = list(dots), {uri: (place.x, place.y) for uri, place in places.items()}

    def length(*ends: str) -> float:
        pairs = ((at[uri], at[to], wide) for uri in ends for to, wide in links.get(uri, ()))
        return sum(wide * hypot(a[0] - b[0], a[1] - b[1]) for a, b, wide in pairs)

    for first, second in combinations(range(len(order)), 2):
        a, b = order[first].uri, order[second].uri
        if not (a in links or b in links):
            continue
        before = length(a, b)
        at[a], at[b] = at[b], at[a]
        if length(a, b) < before - 1e-6:
            order[first], order[second] = order[second], order[first]
        else:
            at[a], at[b] = at[b], at[a]
    return order


def _divided(shares: Sequence[Share], frame: Frame) -> tuple[float, list[tuple[Part, Frame]]]:
    """Divide a frame in strips, in proportion to shares, into parts that are nearly squares (a squarified treemap).

    Returns:
        The highest ratio of the sides of a part, and the frame of each part.
    """
    if not shares:
        return 1.0, []
    is_few = len(shares) <= FEW
    unit = frame.wide * frame.high / sum(area for area, _ in shares)
    options = []
    for is_column in (True, False) if is_few else (frame.wide >= frame.high,):
        strips = [_strip(shares[:count], frame, unit, is_column) for count in range(1, len(shares) + 1)]
        for worst, parts, rest in strips if is_few else [min(strips, key=lambda strip: strip[0])]:
            below, others = _divided(shares[len(parts) :], rest)
            options.append((max(worst, below), parts + others))
    return min(options, key=lambda option: option[0])


def _strip(
    shares: Sequence[Share], frame: Frame, unit: float, is_column: bool
) -> tuple[float, list[tuple[Part, Frame]], Frame]:
    """Parts along one side of a frame: the highest ratio of their sides, their frames, and the rest of the frame."""
    left, top, wide, high = frame
    side = high if is_column else wide
    strip = sum(area for area, _ in shares) * unit / side
    parts, worst, along = [], 1.0, 0.0
    for area, part in shares:
        long = area * unit / strip
        own = Frame(left, top + along, strip, long) if is_column else Frame(left + along, top, long, strip)
        parts.append((part, own))
        worst = max(worst, strip / long, long / strip)
        along += long
    rest = Frame(left + strip, top, wide - strip, high) if is_column else Frame(left, top + strip, wide, high - strip)
    return worst, parts, rest
