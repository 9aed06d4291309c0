"""The pages: a module for each, with its calls of tools and its forms."""

from __future__ import annotations

from kgd.ui.pages import (
    areas,
    attention,
    author,
    conflicts,
    file,
    graph,
    history,
    manual,
    node,
    node_form,
    overview,
    palette,
    proposals,
    review,
    search,
    workspaces,
)
from kgd.ui.visit import Entry

ENTRIES: tuple[Entry, ...] = (
    *overview.ENTRIES,
    *attention.ENTRIES,
    *graph.ENTRIES,
    *node.ENTRIES,
    *node_form.ENTRIES,
    *history.ENTRIES,
    *search.ENTRIES,
    *palette.ENTRIES,
    *review.ENTRIES,
    *conflicts.ENTRIES,
    *proposals.ENTRIES,
    *author.ENTRIES,
    *areas.ENTRIES,
    *file.ENTRIES,
    *workspaces.ENTRIES,
)
"""Pages of a workspace."""

PAGES: tuple[Entry, ...] = (*workspaces.PAGES, *manual.ENTRIES)
"""Pages outside of a workspace."""
