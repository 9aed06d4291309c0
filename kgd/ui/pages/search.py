"""The page *Search*."""

from __future__ import annotations

from kgd.ui.visit import Entry, Handled, Page, Visit

HITS = 30
BY_WORDS = ("lex", "name", "tag")
"""Prefixes of reasons for a hit by words."""


def search(visit: Visit) -> Handled:
    question = visit.query.get("q", "").strip()
    period = {name: value for name in ("since", "until") if (value := visit.query.get(name, "").strip())}
    asked = {"query": question, "limit": HITS, "cursor": visit.query.get("cursor"), **period}
    answer = visit.call("search", **asked) if question else {}
    hits = answer.get("hits", [])
    nearest = bool(hits) and not any(why.startswith(BY_WORDS) for hit in hits for why in hit.get("why", ()))
    begun = "cursor" in visit.query
    told = {"question": question, "answer": answer, "begun": begun, "nearest": nearest and not begun, "period": period}
    return Page("search.html", told)


ENTRIES = (Entry("search", "search", search),)
