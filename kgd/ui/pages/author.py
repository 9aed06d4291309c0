"""The page of an author: recent nodes, areas they know, open proposals and stale facts."""

from __future__ import annotations

import re

from kgd.errors import NotFound
from kgd.ui.visit import Entry, Handled, Page, Visit

LISTED = 25
_CLIENT = re.compile(r"(.+) \([^()]*\)").fullmatch
"""Matches an author with a program or a token: ``Ann (codex)``."""


def author(visit: Visit) -> Handled:
    """Show the recent work of one author, a person or an agent."""
    name = visit.required("name").strip()
    cursor = visit.query.get("cursor") or None
    try:
        answer = visit.call("author", name=name, limit=LISTED, cursor=cursor)
    except NotFound:
        if not (both := _CLIENT(name)):
            raise
        answer = visit.call("author", name=both[1], limit=LISTED, cursor=cursor)
    return Page("author.html", {"answer": answer, "begun": bool(cursor)})


ENTRIES = (Entry("review", "author", author),)
