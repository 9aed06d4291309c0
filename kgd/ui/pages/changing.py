"""This file is where the small changes of a node are made: a relation, a text at its end, its address, its end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kgd.errors import Invalid, KgdError, NotFound
from kgd.ui.asked import Asked, Go, Handled, Page
from kgd.ui.entry import Entry
from kgd.ui.forms import plain
from kgd.ui.pages import node as node_page
from kgd.ui.pages.editing import said
from kgd.ui.reading import Missing, links, whole

SUGGESTED = 8
FIELDS = ("type", "target", "weight", "text", "to")


def relate(asked: Asked) -> Handled:
    """Add a relation, or change what it costs, or remove it."""
    edge = {"source": asked.required("uri"), "type": given(asked, "type"), "target": given(asked, "target")}
    if asked.form.get("act") == "unrelate":
        return _made(asked, {"op": "unrelate", **edge}, "The relation is removed")
    try:
        weight = float(asked.form.get("weight", ""))
    except ValueError:
        return _again(asked, Invalid("a cost is a number from 0 to 1", at="weight", next="Write 0.5."))
    return _made(asked, {"op": "relate", **edge, "weight": weight}, "The relation is written")


def append(asked: Asked) -> Handled:
    """Add text at the end of a node."""
    text = plain(asked.form.get("text", ""))
    return _made(asked, {"op": "append", "uri": asked.required("uri"), "text": text}, "The text is added")


def move(asked: Asked) -> Handled:
    """Give a node another address."""
    return _made(asked, {"op": "move", "uri": asked.required("uri"), "to": given(asked, "to")}, "It has a new address")


def verify(asked: Asked) -> Handled:
    """Say that what a node says of the code holds."""
    return _made(asked, {"op": "verify", "uri": asked.required("uri")}, "It is noted that this holds")


def confirm_delete(asked: Asked) -> Handled:
    """What would be deleted, and what leads there."""
    asked.form_for("put")
    return _deleting(asked, asked.required("uri"))


def delete(asked: Asked) -> Handled:
    """Delete a node, as far as nobody wrote it since it was looked at."""
    uri, version = asked.required("uri"), asked.form.get("version", "")
    if not version.isdecimal() or len(version) > 9:
        raise Invalid("this is not a version", at="version", next="Open the page again.")
    try:
        answer = asked.call(
            "put", changes=[{"op": "delete", "uri": uri, "expect_version": int(version)}], conflicts="show"
        )
    except KgdError as error:
        return _deleting(asked, uri, error)
    return Go(asked.to("node", uri=uri), said(answer, "Deleted"))


def suggest(asked: Asked) -> Handled:
    """Nodes that somebody may mean by the words that they have typed so far, for a list beside the field."""
    words = next((asked.query[name] for name in ("target", "q") if asked.query.get(name, "").strip()), "")
    try:
        hits = asked.call("search", query=words[:200], limit=SUGGESTED, max_depth=0)["hits"] if words.strip() else []
    except KgdError:
        hits = []  # what is half typed may be no question; the form itself says what is wrong with it
    return Page("node_suggest.html", {"hits": hits})


def given(asked: Asked, name: str) -> str:
    """A field of the form, without blanks at its ends."""
    return asked.form.get(name, "").strip()


def _made(asked: Asked, change: Mapping[str, Any], done: str) -> Handled:
    """The node after one change; or its page with the form as it was typed, and why not."""
    try:
        answer = asked.call("put", changes=[change], conflicts="show")
    except KgdError as error:
        return _again(asked, error)
    changed = [one["uri"] for one in answer["nodes"]]
    uri = str(change.get("uri") or change["source"])
    there = changed[0] if change["op"] == "move" and changed else uri
    return Go(asked.to("node", uri=there), said(answer, done))


def _again(asked: Asked, error: KgdError) -> Handled:
    found = whole(asked, asked.required("uri"), "history", "mentions")
    if isinstance(found, Missing):
        raise error
    told = node_page.told(asked, found)
    if not told["do"]:
        raise error
    typed = {name: plain(asked.form.get(name, "")) for name in FIELDS}
    return Page("node.html", told | {"typed": typed, "refused": error}, 422)


def _deleting(asked: Asked, uri: str, refused: KgdError | None = None) -> Handled:
    found = whole(asked, uri)
    if isinstance(found, Missing):
        return node_page.missing(asked, found, None)
    if not found["version"]:
        raise NotFound("there is nothing stored that could be deleted", at=uri, next="Look at the node.")
    into = links(asked, uri, "incoming", asked.query.get("into"))
    told = {
        "node": found, "into": into, "refused": refused,
        "more_into": lambda cursor: asked.to("node/delete", uri=uri, into=cursor) + "#into",
    }  # fmt: skip
    return Page("node_delete.html", told, 422 if refused else 200)


ENTRIES = (
    Entry("node", "node/relate", relate, ("POST",)),
    Entry("node", "node/append", append, ("POST",)),
    Entry("node", "node/move", move, ("POST",)),
    Entry("node", "node/verify", verify, ("POST",)),
    Entry("node", "node/delete", confirm_delete),
    Entry("node", "node/delete", delete, ("POST",)),
    Entry("node", "node/suggest", suggest),
)
