"""The number of nodes of each type is counted on write and always equals a recount."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kgd.graph.edges import Card
from kgd.graph.live_graph import LiveGraph
from kgd.model.uri import Uri

STEPS = st.lists(st.tuples(st.integers(0, 6), st.sampled_from(["concept", "insight", "rule", None])), max_size=40)


@given(STEPS)
def test_counts_by_type_equal_a_recount(steps: list[tuple[int, str | None]]) -> None:
    graph = LiveGraph("w")
    for number, type in steps:
        uri = Uri(f"concept://w/{number}")
        if type is None:
            graph.remove(uri)
        else:
            graph.put(Card(uri, type, "", "", b"", ""))
    recount = Counter(card.type for uri in graph.uris() if (card := graph.card(uri)))
    assert graph.types() == dict(recount)
    again = LiveGraph("w")
    again.load(graph.freeze().arrays())
    assert again.types() == dict(recount)
    assert len(again) == len(graph)
