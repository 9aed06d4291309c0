"""This file is where one node is shown whole, and changed."""

from __future__ import annotations

from kgd.errors import NotFound
from kgd.ui.asked import Asked, Handled, Page
from kgd.ui.entry import Entry


def node(asked: Asked) -> Handled:
    answer = asked.call(
        "get", uris=[asked.required("uri")], include=["content", "relations"], as_of=asked.query.get("as_of")
    )
    if not answer["nodes"]:
        raise NotFound("nobody has written this node yet", at=asked.required("uri"), next="Search for it.")
    return Page("node.html", {"node": answer["nodes"][0]})


ENTRIES = (Entry("node", "node", node),)
