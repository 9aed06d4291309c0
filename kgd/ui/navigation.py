"""The pages of a workspace that have no subject of their own in the address: for the navigation and the palette."""

from __future__ import annotations

from typing import NamedTuple


class Destination(NamedTuple):
    """A page: its name in the address, and its label.

    `words` find it in the palette as well, and `title` is its longer label there. The navigation of
    every page lists it if it `is_listed`.
    """

    name: str
    label: str
    words: str
    title: str = ""
    is_listed: bool = True


DESTINATIONS = (
    Destination("overview", "Overview", "home start attention recent"),
    Destination("review", "Review", "changes log since"),
    Destination("conflicts", "Conflicts", "resolve settle disagree"),
    Destination("proposals", "Proposals", "accept reject submissions"),
    Destination("stale", "Stale", "verify unverified outdated", title="Stale facts"),
    Destination("areas", "Areas", "coverage folders atoms"),
    Destination("graph", "Graph", "picture relations map"),
    Destination("broken", "Broken links", "missing targets", is_listed=False),
    Destination("workspaces", "Workspace settings", "remotes sharing access tokens sync browsers workspaces"),
)
NAVIGATION = {one.name: one.label for one in DESTINATIONS if one.is_listed}
"""Labels of the pages in the navigation, by name."""
