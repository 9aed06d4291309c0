"""The changes of a graph since its snapshot, as plain data for another process that maps the same snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import TypedDict

from kgd.graph.array_builder import Frozen
from kgd.graph.edges import Card
from kgd.graph.layers import Layers
from kgd.graph.live_graph import LiveGraph
from kgd.model.node import Relation
from kgd.model.uri import Uri

MOST_NODES = 500
MOST_RELATIONS = 10_000
"""Above these numbers, a new snapshot is cheaper than the changes."""


class ChangedNode(TypedDict):
    """`relations` are lists of type, target, weight and data; `blob` is in hex."""

    uri: str
    type: str
    name: str
    summary: str
    blob: str | None
    origin: str
    aliases: list[str]
    relations: list[list[Any]]


class Changes(TypedDict):
    """`gone` are URIs without a node."""

    nodes: list[ChangedNode]
    gone: list[str]


def are_few(layers: Layers) -> bool:
    """Whether the changes may be sent."""
    changed = _changed(layers)
    return len(changed) <= MOST_NODES and sum(len(layers.succ(uri)) for uri in changed) <= MOST_RELATIONS


def changes(frozen: Frozen) -> Changes:
    """The changes above the arrays of a graph."""
    found: Changes = {"nodes": [], "gone": []}
    for uri in sorted(_changed(frozen.layers)):
        card = frozen.layers.state(uri)
        if not card:
            found["gone"].append(uri)
            continue
        found["nodes"].append(
            {
                "uri": uri,
                "type": card.type,
                "name": card.name,
                "summary": card.summary,
                "blob": card.blob.hex() if card.blob else None,
                "origin": card.origin,
                "aliases": list(frozen.aliases.get(uri, ())),
                "relations": [
                    [type, target, attributes["weight"], dict(attributes.get("data", ()))]
                    for target, keyed in frozen.layers.succ(uri).items()
                    for type, attributes in keyed.items()
                ],
            }
        )
    return found


def apply(graph: LiveGraph, changes: Mapping[str, Any]) -> None:
    """Apply `changes` to a graph that was loaded from the snapshot."""
    for uri in changes["gone"]:
        graph.remove(uri)
    for node in changes["nodes"]:
        blob = bytes.fromhex(node["blob"]) if node["blob"] else None
        card = Card(node["uri"], node["type"], node["name"], node["summary"], blob, node["origin"])
        graph.put(card, (Relation(*each) for each in node["relations"]), node["aliases"])


def _changed(layers: Layers) -> set[Uri]:
    """The nodes whose cards or relations changed, and the URIs that appeared or disappeared."""
    return layers.changes().union(*(layer.succ for layer in layers.changed))
