"""This file is where old nodes are brought together that one summary could speak for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kgd.model.uri import Uri, namespace_of

RELATED = 0.35
"""Nearness of two texts, 0..1, from which they may be about one thing."""
LEAST, MOST = 3, 12
"""Nodes of one summary."""
SEEDS = 300
"""Nodes whose neighbours are looked for."""


@dataclass(frozen=True, slots=True)
class Old:
    """A node that nobody touched or read for long. `text` is what a summary is made of."""

    uri: Uri
    type: str
    tags: tuple[str, ...]
    text: str
    updated: int


Near = Callable[[Old, Sequence[Uri]], Iterable[tuple[Uri, float]]]


def clusters(nodes: Iterable[Old], near: Near | None = None) -> list[tuple[Old, ...]]:
    """Groups within one type and one place, by what their texts mean, or by a common tag where that is not known.

    Each node is in one group at most. The order is that of the oldest node of each. Of each of `SEEDS` nodes the
    neighbours are asked for once; else linear.
    """
    places: dict[tuple[str, str], list[Old]] = defaultdict(list)
    for node in sorted(nodes, key=lambda one: (one.updated, one.uri)):
        places[node.type, namespace_of(node.uri)].append(node)
    seeds = SEEDS
    found: list[tuple[Old, ...]] = []
    for together in places.values():
        if len(together) < LEAST:
            continue
        if near is None:
            found += _by_tag(together)
        else:
            found += _by_meaning(together[:seeds], together, near)
            seeds -= min(seeds, len(together))
    return sorted(found, key=lambda group: (group[0].updated, group[0].uri))


def _by_meaning(seeds: Sequence[Old], nodes: Sequence[Old], near: Near) -> list[tuple[Old, ...]]:
    free = {node.uri: node for node in nodes}
    found = []
    for seed in seeds:
        if seed.uri not in free:
            continue
        alike = {uri for uri, nearness in near(seed, list(free)) if nearness >= RELATED and uri in free} - {seed.uri}
        group = [seed, *(free[uri] for uri in sorted(alike))][:MOST]
        if len(group) >= LEAST:
            found.append(tuple(group))
            for node in group:
                del free[node.uri]
    return found


def _by_tag(nodes: Sequence[Old]) -> list[tuple[Old, ...]]:
    """The rarest tags first: what few have in common says most."""
    tagged: dict[str, list[Old]] = defaultdict(list)
    for node in nodes:
        for tag in node.tags:
            tagged[tag].append(node)
    taken: set[Uri] = set()
    found = []
    for _, with_tag in sorted(tagged.items(), key=lambda item: (len(item[1]), item[0])):
        free = [node for node in with_tag if node.uri not in taken]
        for start in range(0, len(free), MOST):
            group = free[start : start + MOST]
            if len(group) >= LEAST:
                found.append(tuple(group))
                taken.update(node.uri for node in group)
    return found
