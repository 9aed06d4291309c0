"""This file is where the code tree is shown with its areas: what is known where, and where nobody has written anything."""

from __future__ import annotations

from kgd.ui.asked import Asked, Handled, Page
from kgd.ui.entry import Entry

LISTED = 50


def areas(asked: Asked) -> Handled:
    answer = asked.call("query_graph", operation="search", entityType="atom", limit=LISTED, includeChangelog=False)
    return Page("areas.html", {"atoms": answer["data"]["atoms"], "total": answer["data"]["total"]})


ENTRIES = (Entry("areas", "areas", areas),)
