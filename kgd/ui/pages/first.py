"""This file is where a person arrives: at their workspace, or at the list of them; and where words are explained."""

from __future__ import annotations

from kgd.ui.asked import Asked, Go, Handled, Page, address
from kgd.ui.entry import Entry


def first(asked: Asked) -> Handled:
    hubs = asked.on_hubs()
    ids = [id for id in asked.workspaces() if id not in hubs]
    if len(ids) == 1 and not hubs:
        return Go(address(ids[0], "overview"))
    return Page("first.html", {"ids": ids, "hubs": hubs})


ENTRIES = (Entry("first", "", first),)
