"""The page of an author: recent nodes and changes, areas they know, open proposals and stale facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kgd.ui.node_reading import Row, listed
from kgd.ui.pages.overview import titles_of
from kgd.ui.rendering import person
from kgd.ui.visit import Entry, Handled, Page, Visit

LISTED = 25


def author(visit: Visit) -> Handled:
    """Show the recent work of one author, a person or an agent."""
    cursor = visit.query.get("cursor") or None
    answer = visit.call("author", name=visit.required("name").strip(), limit=LISTED, cursor=cursor)
    recent = list(zip(titles_of(visit, answer["recent"]), answer["recent"], strict=True))
    rows = [
        (replace(row, updated={"at": one["at"], "by": ""}, version_authors=()), one, _since(answer["name"], row, one))
        for row, one in zip(listed(visit, answer["nodes"]), answer["nodes"], strict=True)
    ]
    return Page("author.html", {"answer": answer, "recent": recent, "rows": rows, "begun": bool(cursor)})


def _since(name: str, row: Row, one: Mapping[str, Any]) -> list[str]:
    """Return the other authors since the last change; for a node in conflict, the authors of its versions."""
    found = [person(line) for line in row.version_authors] or [one.get("changed_by", "")]
    return [other for other in dict.fromkeys(found) if other not in ("", name)]


ENTRIES = (Entry("author", "author", author),)
