"""The page of an author: recent nodes and changes, areas they know, open proposals and stale facts."""

from __future__ import annotations

from dataclasses import replace

from kgd.ui.feed import titles_of
from kgd.ui.node_reading import listed
from kgd.ui.visit import Entry, Handled, Page, Visit

LISTED = 25


def author(visit: Visit) -> Handled:
    """Show the recent work of one author, a person or an agent."""
    cursor = visit.query.get("cursor") or None
    answer = visit.call("author", name=visit.required("name").strip(), limit=LISTED, cursor=cursor)
    recent = list(zip(titles_of(visit, answer["recent"]), answer["recent"], strict=True))
    rows = [
        (replace(row, updated={"at": one["at"], "by": ""}), one)
        for row, one in zip(listed(visit, answer["nodes"]), answer["nodes"], strict=True)
    ]
    return Page("author.html", {"answer": answer, "recent": recent, "rows": rows, "begun": bool(cursor)})


ENTRIES = (Entry("author", "author", author),)
