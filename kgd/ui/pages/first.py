"""This file is where a person arrives: at their workspace, or at the list of them; and where words are explained."""

from __future__ import annotations

from kgd.ui.asked import Asked, Go, Handled, Page, address
from kgd.ui.entry import Entry


def first(asked: Asked) -> Handled:
    ids = asked.workspaces()
    return Go(address(ids[0], "overview")) if len(ids) == 1 else Page("first.html", {"ids": ids})


ENTRIES = (Entry("first", "", first),)
