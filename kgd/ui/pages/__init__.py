"""This room has a file for each page: what it asks of the tools, and what its forms do."""

from __future__ import annotations

from kgd.ui.entry import Entry
from kgd.ui.pages import (
    areas,
    attention,
    changing,
    conflicts,
    editing,
    first,
    graph,
    manual,
    node,
    overview,
    past,
    proposals,
    review,
    search,
    workspaces,
)

ENTRIES: tuple[Entry, ...] = (
    *overview.ENTRIES,
    *attention.ENTRIES,
    *graph.ENTRIES,
    *node.ENTRIES,
    *editing.ENTRIES,
    *changing.ENTRIES,
    *past.ENTRIES,
    *search.ENTRIES,
    *review.ENTRIES,
    *conflicts.ENTRIES,
    *proposals.ENTRIES,
    *areas.ENTRIES,
    *workspaces.ENTRIES,
)
"""Addresses below a workspace."""

PAGES: tuple[Entry, ...] = (*first.ENTRIES, *manual.ENTRIES)
"""Addresses that belong to no workspace."""

NAVIGATION: tuple[tuple[str, str], ...] = (
    ("overview", "Overview"),
    ("graph", "Graph"),
    ("review", "Review"),
    ("conflicts", "Conflicts"),
    ("proposals", "Proposals"),
    ("areas", "Areas"),
    ("workspaces", "Workspaces"),
)
"""What every page leads to, in order: its name, and what it is called."""
