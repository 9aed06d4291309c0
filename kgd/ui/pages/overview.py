"""This file is where one glance says whether anything needs a person."""

from __future__ import annotations

from kgd.ui.asked import Asked, Handled, Page
from kgd.ui.entry import Entry

RECENT = 12


def overview(asked: Asked) -> Handled:
    status = asked.call("status")
    recent = asked.call("history", limit=RECENT)
    return Page("overview.html", {"status": status, "commits": recent["commits"]})


ENTRIES = (Entry("overview", "overview", overview),)
