"""The graph in memory after any sequence of writes, and after it was stored and read again."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kgd.errors import Damaged
from kgd.graph.arrays import Arrays, Row
from kgd.graph.edges import BrokenLink, Card, Edge
from kgd.graph.live_graph import LiveGraph
from kgd.graph.succession import Chains, predecessors, successor
from kgd.model.node import Relation
from kgd.model.uri import Uri
from tests.graph.folding import fold


def uri(name: str) -> Uri:
    return Uri(f"concept://w/{name}")


def card(name: str, summary: str = "") -> Card:
    return Card(uri(name), "concept", name, summary, name.encode().ljust(20, b"\0"), "local")


def put(graph: LiveGraph, name: str, *relations: tuple[str, str, float], aliases: tuple[str, ...] = ()) -> None:
    graph.put(card(name), [Relation(t, uri(x), w) for t, x, w in relations], [uri(a) for a in aliases])


def state(graph: LiveGraph, names: str = "abcdef") -> object:
    """Everything that can be asked."""
    uris = [uri(name) for name in names]
    return (
        len(graph),
        sorted(graph.uris()),
        graph.broken_links(),
        [
            (u, u in graph, graph.card(u), list(graph.out(u)), list(graph.into(u)), graph.resolve(u), graph.aliases(u))
            for u in uris
        ],
        sorted((a, b, type, data["weight"]) for a, b, type, data in graph.graph.edges(keys=True, data=True)),
        sorted(graph.graph.nodes),
    )


Put = tuple[str, dict[tuple[str, str], float], set[str]]
Write = Put | str
"""A node with its links and aliases, or the name of a removed one."""

NAMES = st.sampled_from("abcdef")
LINKS = st.dictionaries(st.tuples(st.sampled_from("st"), NAMES), st.sampled_from([0.0, 0.5, 1.0]), max_size=4)
PUTS = st.tuples(NAMES, LINKS, st.sets(NAMES, max_size=2))
WRITES = st.lists(st.one_of(PUTS, NAMES), max_size=14)


def apply(graph: LiveGraph, write: Write) -> None:
    if isinstance(write, str):
        graph.remove(uri(write))
    else:
        name, links, aliases = write
        put(graph, name, *((type, target, w) for (type, target), w in links.items()), aliases=tuple(aliases))


def last_state(writes: list[Write]) -> dict[str, Put]:
    found: dict[str, Put] = {}
    for write in writes:
        if isinstance(write, str):
            found.pop(write, None)
        else:
            found[write[0]] = write
    return found


@pytest.mark.slow
@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(WRITES, st.booleans(), st.sets(st.integers(0, 13)))
def test_any_writes_lead_to_the_graph_that_their_outcome_alone_makes(
    writes: list[Write], ask_between: bool, folds: set[int]
) -> None:
    graph = LiveGraph()
    for number, write in enumerate(writes):
        apply(graph, write)
        if ask_between:  # answers' derived lists must not outlive the write that changes it
            state(graph)
        if number in folds:
            fold(graph)
    fresh = LiveGraph()
    for write in sorted(last_state(writes).values(), key=lambda write: write[0], reverse=True):
        apply(fresh, write)
    assert state(graph) == state(fresh)


@settings(max_examples=settings().max_examples, deadline=None)
@given(WRITES, WRITES)
def test_writes_beside_a_snapshot_are_kept(before: list[Write], beside: list[Write]) -> None:
    graph = LiveGraph()
    for write in before:
        apply(graph, write)
    frozen, then = graph.freeze(), graph.graph
    expected: Any = sorted(then.edges(keys=True, data="weight")), sorted(then)
    for write in beside:
        apply(graph, write)
    now = state(graph)
    assert graph.rest_on(frozen, frozen.arrays())
    assert state(graph) == now
    assert (sorted(then.edges(keys=True, data="weight")), sorted(then)) == expected
    fold(graph)
    assert state(graph) == now


def test_a_snapshot_of_a_graph_that_was_loaded_again_is_not_used() -> None:
    graph = LiveGraph()
    put(graph, "a")
    frozen = graph.freeze()
    arrays = frozen.arrays()
    graph.load(LiveGraph().freeze().arrays())
    assert not graph.rest_on(frozen, arrays)
    assert uri("a") not in graph


@settings(max_examples=settings().max_examples, deadline=None)
@given(WRITES)
def test_a_graph_read_from_its_arrays_is_the_same(writes: list[Write]) -> None:
    graph, copy = LiveGraph(), LiveGraph()
    for write in writes:
        apply(graph, write)
    copy.load(graph.freeze().arrays())
    assert state(copy) == state(graph)
    for write in ("a", ("b", {("s", "c"): 0.5}, {"d"})):
        apply(graph, write)
        apply(copy, write)
    assert state(copy) == state(graph)


@pytest.mark.requirement("U2")
@pytest.mark.requirement("U3")
def test_edges_are_read_in_both_directions_in_order_of_weight() -> None:
    graph = LiveGraph()
    put(graph, "a", ("uses", "c", 1), ("uses", "b", 0.25), ("is_a", "b", 0.25))
    put(graph, "d", ("uses", "b", 0))
    assert graph.out(uri("a")) == [
        Edge(0.25, uri("b"), "is_a"),
        Edge(0.25, uri("b"), "uses"),
        Edge(1.0, uri("c"), "uses"),
    ]
    assert graph.into(uri("b")) == [
        Edge(0.0, uri("d"), "uses"),
        Edge(0.25, uri("a"), "is_a"),
        Edge(0.25, uri("a"), "uses"),
    ]


@pytest.mark.requirement("E3")
def test_a_relation_keeps_its_data_and_is_unique_by_source_target_and_type() -> None:
    graph = LiveGraph()
    graph.put(card("a"), [Relation("t", uri("b"), 0.5, {"reason": "it calls it"}), Relation("u", uri("b"))])
    assert graph.relation_data(uri("a"), uri("b"), "t") == {"reason": "it calls it"}
    assert graph.relation_data(uri("a"), uri("b"), "u") == {}
    graph.put(card("a"), [Relation("t", uri("b"), 0.75)])
    assert graph.out(uri("a")) == [Edge(0.75, uri("b"), "t")]
    assert graph.relation_data(uri("a"), uri("b"), "t") == {}


def test_data_of_one_relation_never_shows_on_another() -> None:
    graph = LiveGraph()
    graph.put(card("a"), [Relation("t", uri("b"), 0.5)])
    graph.put(card("c"), [Relation("t", uri("b"), 0.5, {"reason": "x"})])
    assert graph.relation_data(uri("a"), uri("b"), "t") == {}


@pytest.mark.requirement("E18")
def test_deleting_a_node_removes_its_relations_and_breaks_incoming_links() -> None:
    graph = LiveGraph()
    put(graph, "a", ("t", "b", 1), ("s", "b", 1))
    put(graph, "b", ("t", "c", 1))
    put(graph, "c")
    assert graph.remove(uri("b"))
    assert not graph.remove(uri("b"))
    assert graph.broken_links() == [BrokenLink(uri("a"), "s", uri("b")), BrokenLink(uri("a"), "t", uri("b"))]
    assert graph.into(uri("c")) == []
    put(graph, "b")
    assert graph.broken_links() == []
    assert [edge.target for edge in graph.into(uri("b"))] == [uri("a"), uri("a")]


@pytest.mark.requirement("E9")
def test_broken_links_are_limited_and_leave_out_nodes_that_exist_elsewhere() -> None:
    graph = LiveGraph()
    put(graph, "a", *[("t", f"gone{n}", 1) for n in range(5)])
    assert [link.target for link in graph.broken_links(2)] == [uri("gone0"), uri("gone1")]
    assert len(graph.broken_links(known=lambda target: target == uri("gone0"))) == 4


def test_links_to_an_old_name_lead_to_the_node_until_another_node_has_the_name() -> None:
    graph = LiveGraph()
    put(graph, "a", ("t", "old", 0.5), ("t", "new", 1))
    put(graph, "new", aliases=("old",))
    assert graph.resolve(uri("old")) == uri("new")
    assert graph.out(uri("a")) == [Edge(0.5, uri("new"), "t")]
    assert graph.into(uri("new")) == graph.into(uri("old")) == [Edge(0.5, uri("a"), "t")]
    assert graph.broken_links() == []
    put(graph, "old")
    assert graph.resolve(uri("old")) == uri("old")
    assert graph.out(uri("a")) == [Edge(0.5, uri("old"), "t"), Edge(1.0, uri("new"), "t")]
    graph.remove(uri("old"))
    graph.remove(uri("new"))
    assert [link.target for link in graph.broken_links()] == [uri("new"), uri("old")]


@pytest.mark.requirement("U3")
def test_nodes_are_listed_by_scheme() -> None:
    graph = LiveGraph()
    for text in (
        "concept://w/s/auth",
        "file://w/s/auth/main.py",
        "concept://w/sx",
        "concept://w/top",
        "https://s/auth",
    ):
        graph.put(Card(Uri(text), "x", "", "", None, "local"))
    assert sorted(graph.uris(scheme="file")) == ["file://w/s/auth/main.py"]
    assert sorted(graph.uris(scheme="concept")) == ["concept://w/s/auth", "concept://w/sx", "concept://w/top"]
    assert len(list(graph.uris())) == 5


@pytest.mark.parametrize(
    ("stored", "asked", "twin"),
    [
        ("concept://w/auth", "concept://w/Auth", "concept://w/auth"),
        ("concept://w/Auth", "concept://w/auth", "concept://w/Auth"),
        ("concept://w/Auth", "concept://w/AUTH", "concept://w/Auth"),
        ("concept://w/Auth", "concept://w/Auth", None),
        ("entity://w/a%20b", "entity://w/A%20B", "entity://w/a%20b"),
        ("concept://w/\u00e9", "concept://w/e%CC%81", "concept://w/\u00e9"),
        ("concept://w/auth", "entity://w/Auth", None),
        ("dir://w/_", "dir://w/%5F", None),
        ("https://host/Auth", "https://host/auth", None),
    ],
)
def test_twins_are_names_that_some_file_systems_confuse(stored: str, asked: str, twin: str | None) -> None:
    before, after = LiveGraph(), LiveGraph()
    assert after.twin(Uri(asked)) is None
    for graph in (before, after):
        graph.put(Card(Uri(stored), "x", "", "", None, "local"))
        assert graph.twin(Uri(asked)) == twin
        graph.remove(Uri(stored))
        assert graph.twin(Uri(asked)) is None


def test_a_hub_stays_in_order_while_it_is_written() -> None:
    graph, chance = LiveGraph(), random.Random(1)
    for number in range(300):
        put(graph, f"n{number}", ("t", "hub", chance.choice([0.25, 0.5, 1])))
    seen = graph.into(uri("hub"))
    before = list(seen)
    for number in range(0, 300, 7):
        put(graph, f"n{number}", ("t", "hub", chance.choice([0.0, 0.5])), ("u", "hub", 1))
    for number in range(0, 300, 11):
        graph.remove(uri(f"n{number}"))
    fresh = LiveGraph()
    fresh.load(graph.freeze().arrays())
    assert graph.into(uri("hub")) == fresh.into(uri("hub"))
    assert list(seen) == before  # what a reader holds does not change under its hands


@pytest.mark.slow
def test_the_order_of_a_large_node_that_changed_is_kept_beside_small_ones() -> None:
    graph = LiveGraph()
    for number in range(25_000):
        put(graph, f"n{number}", ("t", "hub", 1), ("t", f"n{number + 1}", 1))
    before = graph.into(uri("hub"))
    for number in range(100):
        graph.into(uri(f"n{number}"))
    assert graph.into(uri("hub")) is before


def test_a_large_node_of_a_snapshot_follows_each_target_that_moves_later() -> None:
    graph = LiveGraph()
    put(graph, "hub", *(("t", f"n{number:03}", 1) for number in range(100)))
    put(graph, "elsewhere", aliases=("before",))
    fold(graph)
    first = list(graph.out(uri("hub")))
    put(graph, "moved", aliases=("n050",))
    expected = sorted(edge._replace(target=uri("moved")) if edge.target == uri("n050") else edge for edge in first)
    assert list(graph.out(uri("hub"))) == expected
    fold(graph)
    assert list(graph.out(uri("hub"))) == expected
    graph.remove(uri("moved"))
    assert list(graph.out(uri("hub"))) == first


def test_a_reader_never_meets_an_empty_graph_while_it_is_loaded_again() -> None:
    graph = LiveGraph()
    for number in range(300):
        put(graph, f"n{number}", aliases=(f"old{number}",))
    arrays, ended, seen = graph.freeze().arrays(), threading.Event(), set[bool]()

    def read() -> None:
        while not ended.is_set():
            seen.add(uri("n0") in graph)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for _ in range(50):
            graph.load(arrays)
    finally:
        ended.set()
        reader.join()
    assert seen == {True}


def test_a_snapshot_beside_writes_is_the_graph_at_one_moment() -> None:
    graph = LiveGraph()
    for number in range(3000):
        put(graph, f"n{number}", ("t", f"n{(number + 1) % 3000}", 1))
    stop, moments = threading.Event(), {}

    def write() -> None:
        chance, step = random.Random(2), 0
        while not stop.is_set():
            step += 1
            with graph.lock:  # two nodes that always say the same
                a, b = (card(f"n{n}", summary=f"step {step}") for n in (1, 2999))
                graph.put(a)
                graph.put(b)
                graph.remove(uri(f"n{chance.randrange(5, 2000)}"))
                moments["now"] = f"step {step}"

    writer = threading.Thread(target=write)
    writer.start()
    try:
        stamps = []
        for _ in range(3):
            with graph.lock:
                stamp, frozen = moments.get("now", ""), graph.freeze()
            stamps.append((stamp, frozen.arrays()))
            assert graph.rest_on(frozen, stamps[-1][1])
    finally:
        stop.set()
        writer.join()
    for stamp, arrays in stamps:
        copy = LiveGraph()
        copy.load(arrays)
        one, two = copy.card(uri("n1")), copy.card(uri("n2999"))
        assert one is not None
        assert two is not None
        assert one.summary == two.summary == stamp


@pytest.mark.parametrize("cut", [0, 4, 8, 200, -8])
def test_bytes_that_are_no_arrays_are_refused(cut: int) -> None:
    graph = LiveGraph()
    put(graph, "a", ("t", "b", 1))
    with pytest.raises(Damaged):
        Arrays(b"".join(graph.freeze().parts())[:cut])


@pytest.mark.parametrize("count", [3, 300])
@pytest.mark.parametrize("is_stored", [False, True])
def test_the_successor_of_a_node_is_found_among_many_relations(count: int, is_stored: bool) -> None:
    graph = LiveGraph()
    put(graph, "a", ("supersedes", "a", 1.0))
    for number in range(count):
        put(graph, f"n{number}", ("uses", "a", 0.1))
    if is_stored:
        graph.load(graph.freeze().arrays())
        assert isinstance(graph.into(uri("a")), Row) == (count > 64)
    assert successor(graph, uri("a")) is None
    put(graph, "new", ("Supersedes", "a", 1.0))
    if is_stored:
        graph.load(graph.freeze().arrays())
    assert successor(graph, uri("a")) == uri("new")
    put(graph, "newer", ("supersedes", "new", 1.0))
    assert Chains(graph).newest(uri("a")) == uri("newer")
    put(graph, "newer", ("supersedes", "new", 1.0), ("superseded_by", "a", 1.0))
    put(graph, "a", ("superseded_by", "newer", 1.0))
    assert Chains(graph).newest(uri("a")) is None, "no node of a circle is the last"


def test_a_long_chain_of_successors_leads_to_its_last_node_and_a_long_circle_to_none() -> None:
    graph = LiveGraph()
    for number in range(1_000):
        put(graph, f"n{number + 1}", ("supersedes", f"n{number}", 1.0))
    chains = Chains(graph)
    assert {chains.newest(uri(f"n{number}")) for number in range(1_000)} == {uri("n1000")}
    assert chains.newest(uri("n1000")) is None
    assert chains.current_first([uri("n1"), uri("n1000"), uri("other")]) == [uri("n1000"), uri("other"), uri("n1")]
    assert len(predecessors(graph, uri("n60"))) == 50
    put(graph, "n100", ("superseded_by", "n40", 1.0), ("supersedes", "n99", 1.0))
    chains = Chains(graph)
    assert [chains.newest(uri(f"n{number}")) for number in (99, 40, 100)] == [None] * 3
    assert [chains.newest(uri(f"n{number}")) for number in (0, 39)] == [uri("n40")] * 2
    assert predecessors(graph, uri("n41")) & {uri("n41")} == set()
