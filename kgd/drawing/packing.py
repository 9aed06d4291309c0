"""Packing: groups as circles that do not overlap, in circles of the groups that contain them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from math import cos, hypot, pi, sin, sqrt

from kgd.drawing.scene import Dot

MEMBER = 34.0
"""Distance between the members of an opened group."""
MARGIN = 26.0
"""Gap between two circles, and between a circle and its content; a label fits into it."""
GOLDEN = pi * (3 - sqrt(5))
ROUNDS = 60
WIDE = 1.5
"""Width of the picture divided by its height."""

Circle = tuple[float, float, float]
"""Centre and radius."""


def layout_groups(dots: Sequence[Dot]) -> dict[str, Circle]:
    """The circle of each dot. Members of a group lie in its circle. O(groups of one group squared, and dots)."""
    inside: dict[str, list[Dot]] = defaultdict(list)
    for dot in dots:
        inside[dot.parent].append(dot)
    return _placed(inside, "", 0.0, 0.0)[0]


def _placed(inside: Mapping[str, Sequence[Dot]], parent: str, x: float, y: float) -> tuple[dict[str, Circle], float]:
    """The circles of a group centred at a point, and the radius that they need."""
    parts = {dot.uri: _placed(inside, dot.uri, 0.0, 0.0) for dot in inside.get(parent, ())}
    sizes = {dot.uri: max(dot.size, parts[dot.uri][1]) for dot in inside.get(parent, ())}
    nodes_only = all(dot.shape == "node" for dot in inside.get(parent, ()))
    middles = _sunflower(list(sizes)) if nodes_only else _packed(sizes, 1.0 if parent else WIDE)
    found: dict[str, Circle] = {}
    for uri, (across, down) in middles.items():
        found[uri] = x + across, y + down, sizes[uri]
        for inner, (a, b, size) in parts[uri][0].items():
            found[inner] = x + across + a, y + down + b, size
    reach = max((hypot(*middles[uri]) + sizes[uri] for uri in sizes), default=-MARGIN) + MARGIN
    return found, reach


def _sunflower(uris: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Points at equal distances, the first in the centre."""
    return {uri: (MEMBER * sqrt(n) * cos(n * GOLDEN), MEMBER * sqrt(n) * sin(n * GOLDEN)) for n, uri in enumerate(uris)}


def _packed(sizes: Mapping[str, float], wide: float) -> dict[str, tuple[float, float]]:
    """Positions of circles without overlap, the largest near the centre."""
    order = sorted(sizes, key=lambda uri: (-sizes[uri], uri))
    places: dict[str, list[float]] = {}
    area = 0.0
    for n, uri in enumerate(order):
        own = (sizes[uri] + MARGIN / 2) ** 2
        away = sqrt(area + own / 2) if n else 0.0
        area += own
        places[uri] = [away * cos(n * GOLDEN) * sqrt(wide), away * sin(n * GOLDEN) / sqrt(wide)]
    for _ in range(ROUNDS):
        if not _pushed_apart(order, places, sizes):
            break
    stretch = max((need / apart for _, _, need, apart in _near(order, places, sizes)), default=1.0)
    return {uri: (places[uri][0] * stretch, places[uri][1] * stretch) for uri in order}


def _pushed_apart(order: Sequence[str], places: Mapping[str, list[float]], sizes: Mapping[str, float]) -> bool:
    """Move the circles that overlap; the smaller one moves further. Returns whether there were any."""
    crossing = list(_near(order, places, sizes))
    for one, other, need, _ in crossing:
        a, b = places[one], places[other]
        right, down = b[0] - a[0], b[1] - a[1]
        apart = hypot(right, down) or 1e-6
        push = max(0.0, need - apart) / apart
        share = sizes[other] / (sizes[one] + sizes[other])
        a[0] -= right * push * share
        a[1] -= down * push * share
        b[0] += right * push * (1 - share)
        b[1] += down * push * (1 - share)
    return bool(crossing)


def _near(
    order: Sequence[str], places: Mapping[str, list[float]], sizes: Mapping[str, float]
) -> list[tuple[str, str, float, float]]:
    """The pairs of circles that are too close, with the required and the actual distance."""
    found = []
    for one, other in combinations(order, 2):
        need = sizes[one] + sizes[other] + MARGIN
        apart = hypot(places[one][0] - places[other][0], places[one][1] - places[other][1]) or 1e-6
        if apart < need - 0.01:
            found.append((one, other, need, apart))
    return found
