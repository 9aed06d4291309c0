"""This file is where facts are found that a newer one took the place of, and that do not say so themselves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from kgd.graph.edges import Edge
from kgd.model.change import Edit, Upsert
from kgd.model.node import SUPERSEDED, SUPERSEDED_BY, SUPERSEDES, Relation
from kgd.model.uri import Uri

CONTRADICTS = "contradicts"
OUTDATED = frozenset(["contradicted", "outdated", "obsolete", "deprecated", "stale"])
"""Tags of what is not true any more."""
CONTRADICTION = OUTDATED | {"contradicts", "contradiction", "correction", "corrects", SUPERSEDES}
"""Tags by which somebody says that two nodes of one name do not both hold."""
APART = frozenset([SUPERSEDES, SUPERSEDED_BY, CONTRADICTS, "contradicted_by", "part_of", "distinct_from", "replaces"])
"""Two nodes with such a relation between them are two things, whatever they are called."""


class Superseded(NamedTuple):
    """`old` is not true any more, and `new` is in its place."""

    old: Uri
    new: Uri
    reason: str


def by_relation(new: Uri, out: Callable[[Uri], Sequence[Edge]]) -> list[Superseded]:
    """What a node says it supersedes; nothing of two that say so of each other."""
    return [
        Superseded(edge.target, new, f"{new} supersedes it")
        for edge in out(new)
        if edge.type.lower() == SUPERSEDES and edge.target != new and not says(out(edge.target), new, SUPERSEDES)
    ]


def contradiction(
    pair: tuple[Uri, Uri], tags: Callable[[Uri], Collection[str]], out: Callable[[Uri], Sequence[Edge]]
) -> str:
    """How somebody says of two nodes that they do not both hold; empty where nobody does."""
    one, two = pair
    if marked := {tag.lower() for uri in pair for tag in tags(uri)} & CONTRADICTION:
        return f"tagged '{min(marked)}'"
    told = says(out(one), two, CONTRADICTS) or says(out(two), one, CONTRADICTS)
    return f"related as '{CONTRADICTS}'" if told else ""


def by_contradiction(
    pair: tuple[Uri, Uri], how: str, tags: Callable[[Uri], Collection[str]], updated: Callable[[Uri], int]
) -> Superseded | None:
    """Of two nodes of one name that contradict each other the one that is tagged as not true any more, else the older;
    None where that tells nothing."""
    told = [uri for uri in pair if OUTDATED & {tag.lower() for tag in tags(uri)}]
    if len(told) == 1:
        [old] = told
        [new] = set(pair) - {old}
        return Superseded(old, new, f"{new} goes by the same name, and this one is {how}")
    old, new = sorted(pair, key=updated)
    if updated(old) == updated(new):
        return None
    return Superseded(old, new, f"{new} goes by the same name and is newer, and they are {how}")


def says(edges: Sequence[Edge], target: Uri, *types: str) -> bool:
    return any(edge.target == target and edge.type.lower() in types for edge in edges)


def are_apart(one: Uri, two: Uri, out: Callable[[Uri], Sequence[Edge]]) -> bool:
    return says(out(one), two, *APART) or says(out(two), one, *APART)


def is_marked(uri: Uri, tags: Collection[str], out: Callable[[Uri], Sequence[Edge]]) -> bool:
    return SUPERSEDED in tags or any(edge.type.lower() == SUPERSEDED_BY for edge in out(uri))


def marking(found: Superseded) -> tuple[Edit, ...]:
    """Nothing is taken away: it says of itself what came after it, and search ranks it lower."""
    return (Upsert(found.old, tags=(SUPERSEDED,), relations=(Relation(SUPERSEDED_BY, found.new),)),)
