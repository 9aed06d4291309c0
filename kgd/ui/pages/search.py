"""This file is where a question leads to nodes."""

from __future__ import annotations

from kgd.ui.asked import Asked, Handled, Page
from kgd.ui.entry import Entry

HITS = 30
BY_WORDS = ("lex", "name", "tag")
"""How a reason begins that says which words were found."""


def search(asked: Asked) -> Handled:
    question = asked.query.get("q", "").strip()
    answer = asked.call("search", query=question, limit=HITS, cursor=asked.query.get("cursor")) if question else {}
    hits = answer.get("hits", [])
    nearest = bool(hits) and not any(why.startswith(BY_WORDS) for hit in hits for why in hit.get("why", ()))
    begun = "cursor" in asked.query
    told = {"question": question, "answer": answer, "begun": begun, "nearest": nearest and not begun}
    return Page("search.html", told)


ENTRIES = (Entry("search", "search", search),)
