"""A walk over several workspaces equals the walk over one joined graph, cut in the same place."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgd.graph.cross_workspace import Absence, Joined, OnHub, Patch, Place, Question, walk_across
from kgd.graph.edges import Card, Visited
from kgd.graph.live_graph import LiveGraph
from kgd.graph.traverse import traverse
from kgd.model.node import Relation
from kgd.model.uri import Uri, workspace_of
from kgd.sync.hubs import patch_from

IDS = ("home", "near", "far", "further", "outer")
HUBS = {"far": "one", "further": "one", "outer": "two"}


class Cloud:
    """Workspaces of random nodes: `near` is joined, `far` and `further` are on one hub, `outer` on another."""

    def __init__(self, seed: int, size: int, degree: int) -> None:
        chance = random.Random(seed)
        self.whole = LiveGraph()
        self.graphs = {id: LiveGraph(id) for id in IDS}
        self.calls = 0
        uris = [Uri(f"concept://{chance.choice(IDS)}/{n:03}") for n in range(size)] + [Uri("concept://home/start")]
        for uri in uris:
            links = [
                Relation(chance.choice("ab"), target, chance.choice((0, 0.1, 0.2, 0.3, 0.5, 1)))
                for target in chance.sample(uris, min(len(uris), chance.randrange(degree + 1)))
            ]
            card = Card(uri, chance.choice(("concept", "gotcha")), uri, "", b"b" * 20, "")
            self.whole.put(card, links)
            self.graphs[workspace_of(uri) or ""].put(card, links)

    def place(self, workspace: str) -> Place:
        if workspace in HUBS:
            hub = HUBS[workspace]
            return OnHub(hub, frozenset(id for id in HUBS if HUBS[id] == hub))
        return [Joined(workspace, self.graphs[workspace])]

    def holders(self, uri: Uri) -> Collection[str]:
        return []

    def pointing(self) -> Collection[str]:
        return []

    def ask(self, questions: Mapping[str, Question]) -> Mapping[str, Patch | Absence]:
        return {hub: self._answer(hub, question) for hub, question in questions.items()}

    def _answer(self, hub: str, question: Question) -> Patch:
        """Answer as the tool of a hub, which knows only its own workspaces."""
        self.calls += 1
        found = traverse(
            [Joined(id, self.graphs[id]) for id in sorted(HUBS) if HUBS[id] == hub],
            list(question.starts),
            max_cost=question.max_cost,
            max_depth=question.max_depth,
            edge_types=question.edge_types,
            max_nodes=question.max_nodes,
        )
        answer: dict[str, Any] = {
            "nodes": [
                {"uri": n.uri, "type": n.card.type, "name": n.card.name, "cost": n.cost, **self._way(n)}
                for n in found.nodes
            ],
            "edges": [
                {"source": e.source, "target": e.target, "type": e.type, "weight": e.weight} for e in found.edges
            ],
            "broken_links": [
                {
                    "source": b.source,
                    "target": b.target,
                    "type": b.type,
                    "weight": b.weight,
                    "reason": "unknown_workspace",
                }
                for b in found.broken
            ],
            "cut": [{"limit": c.limit} for c in found.cut],
            "missing": found.missing,
        }
        return patch_from([answer], question, more=False)

    @staticmethod
    def _way(node: Visited) -> dict[str, Any]:
        """The steps from the start to a node, as a hub gives them without the nodes between."""
        steps = [{"from": step.uri} for step in node.path]
        return {"via": {**steps[-1], "through": steps[:-1]}} if steps else {}


@pytest.mark.slow
@given(
    seed=st.integers(0, 10_000),
    size=st.integers(1, 60),
    degree=st.integers(1, 4),
    max_cost=st.sampled_from((0.3, 0.6, 1.0, 2.0, None)),
    max_depth=st.sampled_from((None, None, 1, 2, 4)),
    max_nodes=st.sampled_from((3, 8, 20, 500)),
    edge_types=st.sampled_from(((), ("a",))),
)
@pytest.mark.requirement("E11")
def test_a_walk_across_has_the_order_of_one_graph(
    seed: int,
    size: int,
    degree: int,
    max_cost: float | None,
    max_depth: int | None,
    max_nodes: int,
    edge_types: tuple[str, ...],
) -> None:
    cloud, start = Cloud(seed, size, degree), Uri("concept://home/start")
    limits: dict[str, Any] = {
        "max_cost": max_cost,
        "max_depth": max_depth,
        "max_nodes": max_nodes,
        "edge_types": edge_types,
    }
    wanted = traverse([cloud.whole], start, **limits)
    found = walk_across("home", [cloud.graphs["home"]], [start], cloud, **limits)
    if found.cut and max_depth is not None:
        return  # limits on cost and hops together may need more rounds than allowed; the answer says so
    assert not found.cut
    assert [(n.uri, n.cost, n.hops) for n in found.walk.nodes] == [(n.uri, n.cost, n.hops) for n in wanted.nodes]
    assert [n.path for n in found.walk.nodes] == [n.path for n in wanted.nodes]
    # A hub omits relations above its remaining budget, even if it returns both ends.
    left_out = set(wanted.edges) - set(found.walk.edges)
    assert not set(found.walk.edges) - set(wanted.edges)
    assert all(workspace_of(edge.source) in HUBS for edge in left_out)
    if len(wanted.nodes) == 1:
        assert cloud.calls <= 2


def test_a_step_into_a_hub_is_one_call() -> None:
    cloud = Cloud(0, 0, 0)
    home, far = cloud.graphs["home"], cloud.graphs["far"]
    home.put(
        Card(Uri("concept://home/start"), "concept", "", "", b"b" * 20, ""),
        [Relation("a", Uri(f"concept://far/{n}"), n / 20) for n in range(20)],
    )
    for n in range(40):
        far.put(
            Card(Uri(f"concept://far/{n}"), "concept", "", "", b"b" * 20, ""),
            [Relation("a", Uri(f"concept://far/{(n + 1) % 40}"), 0.01)],
        )
    found = walk_across("home", [home], [Uri("concept://home/start")], cloud)
    assert len(found.walk.nodes) == 41
    assert cloud.calls == 1


def test_another_workspace_cannot_claim_a_name_of_this_workspace() -> None:
    """Neither by a node stored under the name nor by an alias of one of its nodes."""
    cloud = Cloud(0, 0, 0)
    home, near = cloud.graphs["home"], cloud.graphs["near"]
    stolen, forged = Uri("concept://home/stolen"), Uri("concept://home/forged")
    home.put(
        Card(Uri("concept://home/start"), "concept", "", "", b"b" * 20, ""),
        [Relation("a", uri, 0.1) for uri in (stolen, forged, Uri("concept://near/n"))],
    )
    near.put(Card(Uri("concept://near/n"), "concept", "", "", b"b" * 20, ""), aliases=[stolen])
    near.put(Card(forged, "concept", "", "", b"b" * 20, ""), [Relation("a", Uri("concept://near/n"), 0)])
    found = walk_across("home", [home], [Uri("concept://home/start")], cloud)
    assert [node.uri for node in found.walk.nodes] == ["concept://home/start", "concept://near/n"]
    assert [(link.target, why.reason) for link, why in found.broken()] == [(forged, "missing"), (stolen, "missing")]


def test_locks_are_acquired_in_one_order_from_any_start() -> None:
    cloud, taken = Cloud(0, 0, 0), list[str]()

    class Recorded:
        def __init__(self, id: str) -> None:
            self.id = id

        def __enter__(self) -> None:
            taken.append(self.id)

        def __exit__(self, *_: object) -> None: ...

    for id, graph in cloud.graphs.items():
        graph.lock = Recorded(id)  # type: ignore[assignment]
    for order in (IDS, IDS[::-1]):
        traverse([cloud.graphs[order[0]], *(Joined(id, cloud.graphs[id]) for id in order[1:])], [])
        assert taken == sorted(IDS)
        taken.clear()
