"""Redundant relations: those whose removal loses no information."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

from kgd.graph.edges import WEIGHT_DIGITS, Edge
from kgd.model.fields import plain_weight
from kgd.model.node import ranks_behind
from kgd.model.uri import Uri
from kgd.model.usage import ALPHA, LEAST_OFFERED, LEAST_OFFERED_IN_ALL, Tally

RELATED = "related_to"
"""The least specific relation. Only relations of this type are compared with other paths."""
MENTIONS = "mentions"
MOST_EDGES = 60
"""Relations of one node that paths may follow, the cheapest first."""

Out = Callable[[Uri], Sequence[Edge]]


class Pruned(NamedTuple):
    """A relation in the graph, and why it can be removed."""

    source: Uri
    target: Uri
    type: str
    reason: str


def redundant(source: Uri, out: Out) -> Iterator[Pruned]:
    """Unspecific relations of a node for which a more specific one, or a path of two, has at most the same cost.

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
    """Stored mentions of nodes that the text names anyway, which are found automatically."""
    stored = [edge for edge in out(source) if edge.type.lower() == MENTIONS]
    derived = named(source) if stored else ()
    for edge in stored:
        if edge.target in derived:
            yield Pruned(source, edge.target, edge.type, f"its text names {edge.target}, which is found automatically")


def unwalked(tally: Tally) -> Iterator[Pruned]:
    """Relations of type `RELATED` that were often shown to conversations and never followed, while others were followed
    so often that chance is excluded; see `kgd.model.usage`."""
    shown, followed = sum(tally.offered.values()), sum(tally.followed.values())
    tested = max(1, sum(1 for count in tally.offered.values() if count >= LEAST_OFFERED))
    for link, count in sorted(tally.offered.items()):
        source, target, type = link
        others = shown - count
        if not _says_least(type) or count < LEAST_OFFERED or tally.followed[link] or others < LEAST_OFFERED_IN_ALL:
            continue
        rate = min(1.0, followed / others)
        if (1.0 - rate) ** count * tested < ALPHA:
            why = f"shown to {count} conversations and followed by none, where {rate:.0%} of all relations were"
            yield Pruned(source, target, type, why)
