"""This file is where the workspaces of a home are shown: with whom each is shared, and who may come in."""

from __future__ import annotations

from kgd.ui.asked import Asked, Handled, Page
from kgd.ui.entry import Entry


def workspaces(asked: Asked) -> Handled:
    known = asked.call("workspaces")["workspaces"] if asked.can("workspaces") else []
    return Page("workspaces.html", {"known": known})


ENTRIES = (Entry("workspaces", "workspaces", workspaces),)
