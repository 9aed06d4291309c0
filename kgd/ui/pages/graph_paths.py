"""Paths between two nodes for the page *Graph*: the cheapest one and alternatives.

An alternative is a cheapest path from the first node, one relation, and a cheapest path to the last node. The best
alternative is the second cheapest path. Costs two walks of at most `MOST_NODES` nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from kgd.ui.pages.graph_address import Wanted
from kgd.ui.pages.graph_walk import path, walked_from
from kgd.ui.visit import Visit

MOST_PATHS = 3
"""Largest number of paths."""
MOST_NODES = 300
EXTRA_COST = 1.0
"""Largest difference between the cost of a path and the lowest cost."""
OPPOSITE = {"out": "in", "in": "out", "both": "both"}

Step = tuple[str, str, bool, float]
"""A relation: the node that it leads to, its type, whether it is followed backward, and its cost."""


def paths(visit: Visit, wanted: Wanted) -> list[Mapping[str, Any]]:
    """Return up to `MOST_PATHS` paths from the first start to the node `to`, the cheapest first, each as an
    answer of `traverse`.

    Raises:
        NotFound: One of the two nodes does not exist.
    """
    best = path(visit, wanted)
    if best.get("unreached") or len(best["nodes"]) < 2:
        return [best]
    first, last = best["nodes"][0]["uri"], best["nodes"][-1]
    most = last["cost"] + EXTRA_COST
    ahead = walked_from(visit, wanted, first, most, MOST_NODES)
    back = walked_from(visit, replace(wanted, direction=OPPOSITE[wanted.direction]), last["uri"], most, MOST_NODES)
    found, seen = [best], {tuple(node["uri"] for node in best["nodes"])}
    for _, uris, steps in _candidates(ahead, back, wanted.direction, most):
        if len(found) == MOST_PATHS:
            break
        if uris not in seen:
            seen.add(uris)
            found.append(_answer(ahead, back, first, steps))
    return found


def _candidates(
    ahead: Mapping[str, Any], back: Mapping[str, Any], direction: str, most: float
) -> list[tuple[float, tuple[str, ...], list[Step]]]:
    """Return the paths that visit no node twice, each with its cost and its nodes, the cheapest first."""
    begin, first = _costs(ahead), ahead["nodes"][0]["uri"]
    end = _costs(back)
    trees = _tree(ahead, begin), _tree(back, end)
    found = []
    for edge in ahead["edges"]:
        ends = edge["source"], edge["target"]
        for before, after, backward in ((*ends, False), (*reversed(ends), True)):
            if before not in begin or after not in end or direction == ("out" if backward else "in"):
                continue
            cost = round(begin[before] + edge["weight"] + end[after], 6)
            if cost > most:
                continue
            head = [(to, type, is_back, weight) for _, to, type, is_back, weight in _up(trees[0], before)]
            tail = [(to, type, not is_back, weight) for to, _, type, is_back, weight in _up(trees[1], after)]
            steps = [*reversed(head), (after, edge["type"], backward, edge["weight"]), *tail]
            uris = (first, *(step[0] for step in steps))
            if len(set(uris)) == len(uris):
                found.append((cost, uris, steps))
    return sorted(found, key=lambda one: (one[0], len(one[1]), one[1]))


def _costs(walk: Mapping[str, Any]) -> dict[str, float]:
    return {node["uri"]: node["cost"] for node in walk["nodes"]}


def _tree(walk: Mapping[str, Any], costs: Mapping[str, float]) -> dict[str, tuple[str, str, bool, float]]:
    """Return the predecessor of each node with the relation that leads from it: type, whether backward, and cost."""
    return {
        node["uri"]: (via["from"], via["type"], "direction" in via, round(node["cost"] - costs[via["from"]], 6))
        for node in walk["nodes"]
        if (via := node.get("via"))
    }


def _up(tree: Mapping[str, tuple[str, str, bool, float]], uri: str) -> Iterator[tuple[str, str, str, bool, float]]:
    """Yield the relations of a node's path from its end: both nodes, type, whether backward, and cost."""
    while uri in tree:
        before, type, is_back, weight = tree[uri]
        yield before, uri, type, is_back, weight
        uri = before


def _answer(ahead: Mapping[str, Any], back: Mapping[str, Any], first: str, steps: Sequence[Step]) -> Mapping[str, Any]:
    """Return a path in the form of an answer of `traverse`."""
    known = {node["uri"]: node for walk in (back, ahead) for node in walk["nodes"]}
    nodes, edges, cost, before = [{**known[first], "cost": 0.0}], [], 0.0, first
    for uri, type, backward, weight in steps:
        cost = round(cost + weight, 6)
        via = {"from": before, "type": type, **({"direction": "in"} if backward else {})}
        nodes.append({**known[uri], "cost": cost, "via": via})
        source, target = (uri, before) if backward else (before, uri)
        edges.append({"source": source, "target": target, "type": type, "weight": weight})
        before = uri
    conflicts = {one["uri"]: one for walk in (ahead, back) for one in walk["conflicts"] if one["uri"] in known}
    return {"nodes": nodes, "edges": edges, "conflicts": list(conflicts.values())}
