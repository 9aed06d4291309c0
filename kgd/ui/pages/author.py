"""The page of an author: recent nodes and changes, areas they know, open proposals and stale facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kgd.model.uri import name_of
from kgd.ui.changes import reason_of
from kgd.ui.feed import USUAL, deeds
from kgd.ui.node_reading import listed, names
from kgd.ui.rendering import sentence
from kgd.ui.visit import Entry, Handled, Page, Visit

LISTED = 25


def author(visit: Visit) -> Handled:
    """Show the recent work of one author, a person or an agent."""
    cursor = visit.query.get("cursor") or None
    answer = visit.call("author", name=visit.required("name").strip(), limit=LISTED, cursor=cursor)
    known = names(visit, [uri for one in answer["recent"] for uri in one["nodes"]])
    recent = [(_title(one, known), one) for one in answer["recent"]]
    rows = [
        (replace(row, updated={"at": one["at"], "by": ""}), one)
        for row, one in zip(listed(visit, answer["nodes"]), answer["nodes"], strict=True)
    ]
    return Page("author.html", {"answer": answer, "recent": recent, "rows": rows, "begun": bool(cursor)})


def _title(commit: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the author's reason, or the names of the nodes, with the operation unless it is a plain edit."""
    named = [f"“{known.get(uri, {}).get('name') or name_of(uri)}”" for uri in commit["nodes"]]
    more = [f"{commit['more_nodes']} more"] if "more_nodes" in commit else []
    deed = deeds().get(commit["operation"], USUAL)
    return reason_of(commit).partition("\n")[0] or sentence(f"{deed} {', '.join([*named, *more])}")


ENTRIES = (Entry("review", "author", author),)
