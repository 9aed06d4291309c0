"""Values of the graph, and `EdgeSource`, the interface of everything that can be walked.

The stored graph, the overlay of the code tree and another workspace are edge sources; a walk takes several.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, Protocol

from kgd.model.uri import Uri

Direction = Literal["out", "in"]

WEIGHT_DIGITS = 6
"""Decimals at which weights are compared. Costs are sums of whole millionths, so that 0.1 + 0.2 is 0.3, ten edges of
0.1 are within a budget of 1, and a sum does not depend on its order."""


class Card(NamedTuple):
    """The fields of a node in memory. Its content stays in git until it is requested.

    `blob` is the id of the node's file, or None for a node that only the overlay serves; `origin` is its source.
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
    """A relation with a missing target."""

    source: Uri
    type: str
    target: Uri
    weight: float = 1.0


class EdgeSource(Protocol):
    """A source of nodes and edges. Every answer is O(1) after the first call for a node.

    A source with a ``lock`` is locked for the whole walk.
    """

    def out(self, uri: Uri) -> Sequence[Edge]:
        """The node's own relations, sorted; aliases are followed, missing targets are included."""

    def into(self, uri: Uri) -> Sequence[Edge]:
        """The relations that lead to the node, sorted; `target` is their source."""

    def card(self, uri: Uri) -> Card | None:
        """The card of a node; None if this source does not have it, even if it is the target of a relation."""

    def resolve(self, uri: Uri) -> Uri:
        """The current URI of a moved node; any other URI unchanged."""


def card_of(sources: Iterable[EdgeSource], uri: Uri) -> Card | None:
    """The card of a node in the first source that has it."""
    return next((card for source in sources if (card := source.card(uri)) is not None), None)
