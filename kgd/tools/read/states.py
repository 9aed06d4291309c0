"""States of nodes in pictures: conflicts, open proposals, stale and expired nodes, and the age of the last change."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

from kgd.freshness.freshness import Freshness
from kgd.model.dates import DAY
from kgd.model.uri import Uri, workspace_of
from kgd.tools import visibility
from kgd.tools.session import Session
from kgd.tools.visibility import Sees
from kgd.workspace.proposals.proposals import Marks, marks
from kgd.workspace.workspace import Workspace

Colour = Literal["type", "trouble", "age"]
UNKNOWN = "unknown"
"""The class of a node whose class is not known, such as the age of a file, or a node that may be stale."""
CONFLICTS = 500
"""Largest number of records of conflicts that are read."""
AGES = (("week", 7), ("month", 31), ("half_year", 183))
"""Classes of ages, each with its largest number of days."""


def disputed(workspace: Workspace, sees: Sees | None) -> tuple[set[Uri], bool]:
    """The nodes known to have an open conflict, and whether these are all. Reads at most `CONFLICTS` records."""
    return workspace.conflicts.nodes(reads=CONFLICTS, about=sees)


def doubted(workspace: Workspace, sees: Sees | None) -> Collection[Uri]:
    """The stale nodes; none for a restricted caller, as in `kgd.tools.origins.marks`."""
    return Freshness.of(workspace).doubted if sees is None else ()


def proposals(workspace: Workspace, sees: Sees | None) -> Marks:
    """The open proposals by the nodes that they change; none for a restricted caller."""
    return marks(workspace) if sees is None else Marks(workspace, bytes.fromhex(workspace.tip))


def proposed_of_walk(session: Session, answer: Mapping[str, Any]) -> set[Uri]:
    """Select the nodes that open proposals change, in the first workspace of a walk."""
    found, walked = set[Uri](), {Uri(node["uri"]) for node in answer["nodes"]}
    for workspace in session.daemon.opened([answer["workspace"]]):
        found |= proposals(workspace, visibility.sight(session, workspace.id)).changed(walked)
    return found


def tones_of_walk(session: Session, answer: Mapping[str, Any], colour: Colour) -> dict[str, str]:
    """The class of each node of a walk. The class is unknown outside the first workspace."""
    found: dict[str, str] = {node["uri"]: UNKNOWN for node in answer["nodes"]}
    for workspace in session.daemon.opened([answer["workspace"]]):
        here = [Uri(uri) for uri in found if workspace_of(uri) in (None, workspace.id)]
        known = tones(workspace, here, colour, visibility.sight(session, workspace.id))
        found |= {str(uri): tone for uri, tone in known.items()}
    return found


def tones(workspace: Workspace, uris: Collection[Uri], colour: Colour, sees: Sees | None) -> dict[Uri, str]:
    """The class of each node, which determines its colour; nodes without a known class are unknown or omitted. A node
    is fine only if everything was looked up: never for a restricted caller, or while the text index is partial. Costs
    one look-up in the text index.

    Raises:
        Unavailable: The text index cannot be read.
    """
    if colour == "type" or not uris:
        return {}
    now = workspace.now()
    if colour == "age":
        updated = workspace.text_so_far().updated_of(uris)
        return {uri: _age(now - at) for uri, at in updated.items() if at}
    index, is_partial = workspace.text_so_far(), workspace.is_text_partial
    validity = index.validity_of(uris)
    ended = {uri for uri, valid in validity.items() if valid.end is not None and valid.end <= now}
    (conflicts, is_all), stale = disputed(workspace, sees), doubted(workspace, sees)
    other = "fine" if is_all and sees is None and not is_partial else UNKNOWN
    return {
        uri: "conflict" if uri in conflicts else "stale" if uri in stale else "expired" if uri in ended else other
        for uri in uris
    }


def _age(seconds: int) -> str:
    return next((name for name, days in AGES if seconds <= days * DAY), "older")
