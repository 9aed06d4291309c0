"""The card of the page *Graph*: one node beside the picture, with its relations and actions."""

from __future__ import annotations

from typing import Any

from kgd.errors import KgdError
from kgd.ui.node_reading import WHOLE, links, version_authors
from kgd.ui.pages.graph_address import Wanted
from kgd.ui.visit import Visit

RELATIONS = 8
"""Largest number of relations in each direction; the page of the node has the others."""


def card_of(visit: Visit, wanted: Wanted) -> dict[str, Any] | None:
    """Return the variables of the card, or None if no node is selected."""
    uri = wanted.node
    if not uri:
        return None
    card: dict[str, Any] = {
        "uri": uri,
        "node": None,
        "open": visit.to("node", uri=uri, as_of=wanted.as_of),
        "close": wanted.selecting(visit, ""),
    }
    try:
        answer = visit.call("get", uris=[uri], include=[], as_of=wanted.as_of or None, budget=WHOLE)
        if not answer["nodes"]:
            return card | {"is_missing": True}
        node = answer["nodes"][0]
        directions = [
            (way, links(visit, node["uri"], way, None, wanted.as_of or None)) for way in ("relations", "incoming")
        ]
    except KgdError as error:
        return card | {"error": error}
    card["node"] = node
    card["version_authors"] = version_authors(visit, node)
    card["relations"] = [
        {"rows": [_row(visit, wanted, row) for row in found.rows[:RELATIONS]], "of": found.of, "way": way}
        for way, found in directions
        if found.rows
    ]
    is_start = node["uri"] in wanted.starts
    if not wanted.to and not (is_start and len(wanted.starts) == 1):
        others = [one for one in wanted.starts if one != node["uri"]]
        card["collapse" if is_start else "expand"] = wanted.begun_at(visit, others if is_start else [*others, uri])
    if wanted.path_from and wanted.path_from != node["uri"]:
        card["path_to"] = wanted.path_to(visit, node["uri"])
    else:
        card["path_begun"] = wanted.path_begun(visit, node["uri"])
    return card


def _row(visit: Visit, wanted: Wanted, row: dict[str, Any]) -> dict[str, Any]:
    return row | {"link": wanted.selecting(visit, row["other"])}
