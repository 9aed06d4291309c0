"""The walk through the graph, measured against networkx, and against rustworkx if installed.

Every start is answered by every variant in turn, so that all run under the same load of the machine; figures are CPU
time of one thread. `python -m bench.traverse [nodes]` prints one JSON object a row.
"""

from __future__ import annotations

import gc
import hashlib
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import networkx as nx
import orjson

from kgd.graph.edges import Card
from kgd.graph.live_graph import LiveGraph
from kgd.graph.traverse import traverse
from kgd.model.node import Relation
from kgd.model.uri import Uri

CAP = 100
QUERIES = 100
SLOW_QUERIES = 20
"""For variants that take tens of milliseconds a walk."""
COSTS, PATHS = "rustworkx, costs only", "rustworkx with paths"
TARGETS = {COSTS: 1.0, PATHS: 0.8}
TYPES = ("depends_on", "is_a", "related_to", "implemented_in", "tested_by", "replaces")
WEIGHTS = (0.0, 0.25, 0.25, 0.5, 0.5, 0.5, 0.5, 1.0, 1.0, 1.0)

Links = list[tuple[int, int, str, float]]


def code_links(nodes: int, degree: int = 4) -> Links:
    """Shaped like code: most relations stay in a folder of 25, some in an area of 500, a few lead to 1 % hubs."""
    chance = random.Random(1)
    links = {}
    for source in range(nodes):
        for _ in range(degree):
            where = chance.random()
            if where < 0.8:
                target = source // 25 * 25 + chance.randrange(25)
            elif where < 0.95:
                target = source // 500 * 500 + chance.randrange(500)
            else:
                target = chance.randrange(max(1, nodes // 100)) * 100
            target %= nodes
            type = chance.choice(TYPES)
            links[source, target if target != source else (source + 1) % nodes, type] = chance.choice(WEIGHTS)
    return [(source, target, type, weight) for (source, target, type), weight in links.items()]


def uri_of(number: int) -> Uri:
    return Uri(f"concept://bench/area{number // 25 % 40:02d}/node-{number:07d}")


def live_graph(nodes: int, links: Links) -> LiveGraph:
    graph = LiveGraph()
    relations: list[list[Relation]] = [[] for _ in range(nodes)]
    for source, target, type, weight in links:
        relations[source].append(Relation(type, uri_of(target), weight))
    for number, own in enumerate(relations):
        blob = hashlib.sha1(str(number).encode()).digest()
        summary = f"What node {number} is for, in about as many words as a summary has"
        graph.put(Card(uri_of(number), "concept", f"Node {number}", summary, blob, "local"), own)
    return stored(graph)


def stored(graph: LiveGraph) -> LiveGraph:
    """The graph as a daemon has it: in arrays."""
    copy = LiveGraph()
    copy.load(graph.freeze().arrays())
    return copy


def rows(nodes: int = 100_000) -> list[dict[str, Any]]:
    links = code_links(nodes)
    graph = live_graph(nodes, links)
    starts = _starts(nodes, links)
    gc.collect()
    gc.freeze()
    try:
        return [*_outgoing(graph, nodes, links, starts), *_both_ways(graph, links, starts), _cold(graph, starts)]
    finally:
        gc.unfreeze()


def _starts(nodes: int, links: Links) -> list[int]:
    chance = random.Random(3)
    degree: dict[int, int] = {}
    for _, target, _, _ in links:
        degree[target] = degree.get(target, 0) + 1
    hubs = sorted(degree, key=lambda n: degree[n])[-max(5, nodes // 1000) :]
    return [chance.choice(hubs) if i % 10 == 0 else chance.randrange(nodes) for i in range(QUERIES)]


def _outgoing(graph: LiveGraph, nodes: int, links: Links, starts: Sequence[int]) -> list[dict[str, Any]]:
    plain: nx.MultiDiGraph[Uri] = nx.MultiDiGraph(graph.graph)
    variants: dict[str, Callable[[int], Any]] = {
        "kgd": lambda s: traverse([graph], uri_of(s), max_nodes=CAP),
        "networkx": lambda s: nx.single_source_dijkstra(plain, uri_of(s), cutoff=1),
    }
    searches = _rustworkx(nodes, links)
    taken = _interleaved(variants | searches, starts)
    what = f"traverse out, cost 1, cap {CAP}"
    rows = [_compare(what, taken, "kgd", "networkx", None, nodes)]
    rows += [_compare(what, taken, "kgd", peer, TARGETS[peer], nodes) for peer in searches]
    if not searches:
        return [*rows, {"what": what, "peer": "rustworkx dijkstra_search", "not_measured": "rustworkx is missing"}]
    return rows


def _both_ways(graph: LiveGraph, links: Links, starts: Sequence[int]) -> list[dict[str, Any]]:
    mirrored: nx.MultiDiGraph[Uri] = nx.MultiDiGraph()
    for source, target, type, weight in links:
        mirrored.add_edge(uri_of(source), uri_of(target), key=type, weight=weight)
        mirrored.add_edge(uri_of(target), uri_of(source), key=f"^{type}", weight=weight)
    taken = _interleaved(
        {
            "kgd": lambda s: traverse([graph], uri_of(s), direction="both", max_nodes=CAP),
            "networkx": lambda s: nx.single_source_dijkstra(mirrored, uri_of(s), cutoff=1),
        },
        starts[:: max(1, len(starts) // SLOW_QUERIES)],
    )
    what = f"traverse both ways, cost 1, cap {CAP}"
    middle = _compare(what, taken, "kgd", "networkx", 1 / 20, len(graph))
    tail = _compare(what, taken, "kgd", "networkx", 1 / 50, len(graph), percentile=0.99)
    return [middle, tail]


def _cold(graph: LiveGraph, starts: Sequence[int]) -> dict[str, Any]:
    """The first walk after a start, before any neighbours are sorted."""
    fresh = stored(graph)
    cold = _interleaved({"cold": lambda s: traverse([fresh], uri_of(s), max_nodes=CAP)}, starts, warm=False)
    return {"what": "traverse out, first walk from each start", "nodes": len(graph), "us": _us(cold["cold"], 0.5)}


def _rustworkx(nodes: int, links: Links) -> dict[str, Callable[[int], Any]]:
    """Searches that stop at the budget or the cap: one for costs alone, one also for each node's path."""
    try:
        import rustworkx
        from rustworkx.visit import DijkstraVisitor, StopSearch
    except ImportError:
        return {}
    graph = rustworkx.PyDiGraph()
    graph.add_nodes_from([uri_of(n) for n in range(nodes)])
    graph.add_edges_from([(source, target, (weight, type)) for source, target, type, weight in links])

    class Costs(DijkstraVisitor):  # type: ignore[misc]
        def __init__(self) -> None:
            self.cost: dict[int, float] = {}
            self.via: dict[int, Any] = {}

        def discover_vertex(self, node: int, cost: float) -> None:
            if cost > 1 or len(self.cost) == CAP:
                raise StopSearch
            self.cost[node] = cost

    class Paths(Costs):
        def edge_relaxed(self, edge: Any) -> None:
            self.via[edge[1]] = edge

    def search(start: int, visitor: Costs) -> Costs:
        rustworkx.dijkstra_search(graph, [start], lambda edge: edge[0], visitor)
        return visitor

    def told(start: int) -> list[Any]:
        visitor = search(start, Paths())
        answer = []
        for node, cost in visitor.cost.items():
            path, at = [], node
            while at != start:
                source, _, (_, type) = visitor.via[at]
                path.append((graph[source], type))
                at = source
            answer.append((graph[node], cost, path[::-1]))
        return answer

    return {COSTS: lambda start: search(start, Costs()), PATHS: told}


def _interleaved(
    variants: dict[str, Callable[[int], Any]], starts: Sequence[int], *, warm: bool = True
) -> dict[str, list[int]]:
    taken: dict[str, list[int]] = {name: [] for name in variants}
    for start in starts:
        for name, walk in variants.items():
            if warm:
                walk(start)
            begun = time.thread_time_ns()
            walk(start)
            taken[name].append(time.thread_time_ns() - begun)
    return taken


def _compare(
    what: str,
    taken: dict[str, list[int]],
    ours: str,
    peer: str,
    target: float | None,
    nodes: int,
    percentile: float = 0.5,
) -> dict[str, Any]:
    mine, theirs = _us(taken[ours], percentile), _us(taken[peer], percentile)
    return {
        "what": what,
        "nodes": nodes,
        "percentile": percentile,
        "peer": peer,
        "us": mine,
        "peer_us": theirs,
        "ratio": round(mine / theirs, 4),
        "target": target,
    }


def _us(nanoseconds: list[int], percentile: float) -> float:
    ordered = sorted(nanoseconds)
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * percentile))] / 1e3, 1)


if __name__ == "__main__":
    for row in rows(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000):
        print(orjson.dumps(row).decode())
