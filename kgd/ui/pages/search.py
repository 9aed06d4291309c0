"""The page *Search*."""

from __future__ import annotations

from kgd.ui.visit import Entry, Handled, Page, Visit

HITS = 30
BY_WORDS = ("lex", "name", "tag")
"""Prefixes of reasons for a hit by words."""


def search(visit: Visit) -> Handled:
    question = visit.query.get("q", "").strip()
    answer = visit.call("search", query=question, limit=HITS, cursor=visit.query.get("cursor")) if question else {}
    hits = answer.get("hits", [])
    nearest = bool(hits) and not any(why.startswith(BY_WORDS) for hit in hits for why in hit.get("why", ()))
    begun = "cursor" in visit.query
    told = {"question": question, "answer": answer, "begun": begun, "nearest": nearest and not begun}
    return Page("search.html", told)


ENTRIES = (Entry("search", "search", search),)
