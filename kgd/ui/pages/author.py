"""The page of an author: recent nodes, areas they know, open proposals and stale facts."""

from __future__ import annotations

from kgd.ui.visit import Entry, Handled, Page, Visit

LISTED = 25


def author(visit: Visit) -> Handled:
    """Show the recent work of one author, a person or an agent."""
    cursor = visit.query.get("cursor") or None
    answer = visit.call("author", name=visit.required("name").strip(), limit=LISTED, cursor=cursor)
    return Page("author.html", {"answer": answer, "begun": bool(cursor)})


ENTRIES = (Entry("review", "author", author),)
