"""The page of a node: content, relations, citations, history, and actions."""

from __future__ import annotations

import contextlib
from typing import Any
from urllib.parse import unquote

from kgd.errors import KgdError
from kgd.freshness.citations import parse
from kgd.model.uri import from_path, scheme_of
from kgd.ui.changes import as_text, deed_of
from kgd.ui.node_reading import Missing, links, titles, whole
from kgd.ui.pages.file import redirected
from kgd.ui.pages.node_form import FURTHER, LABELS
from kgd.ui.visit import Entry, Handled, Page, Visit

FEW = 5
LOOKED_THROUGH = 5
"""Largest number of history pages that are read to find the versions before and after a commit."""
FORMS = ("relate", "append", "move")
"""Values of `do` in the address."""
OWN_PLACE = ("cites", "verified")
"""Keys of the data that the page shows as citations."""
TALK = ("thread", "message")


def node(visit: Visit) -> Handled:
    """Show one node, with actions unless it is shown as of a commit."""
    if to_file := redirected(visit):
        return to_file
    uri, as_of = visit.required("uri"), visit.query.get("as_of")
    found = whole(visit, uri, *(("history", "mentions") if not as_of else ()), as_of=as_of)
    if isinstance(found, Missing):
        return missing(visit, found, as_of)
    return Page("node.html", told(visit, found, as_of))


def told(visit: Visit, found: dict[str, Any], as_of: str | None = None) -> dict[str, Any]:
    """Return the variables of a node's page."""
    uri = found["uri"]
    data = found.get("data", {})
    writes = visit.may("put") and not as_of
    wanted = visit.query.get("do") or visit.form.get("do", "")
    answer: dict[str, Any] = {
        "node": found,
        "as_of": found["origin"].get("commit", "") if as_of else "",
        "writes": writes,
        "out": links(visit, uri, "relations", visit.query.get("out"), as_of),
        "into": links(visit, uri, "incoming", visit.query.get("into"), as_of),
        "further": [(LABELS[row.name], as_text(found[row.name])) for row in FURTHER if row.name in found],
        "data_shown": [(key, as_text(value)) for key, value in data.items() if key not in OWN_PLACE],
        "cites": cited(visit, data),
        "do": wanted if writes and wanted in (*FORMS, "relation") else "",
        "is_talk": scheme_of(uri) in TALK,
        "may_verify": writes and visit.may_do_all and bool(data.get("cites")),
        "typed": {},
        "refused": None,
        "deed_of": deed_of,
        "change_at": lambda one: (
            visit.to("node", uri=uri, do="relation", type=one["type"], target=one["target"], weight=one["weight"])
            + "#do"
        ),
        "more_out": lambda cursor: visit.to("node", uri=uri, as_of=as_of, out=cursor) + "#out",
        "more_into": lambda cursor: visit.to("node", uri=uri, as_of=as_of, into=cursor) + "#into",
    }
    mentions = found.get("mentions", {})
    answer["named"] = titles(visit, [*mentions.get("out", ()), *mentions.get("into", ())])
    if as_of:
        answer |= beside(visit, uri, answer["as_of"])
    if answer["do"] == "relation":
        answer["typed"] = {name: visit.query.get(name, "") for name in ("type", "target", "weight")}
    return answer


def cited(visit: Visit, data: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the citations of a node, each with its file and with whether it was ever verified."""
    given = data.get("cites")
    texts = [one for one in (given if isinstance(given, list) else [given]) if isinstance(one, str)]
    notes = data.get("verified")
    keys = [str(key) for key in notes] if isinstance(notes, dict) else []
    return [
        {"text": text, "file": file_of(visit, text), "was_checked": any(key.startswith(f"{text}@") for key in keys)}
        for text in texts
    ]


def file_of(visit: Visit, citation: str) -> str:
    """Return the file of a citation; empty if the citation has no valid path."""
    found = parse(citation, visit.workspace)
    try:
        return from_path("file", visit.workspace, found.path) if found else ""
    except KgdError:
        return ""


def missing(visit: Visit, lacking: Missing, as_of: str | None) -> Handled:
    """Show that a node does not exist, with similar nodes and its former commits."""
    commits: list[dict[str, Any]] = []
    with contextlib.suppress(KgdError):  # without permission the history is shown as empty
        commits = list(visit.call("history", uri=lacking.uri, limit=FEW)["commits"])
    return Page(
        "node_missing.html",
        {
            "missing": lacking,
            "as_of": as_of or "",
            "commits": commits,
            "writes": visit.may("put"),
            "name": unquote(lacking.uri.rpartition("/")[2]),
        },
    )


def beside(visit: Visit, uri: str, commit: str) -> dict[str, Any]:
    """Return the versions of a node before and after a commit."""
    (at,) = visit.call("history", commit=commit)["commits"]
    commits: list[dict[str, Any]] = []
    cursor = None
    for _ in range(LOOKED_THROUGH):
        answer = visit.call("history", uri=uri, limit=200, cursor=cursor)
        commits += answer["commits"]
        cursor = answer.get("cursor")
        if not cursor or any(one["commit"] == commit for one in answer["commits"]):
            break
    # A commit that did not change this node shows the version of the commit before it.
    number = next((n for n, one in enumerate(commits) if one["commit"] == commit), -1)
    own = number >= 0
    if not own:
        number = next((n for n, one in enumerate(commits) if one["at"] <= at["at"]), len(commits))
    older = commits[number + own] if number + own < len(commits) else None
    return {"at": at, "older": older, "newer": commits[number - 1] if number > 0 else None, "is_newest": number == 0}


ENTRIES = (Entry("node", "node", node),)
