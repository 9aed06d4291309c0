"""Small changes to a node: relations, appended text, address, verification and deletion."""

from __future__ import annotations

from collections.abc import Mapping
from math import nan
from typing import Any

from kgd.errors import Invalid, KgdError, NotFound, Stale
from kgd.ui.node_reading import Missing, links, way_to, whole
from kgd.ui.pages import node as node_page
from kgd.ui.pages.node_form import plain
from kgd.ui.relation_words import words_of
from kgd.ui.reports import NOTHING, reported
from kgd.ui.visit import Entry, Handled, Page, Redirect, Visit

SUGGESTED = 8
FIELDS = ("type", "target", "weight", "text", "to")


def relate(visit: Visit) -> Handled:
    """Add a relation, change its cost, or remove it."""
    edge = {"source": visit.required("uri"), "type": visit.text("type"), "target": visit.text("target")}
    if visit.form.get("act") == "unrelate":
        return _made(visit, {"op": "unrelate", **edge}, "Relation removed")
    try:
        weight = float(visit.form.get("weight", ""))
    except ValueError:
        weight = nan
    if not 0 <= weight <= 1:
        return _again(visit, Invalid("a cost is a number from 0 to 1", at="weight", next="Enter a number such as 0.5."))
    return _made(visit, {"op": "relate", **edge, "weight": weight}, "Relation saved")


def append(visit: Visit) -> Handled:
    """Append text to a node."""
    text = plain(visit.form.get("text", ""))
    return _made(visit, {"op": "append", "uri": visit.required("uri"), "text": text}, "Text added")


def move(visit: Visit) -> Handled:
    """Change the address of a node."""
    return _made(visit, {"op": "move", "uri": visit.required("uri"), "to": visit.text("to")}, "Address changed")


def verify(visit: Visit) -> Handled:
    """Verify a node for the current code."""
    return _made(visit, {"op": "verify", "uri": visit.required("uri")}, "Verified")


def advance(visit: Visit) -> Handled:
    """Move a task to another status unless it has changed since it was shown."""
    uri = visit.required("uri")
    there = visit.to("node", uri=uri)
    try:
        answer = visit.call("advance", id=uri, version=_version(visit), to=visit.text("to"))["data"]
    except Stale:
        return Redirect(
            there, said=f"{NOTHING} The task has changed since you loaded the page. Check its status and try again."
        )
    return reported(there, answer, "Started" if answer["task"]["status"] == "in-progress" else "Completed")


def confirm_delete(visit: Visit) -> Handled:
    """Show the node to delete with its incoming relations."""
    visit.form_for("put")
    return _deleting(visit, visit.required("uri"))


def delete(visit: Visit) -> Handled:
    """Delete a node unless it has changed since it was shown."""
    uri, version = visit.required("uri"), _version(visit)
    try:
        answer = visit.call("put", changes=[{"op": "delete", "uri": uri, "expect_version": version}], conflicts="show")
    except KgdError as error:
        return _deleting(visit, uri, error)
    return reported(visit.to("node", uri=uri), answer, "Deleted")


def suggest(visit: Visit) -> Handled:
    """Suggest nodes for the words typed so far."""
    words = next((visit.query[name] for name in ("target", "q", "from", "to") if visit.query.get(name, "").strip()), "")
    try:
        found = (
            visit.call("search", query=words[:200], limit=SUGGESTED, max_depth=0, lanes="one") if words.strip() else {}
        )
        hits = found.get("hits", [])[:SUGGESTED]
    except KgdError:
        hits = []  # half-typed words may be an invalid query; the form reports that when it is sent
    return Page("node_suggest.html", {"hits": hits})


def _made(visit: Visit, change: Mapping[str, Any], done: str) -> Handled:
    """Make one change and show the node; an error shows the form again with its texts."""
    try:
        answer = visit.call("put", changes=[change], conflicts="show")
    except KgdError as error:
        return _again(visit, error)
    changed = [one["uri"] for one in answer["nodes"]]
    uri = str(change.get("uri") or change["source"])
    there = changed[0] if change["op"] == "move" and changed else uri
    return reported(visit.to("node", uri=there), answer, done)


def _version(visit: Visit) -> int:
    """The version that the page showed."""
    version = visit.form.get("version", "")
    if not version.isdecimal() or len(version) > 9:
        raise Invalid("this is not a version", at="version", next="Reload the page.")
    return int(version)


def _again(visit: Visit, error: KgdError) -> Handled:
    found = whole(visit, visit.required("uri"), "history", "mentions")
    if isinstance(found, Missing):
        raise error
    told = node_page.told(visit, found)
    if not told["do"]:
        raise error
    typed = {name: plain(visit.form.get(name, "")) for name in FIELDS}
    return Page("node.html", told | {"typed": typed, "refused": error}, 422)


def _deleting(visit: Visit, uri: str, refused: KgdError | None = None) -> Handled:
    found = whole(visit, uri)
    if isinstance(found, Missing):
        return node_page.missing(visit, found, None)
    if not found["version"]:
        raise NotFound("this node is not stored, so it cannot be deleted", at=uri, next="Open the node.")
    into = links(visit, uri, "incoming", visit.query.get("into"))
    told = {
        "node": found,
        "way": way_to(visit, uri),
        "into": into,
        "words_of": words_of,
        "refused": refused,
        "more_into": lambda cursor: visit.to("node/delete", uri=uri, into=cursor) + "#into",
    }
    return Page("node_delete.html", told, 422 if refused else 200)


ENTRIES = (
    Entry("node", "node/relate", relate, ("POST",)),
    Entry("node", "node/append", append, ("POST",)),
    Entry("node", "node/move", move, ("POST",)),
    Entry("node", "node/verify", verify, ("POST",)),
    Entry("node", "node/advance", advance, ("POST",)),
    Entry("node", "node/delete", confirm_delete),
    Entry("node", "node/delete", delete, ("POST",)),
    Entry("node", "node/suggest", suggest),
)
