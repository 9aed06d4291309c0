"""This file is where it is counted what conversations read, so that it can be told what goes together, and what not.

A conversation is a set of nodes that it named in a question of its own; what answers showed beside them does not count,
or every relation would confirm itself. After half an hour of silence another one begins.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from kgd.model.uri import Uri

IDLE_SECONDS = 1_800
MOST_READ = 40
"""Nodes of one conversation that count; who reads more than that is not reading what belongs together."""
MOST_SHOWN = 500
CONVERSATIONS = 300
"""That are under way at a time."""

Pair = tuple[Uri, Uri]
"""Two nodes, in order."""
Link = tuple[Uri, Uri, str]
"""Source, target and type of a relation."""


@dataclass(slots=True)
class Tally:
    """Counts of conversations; those of two spans of time add up.

    `reads` and `squares` are the sums of the sizes of all conversations and of their squares: with them it can be told
    how often two nodes would meet by chance. `offered` relations led from a node that was asked for to one that was not
    read yet; `followed` are those whose other end was read later on.
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
    read: list[Uri] = field(default_factory=list)
    shown: set[Link] = field(default_factory=set)
    open: dict[Uri, list[Link]] = field(default_factory=dict)


class Conversations:
    """Those that are under way. For one thread."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, _Conversation] = OrderedDict()

    def read(self, tally: Tally, id: str, uris: Sequence[Uri], now: float) -> None:
        """A conversation asked for these nodes by name."""
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
            one.read.append(uri)

    def shown(self, tally: Tally, id: str, links: Iterable[Link], now: float) -> None:
        """It was shown these relations of nodes that it asked for."""
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
