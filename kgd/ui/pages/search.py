"""The page *Search*."""

from __future__ import annotations

from kgd.ui.visit import Entry, Handled, Page, Visit

HITS = 30


def search(visit: Visit) -> Handled:
    question = visit.query.get("q", "").strip()
    answer = visit.call("search", query=question, limit=HITS, cursor=visit.query.get("cursor")) if question else {}
    return Page("search.html", {"question": question, "answer": answer, "begun": "cursor" in visit.query})


ENTRIES = (Entry("search", "search", search),)
