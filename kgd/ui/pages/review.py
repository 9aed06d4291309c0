"""This file is where it is reviewed what was learned, and taken back in part."""

from __future__ import annotations

from kgd.ui.asked import Asked, Handled, Page
from kgd.ui.entry import Entry


def review(asked: Asked) -> Handled:
    answer = asked.call("review", since=asked.query.get("since") or None, by=asked.query.get("by") or None)
    return Page("review.html", {"answer": answer})


ENTRIES = (Entry("review", "review", review),)
