"""Redundancy in a workspace: outdated facts, duplicates, and relations whose removal loses no information."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kgd.graph.edges import WEIGHT_DIGITS, Edge
from kgd.model.change import Edit, Upsert
from kgd.model.fields import plain_weight
from kgd.model.node import SUPERSEDED, SUPERSEDED_BY, SUPERSEDES, Relation, ranks_behind
from kgd.model.uri import Uri
from kgd.model.usage import ALPHA, LEAST_OFFERED, LEAST_OFFERED_IN_ALL, Tally

CONTRADICTS = "contradicts"
OUTDATED = frozenset(["contradicted", "outdated", "obsolete", "deprecated", "stale"])
"""Tags of nodes that are no longer true."""
CONTRADICTION = OUTDATED | {"contradicts", "contradiction", "correction", "corrects", SUPERSEDES}
"""Tags that mark two nodes of one name as contradictory."""
APART = frozenset([SUPERSEDES, SUPERSEDED_BY, CONTRADICTS, "contradicted_by", "part_of", "distinct_from", "replaces"])
"""Relations that mark two nodes as different things, even if they have one name."""
ENOUGH, IN_COMMON = 12, 0.15
"""Minimum number of distinct words in a text to compare, and minimum share of common words in texts about the same
subject."""
MOST_DROPPED = 10
"""Maximum number of duplicates merged into one node at a time, since a reviewer reads all of them."""
_WORD = re.compile(r"[^\W\d_]{4,}")


class Superseded(NamedTuple):
    """`old` is no longer true; `new` replaces it."""

    old: Uri
    new: Uri
    reason: str


def by_relation(new: Uri, out: Callable[[Uri], Sequence[Edge]]) -> list[Superseded]:
    """The nodes that a node declares superseded, except where each declares the other superseded."""
    return [
        Superseded(edge.target, new, f"{new} supersedes it")
        for edge in out(new)
        if edge.type.lower() == SUPERSEDES and edge.target != new and not says(out(edge.target), new, SUPERSEDES)
    ]


def contradiction(
    pair: tuple[Uri, Uri], tags: Callable[[Uri], Collection[str]], out: Callable[[Uri], Sequence[Edge]]
) -> str:
    """Why two nodes count as contradictory: a tag or a relation. Empty if they do not."""
    one, two = pair
    if marked := {tag.lower() for uri in pair for tag in tags(uri)} & CONTRADICTION:
        return f"tagged '{min(marked)}'"
    decided = says(out(one), two, CONTRADICTS) or says(out(two), one, CONTRADICTS)
    return f"related as '{CONTRADICTS}'" if decided else ""


def by_contradiction(
    pair: tuple[Uri, Uri], how: str, tags: Callable[[Uri], Collection[str]], updated: Callable[[Uri], int]
) -> Superseded | None:
    """Which of two contradictory nodes with one name is superseded: the node tagged as outdated, otherwise the older
    node; None if undecided."""
    decided = [uri for uri in pair if OUTDATED & {tag.lower() for tag in tags(uri)}]
    if len(decided) == 1:
        [old] = decided
        [new] = set(pair) - {old}
        return Superseded(old, new, f"{new} has the same name, and this node is {how}")
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

    If so, nodes with the same name are different things: every service may have its "Overview".
    """
    words = [frozenset(word.casefold() for word in _WORD.findall(text)) for text in (one, other)]
    fewer = min(map(len, words))
    return fewer >= ENOUGH and len(words[0] & words[1]) < IN_COMMON * fewer


def groups(pairs: Iterable[tuple[Uri, Uri, str]]) -> list[Duplicates]:
    """Groups of (keep, drop, reason), most similar first. No node is kept in one group and dropped in another.

    All dropped nodes of a group are similar to the kept node: a node that is similar only to a dropped node may be
    about something else.
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


RELATED = "related_to"
"""The least specific relation. Only relations of this type are compared with other paths."""
MENTIONS = "mentions"
MOST_EDGES = 60
"""Maximum number of a node's relations that paths may follow, the cheapest first."""

Out = Callable[[Uri], Sequence[Edge]]


class Pruned(NamedTuple):
    """A relation in the graph, and why it can be removed."""

    source: Uri
    target: Uri
    type: str
    reason: str


def redundant(source: Uri, out: Out) -> Iterator[Pruned]:
    """A node's unspecific relations that can each be replaced, at no higher cost, by a more specific relation or by a
    path of two relations.

    Relations of type `RELATED` never justify a removal, so all results may be removed together.
    """
    edges = out(source)
    telling = [edge for edge in edges if _is_telling(edge)][:MOST_EDGES]
    for edge in edges:
        if _says_least(edge.type) and edge.target != source and (why := _instead(edge, telling, out)):
            yield Pruned(source, edge.target, edge.type, why)


def _is_telling(edge: Edge) -> bool:
    return not _says_least(edge.type) and not ranks_behind(edge.type)


def _says_least(type: str) -> bool:
    return type.lower() == RELATED


def _instead(edge: Edge, telling: Sequence[Edge], out: Out) -> str:
    for first in telling:
        if first.target == edge.target and first.weight <= edge.weight:
            return f"'{first.type}' also leads to {edge.target}, at no greater cost"
    for first in telling:
        if first.weight > edge.weight or first.target == edge.target:
            continue
        for second in out(first.target)[:MOST_EDGES]:
            cost = round(first.weight + second.weight, WEIGHT_DIGITS)
            if second.target == edge.target and _is_telling(second) and cost <= edge.weight:
                return (
                    f"'{first.type}' to {first.target} and '{second.type}' from there lead to {edge.target} at a cost "
                    f"of {plain_weight(cost)}; its own is {plain_weight(edge.weight)}"
                )
    return ""


def mentioned(source: Uri, out: Out, named: Callable[[Uri], Collection[Uri]]) -> Iterator[Pruned]:
    """Stored mentions of nodes whose name is in the text, since such mentions are found automatically."""
    stored = [edge for edge in out(source) if edge.type.lower() == MENTIONS]
    derived = named(source) if stored else ()
    for edge in stored:
        if edge.target in derived:
            yield Pruned(
                source, edge.target, edge.type, f"its text mentions {edge.target}, which is found automatically"
            )


def unwalked(tally: Tally) -> Iterator[Pruned]:
    """Relations of type `RELATED` that were often shown to conversations and never followed, while others were followed
    so often that this is not due to chance; see `kgd.model.usage`."""
    shown, followed = sum(tally.offered.values()), sum(tally.followed.values())
    tested = max(1, sum(1 for count in tally.offered.values() if count >= LEAST_OFFERED))
    for link, count in sorted(tally.offered.items()):
        source, target, type = link
        others = shown - count
        if not _says_least(type) or count < LEAST_OFFERED or tally.followed[link] or others < LEAST_OFFERED_IN_ALL:
            continue
        rate = min(1.0, followed / others)
        if (1.0 - rate) ** count * tested < ALPHA:
            why = f"shown to {count} conversations and never followed, although {rate:.0%} of all relations were"
            yield Pruned(source, target, type, why)
