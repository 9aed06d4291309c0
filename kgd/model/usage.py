"""Usage: counts of nodes read together, and suggestions for relations and weights.

A conversation is the set of nodes that it requested by name. Nodes that were only shown with them are not included,
because otherwise every relation would confirm itself. After half an hour without a request a new conversation begins.

A suggestion compares use with chance. A new relation is suggested if conversations read two nodes together more often
than expected by chance, given how often each node is read and how many nodes conversations read. A greater weight is
suggested if a relation was shown repeatedly but never followed, while others were followed. Both tests require a
probability below `ALPHA`, divided by the number of cases (Bonferroni), so that random use suggests nothing.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal

from kgd.model.node import edge_id
from kgd.model.uri import Uri

IDLE_SECONDS = 1_800
MOST_READ = 40
"""Maximum number of nodes counted per conversation; a longer list says little about which nodes belong together."""
MOST_SHOWN = 500
CONVERSATIONS = 300
"""Maximum number of concurrent conversations."""

Pair = tuple[Uri, Uri]
"""Two nodes, sorted."""
Link = tuple[Uri, Uri, str]
"""Source, target and type of a relation."""


@dataclass(slots=True)
class Tally:
    """Counts of conversations; the tallies of two periods add up.

    `reads` and `squares` are the sums of the sizes of all conversations, and of the squares of these sizes; they give
    the number of joint reads expected by chance. `offered` counts relations shown from a requested node to a node that
    was not read; `followed` counts the offered relations whose other end was read later.
    """

    conversations: int = 0
    reads: int = 0
    squares: int = 0
    nodes: Counter[Uri] = field(default_factory=Counter)
    pairs: Counter[Pair] = field(default_factory=Counter)
    offered: Counter[Link] = field(default_factory=Counter)
    followed: Counter[Link] = field(default_factory=Counter)

    def __bool__(self) -> bool:
        return bool(self.reads or self.offered)


@dataclass(slots=True)
class _Conversation:
    last: float
    read: dict[Uri, None] = field(default_factory=dict)
    shown: set[Link] = field(default_factory=set)
    open: dict[Uri, list[Link]] = field(default_factory=dict)


class Conversations:
    """The current conversations. Not thread-safe."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, _Conversation] = OrderedDict()

    def read(self, tally: Tally, id: str, uris: Sequence[Uri], now: float) -> None:
        """Record that a conversation asked for these nodes by name."""
        one = self._of(id, now)
        for uri in uris:
            if uri in one.read or len(one.read) >= MOST_READ:
                continue
            tally.conversations += not one.read
            tally.squares += 2 * len(one.read) + 1
            tally.reads += 1
            tally.nodes[uri] += 1
            tally.pairs.update((min(uri, other), max(uri, other)) for other in one.read)
            tally.followed.update(one.open.pop(uri, ()))
            one.read[uri] = None

    def shown(self, tally: Tally, id: str, links: Iterable[Link], now: float) -> None:
        """Record that a conversation was shown these relations of its nodes."""
        one = self._of(id, now)
        for link in islice(links, MOST_SHOWN):
            near = [end for end in link[:2] if end in one.read]
            if len(near) != 1 or link in one.shown or len(one.shown) >= MOST_SHOWN:
                continue
            far = link[1] if link[0] == near[0] else link[0]
            one.shown.add(link)
            tally.offered[link] += 1
            one.open.setdefault(far, []).append(link)

    def _of(self, id: str, now: float) -> _Conversation:
        one = self._known.get(id)
        if one is None or now - one.last > IDLE_SECONDS:
            one = self._known[id] = _Conversation(now)
        one.last = now
        self._known.move_to_end(id)
        while len(self._known) > CONVERSATIONS:
            self._known.popitem(last=False)
        return one


ALPHA = 0.01
"""Maximum probability that any of a workspace's suggestions is due to chance."""
LEAST_TOGETHER = 5
"""Minimum number of conversations that read both nodes."""
LIFT = 3.0
"""Minimum ratio of the actual to the expected number of joint reads."""
LEAST_OFFERED = 20
LEAST_OFFERED_IN_ALL = 60
"""Minimum number of times that other relations were shown; with fewer, the rate of following is unknown."""
CLEARLY = 0.1
"""Minimum difference in weight for a suggestion."""
RELATION = "related_to"

Kind = Literal["relate", "shorten", "lengthen"]
Between = Callable[[Uri, Uri], tuple[Link, float] | None]
"""The cheapest relation between two nodes, in either direction, and its weight."""
Weight = Callable[[Link], float | None]
"""The weight of a relation; None if it does not exist."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A new relation, or a new weight. `now` is the current weight, or None if there is no relation.

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
    """All suggestions, the strongest first. Takes O(pairs that were read together often enough)."""
    return [*_together(tally, between), *_unfollowed(tally, weight_of)]


def _together(tally: Tally, between: Between) -> list[Suggestion]:
    often = sum(1 for count in tally.nodes.values() if count >= LEAST_TOGETHER)
    looked_at = max(1, often * (often - 1) // 2)
    found: list[tuple[float, Suggestion]] = []
    for (a, b), count in tally.pairs.items():
        if count < LEAST_TOGETHER:
            continue
        expected = expected_meetings(tally, a, b)
        odds = poisson_tail(count, expected)
        if count < LIFT * expected or odds * looked_at >= ALPHA:
            continue
        if one := _pair(tally, between, a, b, count, expected):
            found.append((odds, one))
    return _strongest(found)


def _pair(tally: Tally, between: Between, a: Uri, b: Uri, count: int, expected: float) -> Suggestion | None:
    """The suggestion for two nodes: the larger the share of joint reads, the smaller the weight."""
    rarer = min(tally.nodes[a], tally.nodes[b])
    weight = round(max(0.1, 1.0 - 0.9 * min(1.0, count / max(1, rarer))), 1)
    told = f"read together in {count} of {rarer} conversations that read one of them; expected by chance: "
    told += f"{expected:.1f}" if expected >= 0.1 else "less than 0.1"
    known = between(a, b)
    if known is None:
        return Suggestion("relate", a, b, RELATION, None, weight, told, count)
    (source, target, type), now = known
    if now - weight < CLEARLY:
        return None
    return Suggestion("shorten", source, target, type, now, weight, told, count)


def unfollowed(tally: Tally) -> Iterator[tuple[float, Link, int, str]]:
    """Relations that conversations saw and never followed, although they followed so many others that chance is an
    unlikely reason: its probability, the relation, the number of conversations, and a sentence about it."""
    shown, followed = sum(tally.offered.values()), sum(tally.followed.values())
    looked_at = max(1, sum(1 for count in tally.offered.values() if count >= LEAST_OFFERED))
    for link, count in sorted(tally.offered.items()):
        others = shown - count
        if count < LEAST_OFFERED or tally.followed[link] or others < LEAST_OFFERED_IN_ALL:
            continue
        rate = min(1.0, followed / others)
        odds = (1.0 - rate) ** count
        if odds * looked_at < ALPHA:
            why = f"shown to {count} conversations and never followed, although {rate:.0%} of all relations were"
            yield odds, link, count, why


def _unfollowed(tally: Tally, weight_of: Weight) -> list[Suggestion]:
    found: list[tuple[float, Suggestion]] = []
    for odds, link, count, told in unfollowed(tally):
        now = weight_of(link)
        if now is not None and 1.0 - now >= CLEARLY:
            weight = round(min(1.0, now + max(CLEARLY, (1.0 - now) / 2)), 2)
            found.append((odds, Suggestion("lengthen", *link, now, weight, told, count)))
    return _strongest(found)


def _strongest(found: list[tuple[float, Suggestion]]) -> list[Suggestion]:
    """The suggestions in the order of their probability by chance."""
    return [one for _, one in sorted(found, key=lambda item: (item[0], item[1].source, item[1].target))]


def expected_meetings(tally: Tally, a: Uri, b: Uri) -> float:
    """The expected number of conversations with both nodes if each conversation read at random.

    A conversation with `n` reads has n(n - 1) places for the two nodes. Long conversations raise the expected number of
    joint reads; otherwise they would make all nodes seem related.
    """
    if not tally.reads:
        return 0.0
    return tally.nodes[a] * tally.nodes[b] * (tally.squares - tally.reads) / tally.reads**2


def poisson_tail(count: int, expected: float) -> float:
    """The probability of `count` or more events if `expected` is the mean (Poisson)."""
    if expected <= 0:
        return 0.0 if count else 1.0
    term = math.exp(count * math.log(expected) - expected - math.lgamma(count + 1))
    sum_so_far, number = 0.0, count
    while term > 1e-18 * sum_so_far and number < count + 10_000:
        sum_so_far += term
        number += 1
        term *= expected / number
    return min(1.0, sum_so_far)
