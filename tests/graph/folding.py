"""The step of a snapshot: changes of a graph become arrays."""

from __future__ import annotations

from kgd.graph.live_graph import LiveGraph


def fold(graph: LiveGraph) -> None:
    frozen = graph.freeze()
    assert graph.rest_on(frozen, frozen.arrays())
