"""Further paths between two nodes, beside the cheapest one.

An alternative is a cheapest path from the first node, one relation, and a cheapest path to the last node. The best
alternative is the second cheapest path. Costs two walks of at most `MOST_NODES` nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

MOST = 2
"""Largest number of alternatives."""
MOST_NODES = 300
EXTRA_COST = 1.0
"""Largest difference between the cost of a path and the lowest cost."""
Direction = Literal["out", "in", "both"]
OPPOSITE: Mapping[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}

Answer = Mapping[str, Any]
"""An answer of `traverse` with its relations, or a path in this form."""
Step = tuple[str, str, bool, float]
"""A relation: the node that it leads to, its type, whether it is followed backward, and its cost."""
Walk = Callable[[str, float, Direction], Answer]
"""Returns the nodes around a node, up to a cost, in a direction."""


def alternatives(best: Answer, direction: Direction, most: float | None, hops: int | None, walk: Walk) -> list[Answer]:
    """Return up to `MOST` paths between the ends of the cheapest path, the cheapest first.

    Args:
        best: The cheapest path.
        most: Largest cost of a path; `EXTRA_COST` above the cheapest one at most.
        hops: Largest number of relations on a path.
    """
    first, last = best["nodes"][0]["uri"], best["nodes"][-1]
    dearest = min(last["cost"] + EXTRA_COST, float("inf") if most is None else most)
    ahead = walk(first, dearest, direction)
    back = walk(last["uri"], dearest, OPPOSITE[direction])
    found, seen = list[Answer](), {tuple(node["uri"] for node in best["nodes"])}
    for _, uris, steps in _candidates(ahead, back, direction, dearest):
        if len(found) == MOST:
            break
        if uris not in seen and (hops is None or len(steps) <= hops):
            seen.add(uris)
            found.append(_answer(ahead, back, first, steps))
    return found


def _candidates(
    ahead: Answer, back: Answer, direction: Direction, most: float
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


def _costs(walk: Answer) -> dict[str, float]:
    return {node["uri"]: node["cost"] for node in walk["nodes"]}


def _tree(walk: Answer, costs: Mapping[str, float]) -> dict[str, tuple[str, str, bool, float]]:
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


def _answer(ahead: Answer, back: Answer, first: str, steps: Sequence[Step]) -> Answer:
    known = {node["uri"]: node for walk in (back, ahead) for node in walk["nodes"]}
    nodes, edges, cost, before = [_at(known[first], 0.0)], [], 0.0, first
    for uri, type, backward, weight in steps:
        cost = round(cost + weight, 6)
        via = {"from": before, "type": type, **({"direction": "in"} if backward else {})}
        nodes.append({**_at(known[uri], cost), "via": via})
        source, target = (uri, before) if backward else (before, uri)
        edges.append({"source": source, "target": target, "type": type, "weight": weight})
        before = uri
    return {"cost": cost, "nodes": nodes, "edges": edges}


def _at(node: Mapping[str, Any], cost: float) -> dict[str, Any]:
    return {**{name: value for name, value in node.items() if name != "via"}, "cost": cost}
