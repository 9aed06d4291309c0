"""Walks, compared with a reference that tries every number of hops, on random graphs."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex, overload

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgd.errors import Invalid
from kgd.graph.edges import BrokenLink, Card, Cut, Edge, Link, Step
from kgd.graph.live_graph import LiveGraph
from kgd.graph.traverse import Walk, traverse
from kgd.model.node import Relation
from kgd.model.uri import Uri


def uri(name: str | int) -> Uri:
    return Uri(f"concept://w/{name}")


def card(name: str | int, *, type: str = "concept", origin: str = "local", blob: bytes | None = b"b" * 20) -> Card:
    return Card(uri(name), type, str(name), "", blob, origin)


def graph_of(links: dict[str, list[tuple[str, str, float]]], *, origin: str = "local") -> LiveGraph:
    graph = LiveGraph()
    for source, relations in links.items():
        graph.put(card(source, origin=origin), [Relation(type, uri(target), w) for target, type, w in relations])
    return graph


def names(walk: Walk) -> list[str]:
    return [node.uri.rsplit("/", 1)[1] for node in walk.nodes]


# Against the reference


@dataclass(frozen=True)
class World:
    present: dict[int, str]
    """Nodes that exist, with their type."""
    links: dict[tuple[int, int, str], int]
    """(source, target, type) to weight in millionths; targets need not exist."""


WEIGHTS = st.sampled_from([0, 0, 100_000, 200_000, 250_000, 333_333, 500_000, 1_000_000])


@st.composite
def worlds(draw: st.DrawFn) -> World:
    size = draw(st.integers(2, 9))
    present = draw(st.dictionaries(st.integers(0, size - 1), st.sampled_from(["concept", "task"]), min_size=1))
    ends = st.tuples(st.sampled_from(sorted(present)), st.integers(0, size - 1), st.sampled_from(["a", "b"]))
    return World(present, draw(st.dictionaries(ends, WEIGHTS, max_size=24)))


Limits = dict[str, Any]
LIMITS = st.fixed_dictionaries(
    {
        "max_cost": st.sampled_from([None, 0.0, 0.3, 1.0, 2.5]),
        "max_depth": st.sampled_from([None, None, 0, 1, 2, 3]),
        "edge_types": st.sampled_from([None, ["a"], ["a", "b"]]),
        "types": st.sampled_from([None, ["task"]]),
        "direction": st.sampled_from(["out", "in", "both"]),
    }
)


def live(world: World, order: random.Random, nodes: set[int] | None = None, origin: str = "local") -> LiveGraph:
    graph = LiveGraph()
    numbers = sorted(world.present)
    order.shuffle(numbers)
    for number in numbers:
        if nodes is None or number in nodes:
            own = [Relation(t, uri(b), w / 1e6) for (a, b, t), w in world.links.items() if a == number]
            order.shuffle(own)
            graph.put(card(number, type=world.present[number], origin=origin), own)
    return graph


def reference(world: World, start: int, limits: Limits) -> list[tuple[float, int, Uri]]:
    """Cost and hops of every node within the limits: the cheapest way of at most n hops, for n = 0, 1, 2, ..."""
    steps = []
    for (source, target, type), weight in world.links.items():
        if limits["edge_types"] is None or type in limits["edge_types"]:
            if limits["direction"] != "in":
                steps.append((source, target, weight))
            if limits["direction"] != "out":
                steps.append((target, source, weight))
    best = {start: (0, 0)}
    most = len(world.present) if limits["max_depth"] is None else limits["max_depth"]
    now = {start: 0}
    for hops in range(1, most + 1):
        now = {
            target: min(now[s] + w for s, t, w in steps if s in now and t == target)
            for _, target, _ in steps
            if target in world.present and any(s in now for s, t, _ in steps if t == target)
        }
        for node, cost in now.items():
            if node not in best or cost < best[node][0]:
                best[node] = (cost, hops)
    return sorted(
        (cost / 1e6, hops, uri(node))
        for node, (cost, hops) in best.items()
        if (limits["max_cost"] is None or cost <= round(limits["max_cost"] * 1e6))
        and (limits["types"] is None or node == start or world.present[node] in limits["types"])
    )


def check_paths(world: World, walk: Walk, start: int, limits: Limits) -> None:
    for node in walk.nodes:
        ends = [*(step.uri for step in node.path[1:]), node.uri][: len(node.path)]
        assert len(node.path) == node.hops
        assert (node.path[0].uri if node.path else node.uri) == uri(start)
        cost = 0
        for step, end in zip(node.path, ends, strict=True):
            source, target = (step.uri, end) if step.direction == "out" else (end, step.uri)
            assert limits["direction"] in (step.direction, "both")
            cost += world.links[int(source.rsplit("/", 1)[1]), int(target.rsplit("/", 1)[1]), step.type]
            assert limits["edge_types"] is None or step.type in limits["edge_types"]
        assert cost / 1e6 == node.cost


@pytest.mark.slow
@pytest.mark.requirement("E4")
@pytest.mark.requirement("E5")
@settings(max_examples=4 * settings().max_examples, deadline=None)
@given(worlds(), LIMITS, st.integers(0, 2**32))
def test_a_walk_finds_what_trying_every_path_finds(world: World, limits: Limits, seed: int) -> None:
    start = min(world.present)
    walk = traverse([live(world, random.Random(seed))], uri(start), max_nodes=None, **limits)
    assert [(n.cost, n.hops, n.uri) for n in walk.nodes] == reference(world, start, limits)
    check_paths(world, walk, start, limits)


@pytest.mark.slow
@pytest.mark.requirement("N5")
@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(worlds(), LIMITS, st.integers(0, 2**32))
def test_the_path_to_a_node_is_its_path_in_the_whole_walk(world: World, limits: Limits, seed: int) -> None:
    start, limits = uri(min(world.present)), {**limits, "types": None}
    graph = live(world, random.Random(seed))
    whole = {node.uri: node for node in traverse([graph], start, max_nodes=None, **limits).nodes}
    for number in world.present:
        to = uri(number)
        walk = traverse([graph], start, to=to, max_nodes=1, **limits)
        if to in whole:
            assert (walk.nodes[-1], walk.unreached) == (whole[to], None)
            assert [node.uri for node in walk.nodes] == [*(step.uri for step in whole[to].path), to]
            assert [node.path for node in walk.nodes] == [whole[to].path[:hops] for hops in range(len(walk.nodes))]
            assert walk.cut == []
        else:
            assert (walk.nodes, walk.unreached) == ([whole[start]], to)


@pytest.mark.requirement("B7")
@settings(max_examples=settings().max_examples, deadline=None)
@given(worlds())
def test_costs_equal_the_costs_of_networkx_on_the_same_graph(world: World) -> None:
    graph, start = live(world, random.Random(0)), min(world.present)
    costs = nx.single_source_dijkstra_path_length(graph.graph, uri(start), cutoff=1.0000001)
    walk = traverse([graph], uri(start), max_nodes=None)
    assert {n.uri: n.cost for n in walk.nodes} == {
        node: pytest.approx(cost, abs=1e-6) for node, cost in costs.items() if node in graph
    }


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(worlds(), LIMITS, st.integers(0, 2**32), st.integers(1, 4))
def test_the_order_of_writing_does_not_show_and_a_cap_takes_the_first(
    world: World, limits: Limits, seed: int, cap: int
) -> None:
    start = uri(min(world.present))
    one = traverse([live(world, random.Random(seed))], start, max_nodes=cap, **limits)
    two = traverse([live(world, random.Random(seed + 1))], start, max_nodes=cap, **limits)
    assert (one.nodes, one.edges, one.cut, [*one.broken]) == (two.nodes, two.edges, two.cut, [*two.broken])
    whole = traverse([live(world, random.Random(seed))], start, max_nodes=None, **limits)
    assert one.nodes == whole.nodes[:cap]
    assert ("max_nodes" in {cut.limit for cut in one.cut}) == (len(whole.nodes) > cap)


@pytest.mark.slow
@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(worlds(), LIMITS, st.data())
def test_several_sources_are_walked_as_one_graph(world: World, limits: Limits, data: st.DataObject) -> None:
    ours = data.draw(st.sets(st.sampled_from(sorted(world.present))))
    theirs = set(world.present) - ours | data.draw(st.sets(st.sampled_from(sorted(world.present))))
    chance = random.Random(1)
    sources = [live(world, chance, ours, "stored"), live(world, chance, theirs, "overlay")]
    start = min(world.present)
    walk = traverse(sources, uri(start), max_nodes=None, **limits)
    assert [(n.cost, n.hops, n.uri) for n in walk.nodes] == reference(world, start, limits)
    for node in walk.nodes:
        number = int(node.uri.rsplit("/", 1)[1])
        expected = [name for name, held in (("stored", ours), ("overlay", theirs)) if number in held]
        assert list(node.origins) == expected
        assert node.card.origin == expected[0]


@pytest.mark.slow
@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(worlds(), LIMITS)
def test_edges_are_exactly_those_among_the_answered_nodes(world: World, limits: Limits) -> None:
    walk = traverse([live(world, random.Random(0))], uri(min(world.present)), max_nodes=3, **limits)
    listed = {node.uri for node in walk.nodes}
    assert {(e.source, e.target, e.type, e.weight) for e in walk.edges} == {
        (uri(a), uri(b), type, weight / 1e6)
        for (a, b, type), weight in world.links.items()
        if uri(a) in listed and uri(b) in listed and (limits["edge_types"] is None or type in limits["edge_types"])
    }


# By example


@pytest.mark.requirement("E4")
def test_weight_zero_is_always_together_and_a_step_of_one_is_the_end() -> None:
    graph = graph_of(
        {
            "a": [("b", "t", 0), ("c", "t", 1)],
            "b": [("d", "t", 0)],
            "c": [("e", "t", 0), ("f", "t", 0.01)],
            "d": [],
            "e": [],
            "f": [],
        }
    )
    assert names(traverse([graph], uri("a"))) == ["a", "b", "d", "c", "e"]
    assert names(traverse([graph], uri("a"), max_cost=0)) == ["a", "b", "d"]


@pytest.mark.requirement("E5")
def test_ten_steps_of_a_tenth_cost_one() -> None:
    chain = {f"n{i:02d}": [(f"n{i + 1:02d}", "t", 0.1)] for i in range(12)}
    walk = traverse([graph_of(chain)], uri("n00"))
    assert names(walk) == [f"n{i:02d}" for i in range(11)]
    assert [node.cost for node in walk.nodes][-1] == 1.0
    assert walk.cut == [Cut("max_cost", uri("n10"), 1)]


@pytest.mark.requirement("E5")
def test_equal_costs_are_ordered_by_hops_then_by_uri() -> None:
    graph = graph_of(
        {"a": [("z", "t", 0.3), ("m", "t", 0.1), ("b", "t", 0.3)], "m": [("n", "t", 0.2)], "n": [], "b": [], "z": []}
    )
    assert names(traverse([graph], uri("a"))) == ["a", "m", "b", "z", "n"]


@pytest.mark.requirement("E5")
def test_each_node_has_its_path() -> None:
    graph = graph_of({"a": [("b", "uses", 0.25)], "b": [], "c": [("b", "tests", 0.5)]})
    walk = traverse([graph], uri("a"), direction="both")
    assert walk.nodes[2].path == (Step(uri("a"), "uses", "out"), Step(uri("b"), "tests", "in"))
    assert (walk.nodes[2].cost, walk.nodes[2].hops) == (0.75, 2)
    assert walk.edges == [Link(uri("a"), uri("b"), "uses", 0.25), Link(uri("c"), uri("b"), "tests", 0.5)]


@pytest.mark.requirement("E5")
def test_a_cut_names_its_limit_and_place() -> None:
    graph = graph_of(
        {"a": [(f"n{i}", "t", 0.5) for i in range(5)], **{f"n{i}": [("deep", "t", 0.1)] for i in range(5)}, "deep": []}
    )
    capped = traverse([graph], uri("a"), max_nodes=3)
    assert [(cut.limit, cut.at) for cut in capped.cut] == [("max_nodes", uri("n2"))]
    assert capped.cut[0].count >= 1
    assert traverse([graph], uri("a"), max_depth=1).cut == [Cut("max_depth", uri("n0"), 5)]
    assert traverse([graph], uri("a"), max_cost=0.4).cut == [Cut("max_cost", uri("a"), 5)]
    assert traverse([graph], uri("a")).cut == []


def test_a_dearer_way_with_fewer_hops_counts_when_depth_is_limited() -> None:
    graph = graph_of(
        {
            "a": [("b", "t", 0.1), ("d", "t", 0.9)],
            "b": [("c", "t", 0.1)],
            "c": [("d", "t", 0.1)],
            "d": [("e", "t", 0.05)],
            "e": [],
        }
    )
    walk = traverse([graph], uri("a"), max_depth=2)
    assert [(n.uri[-1], n.cost, n.hops) for n in walk.nodes] == [
        ("a", 0, 0),
        ("b", 0.1, 1),
        ("c", 0.2, 2),
        ("d", 0.9, 1),
        ("e", 0.95, 2),
    ]


def test_hidden_types_are_walked_through_and_starts_are_always_listed() -> None:
    graph = graph_of({"a": [("b", "t", 0.1)], "b": [("c", "t", 0.1)]})
    graph.put(card("c", type="decision"))
    assert names(traverse([graph], uri("a"), types=["decision"], max_nodes=2)) == ["a", "c"]


def test_a_walk_through_hidden_nodes_ends_and_reports_it() -> None:
    graph = graph_of({f"n{i:05d}": [(f"n{i + 1:05d}", "t", 0)] for i in range(1500)})
    walk = traverse([graph], uri("n00000"), types=["decision"], max_nodes=5)
    assert [cut.limit for cut in walk.cut] == ["passed_nodes"]


@pytest.mark.requirement("E18")
def test_a_deleted_node_is_a_broken_link_and_the_walk_continues() -> None:
    graph = graph_of({"a": [("b", "t", 0.1), ("c", "t", 0.2)], "b": [("d", "t", 0)], "c": [], "d": []})
    graph.remove(uri("b"))
    walk = traverse([graph], uri("a"), direction="both")
    assert names(walk) == ["a", "c"]
    assert list(walk.broken) == [BrokenLink(uri("a"), "t", uri("b"), 0.1)]


def test_a_start_that_is_not_there_is_named_and_the_others_are_walked() -> None:
    walk = traverse([graph_of({"a": [], "b": []})], [uri("gone"), uri("b"), uri("a"), uri("b")])
    assert (names(walk), walk.missing) == (["a", "b"], [uri("gone")])


def test_the_end_of_a_path_may_be_missing() -> None:
    walk = traverse([graph_of({"a": [("uses", "b", 0.5)], "b": []})], uri("a"), to=uri("nowhere"))
    assert (walk.missing, walk.unreached, names(walk)) == ([uri("nowhere")], None, ["a"])


def test_a_moved_node_is_found_under_its_old_name_also_by_another_workspace() -> None:
    ours = graph_of({"a": [("old", "t", 0.1)]})
    theirs = LiveGraph()
    theirs.put(card("new", origin="theirs"), [], [uri("old")])
    walk = traverse([ours, theirs], uri("a"))
    assert [(n.uri, n.origins) for n in walk.nodes] == [(uri("a"), ("local",)), (uri("new"), ("theirs",))]
    assert walk.nodes[1].path == (Step(uri("a"), "t", "out"),)
    assert not walk.broken
    assert names(traverse([ours, theirs], uri("old"))) == ["new"]


def test_a_stored_card_wins_over_the_overlay_and_both_are_named() -> None:
    stored, overlay = LiveGraph(), LiveGraph()
    stored.put(card("f", origin="local"))
    overlay.put(card("f", origin="overlay", blob=None), [Relation("imports", uri("g"))])
    overlay.put(card("g", origin="overlay", blob=None))
    walk = traverse([stored, overlay], uri("f"))
    assert [(n.card.blob is None, n.origins) for n in walk.nodes] == [
        (False, ("local", "overlay")),
        (True, ("overlay",)),
    ]


@pytest.mark.parametrize("limits", [{"max_cost": -1}, {"max_cost": float("nan")}, {"max_depth": -1}, {"max_nodes": 0}])
def test_limits_that_mean_nothing_are_refused(limits: Limits) -> None:
    with pytest.raises(Invalid):
        traverse([graph_of({"a": []})], uri("a"), **limits)


def test_a_capped_walk_looks_at_no_more_edges_of_a_larger_hub() -> None:
    def looked_at(size: int) -> int:
        source = Watched(graph_of({**{f"n{i:05d}": [("hub", "t", 0.5)] for i in range(size)}, "hub": []}))
        walk = traverse([source], uri("hub"), direction="both", max_nodes=20)
        assert (len(walk.nodes), [cut.limit for cut in walk.cut]) == (20, ["max_nodes"])
        return source.edges.looked_at

    assert looked_at(4000) == looked_at(400) < 60


class Counting(list[Edge]):
    """Edges that count how often one is looked at."""

    looked_at = 0

    @overload
    def __getitem__(self, at: SupportsIndex) -> Edge: ...
    @overload
    def __getitem__(self, at: slice) -> list[Edge]: ...
    def __getitem__(self, at: Any) -> Any:
        self.looked_at += 1 if isinstance(at, int) else len(range(*at.indices(len(self))))
        return super().__getitem__(at)


class Watched:
    """A graph whose hub counts."""

    def __init__(self, graph: LiveGraph) -> None:
        self.out, self.card, self.resolve, self._graph = graph.out, graph.card, graph.resolve, graph
        self.edges = Counting(graph.into(uri("hub")))

    def into(self, node: Uri) -> Sequence[Edge]:
        return self.edges if node == uri("hub") else self._graph.into(node)


def test_walks_beside_writes_see_whole_nodes() -> None:
    graph = graph_of({"a": [("b", "t", 0)], "b": []})
    stop = threading.Event()
    failures: list[BaseException] = []

    def write() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            with graph.lock:  # one step: the walk must never see a node that points to a missing node
                graph.remove(uri(f"n{number - 1}"))
                graph.put(card(f"n{number}"))
                graph.put(card("a"), [Relation("t", uri(f"n{number}"), 0)])

    def read() -> None:
        try:
            for _ in range(300):
                walk = traverse([graph], uri("a"), direction="both")
                assert len(walk.nodes) == 2 or names(walk) == ["a", "b"]
                assert not walk.broken
        except BaseException as error:  # noqa: BLE001  a thread's failure is the test's
            failures.append(error)

    writer = threading.Thread(target=write)
    readers = [threading.Thread(target=read) for _ in range(3)]
    writer.start()
    for thread in readers:
        thread.start()
    for thread in readers:
        thread.join()
    stop.set()
    writer.join()
    assert not failures
