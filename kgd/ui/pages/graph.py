"""This file is where the neighbourhood of a node is drawn."""

from __future__ import annotations

from kgd.ui.asked import Asked, Handled, Page
from kgd.ui.entry import Entry


def graph(asked: Asked) -> Handled:
    start = asked.query.get("from", "")
    answer = asked.call("traverse", start=[start], max_cost=float(asked.query.get("cost", "1"))) if start else {}
    return Page("graph.html", {"start": start, "answer": answer})


ENTRIES = (Entry("graph", "graph", graph),)
