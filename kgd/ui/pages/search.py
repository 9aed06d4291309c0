"""This file is where a question leads to nodes."""

from __future__ import annotations

from kgd.ui.asked import Asked, Handled, Page
from kgd.ui.entry import Entry

HITS = 30


def search(asked: Asked) -> Handled:
    question = asked.query.get("q", "").strip()
    answer = asked.call("search", query=question, limit=HITS, cursor=asked.query.get("cursor")) if question else {}
    return Page("search.html", {"question": question, "answer": answer})


ENTRIES = (Entry("search", "search", search),)
