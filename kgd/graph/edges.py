"""This file is where the values of the graph are defined, and what anything must offer to be walked through.

The stored graph, the overlay of the code tree and another workspace are all an `EdgeSource`; a walk takes several.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from kgd.model.uri import Uri

Direction = Literal["out", "in"]

WEIGHT_DIGITS = 6
"""Weights are compared at this many decimals. Costs are summed as whole millionths, so that 0.1 + 0.2 is 0.3, ten edges
of 0.1 are within a budget of 1, and a sum does not depend on its order."""


class Card(NamedTuple):
    """What is in memory of a node. Its content stays in git until someone asks for it.

    `blob` is the id of the node's file, or None for what only the overlay serves; `origin` says who says so.
    """

    uri: Uri
    type: str
    name: str
    summary: str
    blob: bytes | None
    origin: str


class Edge(NamedTuple):
    """One relation seen from one of its ends; `target` is the other end. Sorts by weight, target, type."""

    weight: float
    target: Uri
    type: str


class BrokenLink(NamedTuple):
    """A relation that leads nowhere."""

    source: Uri
    type: str
    target: Uri
    weight: float = 1.0


class EdgeSource(Protocol):
    """Something with nodes and edges. Every answer is O(1) after the first call for a node.

    A source that also has a ``lock`` is held for as long as a walk takes.
    """

    def out(self, uri: Uri) -> Sequence[Edge]:
        """The node's own relations, sorted; aliases are followed, missing targets are included."""

    def into(self, uri: Uri) -> Sequence[Edge]:
        """The relations that lead to the node, sorted; `target` is where they come from."""

    def card(self, uri: Uri) -> Card | None:
        """None for what this source does not have, be it only the target of a relation."""

    def resolve(self, uri: Uri) -> Uri:
        """The current URI of a node that was moved; any other URI unchanged."""
