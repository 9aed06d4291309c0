"""This file is where use is held against chance: which relations it speaks for, and which weights it speaks against.

Two nodes are said to belong together where conversations read both of them more often than they would by chance, given
how often each is read and how much single conversations read. A relation is said to be too short where walks were shown
it again and again and nobody ever followed it, while others are followed. Both tests ask for odds below `ALPHA` after
they are divided by the number of cases that were looked at (Bonferroni), so that random use suggests nothing.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from kgd.model.node import edge_id
from kgd.model.uri import Uri
from kgd.model.usage import Link, Tally

ALPHA = 0.01
"""How often at most one of all the suggestions of a workspace may be chance alone."""
LEAST_TOGETHER = 5
"""Conversations that read both nodes, below which nothing is said."""
LIFT = 3.0
"""How many times more often than by chance."""
LEAST_OFFERED = 20
LEAST_OFFERED_IN_ALL = 60
"""Relations shown, in all, below which it cannot be told how often people follow one."""
CLEARLY = 0.1
"""A weight that differs by less is not worth a suggestion."""
RELATION = "related_to"

Kind = Literal["relate", "shorten", "lengthen"]
Between = Callable[[Uri, Uri], tuple[Link, float] | None]
"""The cheapest relation between two nodes, whichever way it leads, and its weight."""
Weight = Callable[[Link], float | None]
"""The weight of a relation; None where it is not there (any more)."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A relation to be made, or a weight to be changed. `now` is the present weight, None where there is no relation.

    `count` is the number of conversations behind it.
    """

    kind: Kind
    source: Uri
    target: Uri
    type: str
    now: float | None
    weight: float
    reason: str
    count: int

    @property
    def id(self) -> str:
        named = f"{self.kind} {edge_id(self.source, self.target, self.type)}"
        return "suggestion-" + hashlib.sha256(named.encode()).hexdigest()[:16]


def suggestions(tally: Tally, between: Between, weight_of: Weight) -> list[Suggestion]:
    """What use speaks for, the most telling first. O(pairs that met often enough)."""
    return [*_together(tally, between), *_unfollowed(tally, weight_of)]


def _together(tally: Tally, between: Between) -> list[Suggestion]:
    often = sum(1 for count in tally.nodes.values() if count >= LEAST_TOGETHER)
    looked_at = max(1, often * (often - 1) // 2)
    found: list[tuple[float, Suggestion]] = []
    for (a, b), count in tally.pairs.items():
        if count < LEAST_TOGETHER:
            continue
        expected = by_chance(tally, a, b)
        odds = at_least(count, expected)
        if count < LIFT * expected or odds * looked_at >= ALPHA:
            continue
        if one := _pair(tally, between, a, b, count, expected):
            found.append((odds, one))
    return [one for _, one in sorted(found, key=lambda item: (item[0], item[1].source, item[1].target))]


def _pair(tally: Tally, between: Between, a: Uri, b: Uri, count: int, expected: float) -> Suggestion | None:
    """The nearer the two are to being read only together, the shorter the relation."""
    rarer = min(tally.nodes[a], tally.nodes[b])
    weight = round(max(0.1, 1.0 - 0.9 * min(1.0, count / max(1, rarer))), 1)
    told = f"read together in {count} of {rarer} conversations that read one of them; by chance it would be "
    told += f"{expected:.1f}" if expected >= 0.1 else "less than 0.1"
    known = between(a, b)
    if known is None:
        return Suggestion("relate", a, b, RELATION, None, weight, told, count)
    (source, target, type), now = known
    if now - weight < CLEARLY:
        return None
    return Suggestion("shorten", source, target, type, now, weight, told, count)


def _unfollowed(tally: Tally, weight_of: Weight) -> list[Suggestion]:
    shown, followed = sum(tally.offered.values()), sum(tally.followed.values())
    looked_at = max(1, sum(1 for count in tally.offered.values() if count >= LEAST_OFFERED))
    found: list[tuple[float, Suggestion]] = []
    for link, count in tally.offered.items():
        others = shown - count
        if count < LEAST_OFFERED or tally.followed[link] or others < LEAST_OFFERED_IN_ALL:
            continue
        rate = followed / others
        odds = (1.0 - min(rate, 1.0)) ** count
        now = weight_of(link)
        if odds * looked_at >= ALPHA or now is None or 1.0 - now < CLEARLY:
            continue
        told = f"shown to {count} conversations and followed by none, where {rate:.0%} of all relations were"
        weight = round(min(1.0, now + max(CLEARLY, (1.0 - now) / 2)), 2)
        found.append((odds, Suggestion("lengthen", *link, now, weight, told, count)))
    return [one for _, one in sorted(found, key=lambda item: (item[0], item[1].source, item[1].target))]


def by_chance(tally: Tally, a: Uri, b: Uri) -> float:
    """In how many conversations two nodes would meet if each conversation drew what it read by lot.

    A conversation of `n` reads has n(n - 1) places for the two; long ones count as what they are, or whoever reads much
    at once would make everything belong together.
    """
    if not tally.reads:
        return 0.0
    return tally.nodes[a] * tally.nodes[b] * (tally.squares - tally.reads) / tally.reads**2


def at_least(count: int, expected: float) -> float:
    """The odds of `count` or more where `expected` is usual (Poisson)."""
    if expected <= 0:
        return 0.0 if count else 1.0
    term = math.exp(count * math.log(expected) - expected - math.lgamma(count + 1))
    sum_so_far, number = 0.0, count
    while term > 1e-18 * sum_so_far and number < count + 10_000:
        sum_so_far += term
        number += 1
        term *= expected / number
    return min(1.0, sum_so_far)
