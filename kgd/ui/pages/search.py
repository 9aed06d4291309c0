"""The page *Search*."""

from __future__ import annotations

from kgd.ui.visit import Entry, Handled, Page, Visit

HITS = 30


def search(visit: Visit) -> Handled:
    question = visit.query.get("q", "").strip()
    period = {name: value for name in ("since", "until") if (value := visit.query.get(name, "").strip())}
    asked = {"query": question, "limit": HITS, "cursor": visit.query.get("cursor"), **period}
    answer = visit.call("search", **asked) if question else {}
    told = {"question": question, "answer": answer, "begun": "cursor" in visit.query, "period": period}
    return Page("search.html", told)


ENTRIES = (Entry("search", "search", search),)
