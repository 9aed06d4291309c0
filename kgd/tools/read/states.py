"""States of nodes in pictures: open conflicts, stale and expired nodes, and the age of the last change."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from kgd.freshness.freshness import Freshness
from kgd.model.dates import DAY
from kgd.model.uri import Uri
from kgd.tools.visibility import Sees
from kgd.workspace.workspace import Workspace

Colour = Literal["type", "trouble", "age"]
UNKNOWN = "unknown"
"""The class of a node whose class is not known, such as the age of a file."""
CONFLICTS = 500
"""Largest number of conflicts whose records are read."""
AGES = (("week", 7), ("month", 31), ("half_year", 183))
"""Classes of ages, each with its largest number of days."""


def disputed(workspace: Workspace, sees: Sees | None) -> set[Uri]:
    """The nodes with an open conflict. Reads at most `CONFLICTS` records."""
    if not workspace.conflicts.total:
        return set()
    return {one.uri for one in workspace.conflicts.find(limit=CONFLICTS, about=sees)}


def doubted(workspace: Workspace, sees: Sees | None) -> Collection[Uri]:
    """The stale nodes; none for a restricted caller, as in `kgd.tools.origins.marks`."""
    return Freshness.of(workspace).doubted if sees is None else ()


def tones(workspace: Workspace, uris: Collection[Uri], colour: Colour, sees: Sees | None) -> dict[Uri, str]:
    """The class of each node, which determines its colour; nodes without a known class are omitted. Costs one look-up
    in the text index.

    Raises:
        Unavailable: The text index cannot be read.
    """
    if colour == "type" or not uris:
        return {}
    now = workspace.now()
    if colour == "age":
        updated = workspace.text_so_far().updated_of(uris)
        return {uri: _age(now - at) for uri, at in updated.items() if at}
    validity = workspace.text_so_far().validity_of(uris)
    ended = {uri for uri, valid in validity.items() if valid.end is not None and valid.end <= now}
    conflicts, stale = disputed(workspace, sees), doubted(workspace, sees)
    return {
        uri: "conflict" if uri in conflicts else "stale" if uri in stale else "expired" if uri in ended else "fine"
        for uri in uris
    }


def _age(seconds: int) -> str:
    return next((name for name, days in AGES if seconds <= days * DAY), "older")
