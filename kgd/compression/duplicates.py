"""Outdated facts and duplicates: pairs of nodes of which only one should stay current."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kgd.graph.edges import Edge
from kgd.model.change import Edit, Upsert
from kgd.model.node import SUPERSEDED, SUPERSEDED_BY, SUPERSEDES, Relation
from kgd.model.uri import Uri

CONTRADICTS = "contradicts"
OUTDATED = frozenset(["contradicted", "outdated", "obsolete", "deprecated", "stale"])
"""Tags of nodes that are no longer true."""
CONTRADICTION = OUTDATED | {"contradicts", "contradiction", "correction", "corrects", SUPERSEDES}
"""Tags that mark two nodes of one name as contradictory."""
APART = frozenset([SUPERSEDES, SUPERSEDED_BY, CONTRADICTS, "contradicted_by", "part_of", "distinct_from", "replaces"])
"""Relations that mark two nodes as different things, even if they have one name."""
ENOUGH, IN_COMMON = 12, 0.15
"""Least number of distinct words of a compared text, and least share of common words of texts about the same
subject."""
MOST_DROPPED = 10
"""Duplicates merged into one node at a time, since a reviewer reads all of them."""
_WORD = re.compile(r"[^\W\d_]{4,}")


class Superseded(NamedTuple):
    """`old` is no longer true; `new` replaces it."""

    old: Uri
    new: Uri
    reason: str


def by_relation(new: Uri, out: Callable[[Uri], Sequence[Edge]]) -> list[Superseded]:
    """The nodes that a node declares superseded, except where both declare it of each other."""
    return [
        Superseded(edge.target, new, f"{new} supersedes it")
        for edge in out(new)
        if edge.type.lower() == SUPERSEDES and edge.target != new and not says(out(edge.target), new, SUPERSEDES)
    ]


def contradiction(
    pair: tuple[Uri, Uri], tags: Callable[[Uri], Collection[str]], out: Callable[[Uri], Sequence[Edge]]
) -> str:
    """How two nodes are marked as contradictory; empty if they are not."""
    one, two = pair
    if marked := {tag.lower() for uri in pair for tag in tags(uri)} & CONTRADICTION:
        return f"tagged '{min(marked)}'"
    decided = says(out(one), two, CONTRADICTS) or says(out(two), one, CONTRADICTS)
    return f"related as '{CONTRADICTS}'" if decided else ""


def by_contradiction(
    pair: tuple[Uri, Uri], how: str, tags: Callable[[Uri], Collection[str]], updated: Callable[[Uri], int]
) -> Superseded | None:
    """Of two contradictory nodes of one name, the node tagged as outdated, else the older one; None if undecided."""
    decided = [uri for uri in pair if OUTDATED & {tag.lower() for tag in tags(uri)}]
    if len(decided) == 1:
        [old] = decided
        [new] = set(pair) - {old}
        return Superseded(old, new, f"{new} has the same name, and this one is {how}")
    old, new = sorted(pair, key=updated)
    if updated(old) == updated(new):
        return None
    return Superseded(old, new, f"{new} has the same name and is newer, and they are {how}")


def says(edges: Sequence[Edge], target: Uri, *types: str) -> bool:
    return any(edge.target == target and edge.type.lower() in types for edge in edges)


def are_apart(one: Uri, two: Uri, out: Callable[[Uri], Sequence[Edge]]) -> bool:
    return says(out(one), two, *APART) or says(out(two), one, *APART)


def is_marked(uri: Uri, tags: Collection[str], out: Callable[[Uri], Sequence[Edge]]) -> bool:
    return SUPERSEDED in tags or any(edge.type.lower() == SUPERSEDED_BY for edge in out(uri))


def marking(found: Superseded) -> tuple[Edit, ...]:
    """The edits that mark a node as superseded: it stays, and search ranks it lower."""
    return (Upsert(found.old, tags=(SUPERSEDED,), relations=(Relation(SUPERSEDED_BY, found.new),)),)


@dataclass(slots=True)
class Duplicates:
    """`drops` are to become aliases of `keep`, each with its reason."""

    keep: Uri
    drops: dict[Uri, str] = field(default_factory=dict)

    @property
    def nodes(self) -> tuple[Uri, ...]:
        return (self.keep, *self.drops)


def are_unrelated(one: str, other: str) -> bool:
    """Whether two texts are long enough to compare and have almost no words in common.

    Then nodes of one name are different things: every service may have its "Overview".
    """
    words = [frozenset(word.casefold() for word in _WORD.findall(text)) for text in (one, other)]
    fewer = min(map(len, words))
    return fewer >= ENOUGH and len(words[0] & words[1]) < IN_COMMON * fewer


def groups(pairs: Iterable[tuple[Uri, Uri, str]]) -> list[Duplicates]:
    """Groups of (keep, drop, reason), most similar first. No node is kept in one group and dropped in another.

    All drops of a group are similar to the kept node: a node similar only to a dropped one may be about something else.
    """
    made: dict[Uri, Duplicates] = {}
    gone: set[Uri] = set()
    for keep, drop, reason in pairs:
        if keep in gone or drop in gone or drop in made:
            continue
        group = made.setdefault(keep, Duplicates(keep))
        if len(group.drops) < MOST_DROPPED:
            group.drops[drop] = reason
            gone.add(drop)
    return [group for group in made.values() if group.drops]
