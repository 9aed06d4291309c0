"""Values of the graph and of traversals, and `EdgeSource`, the interface of everything that can be traversed.

The stored graph, the overlay of the code tree and other workspaces are edge sources; a traversal takes several.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from kgd.model.uri import Uri

Direction = Literal["out", "in"]

WEIGHT_DIGITS = 6
"""Decimal places to which weights are compared. Costs are sums of whole millionths, so 0.1 + 0.2 is 0.3, ten edges of
0.1 are within a budget of 1, and a sum does not depend on the order of its terms."""
UNIT = 10**WEIGHT_DIGITS
"""Units per step. Costs inside a traversal, and weights in arrays, are whole numbers of these units."""


class Card(NamedTuple):
    """The fields of a node in memory. Its content stays in git until it is requested.

    `blob` is the id of the node's file, or None for a node that only the overlay serves; `origin` is its source; `line`
    is the first line of a symbol of the code, otherwise 0.
    """

    uri: Uri
    type: str
    name: str
    summary: str
    blob: bytes | None
    origin: str
    line: int = 0


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

    A source with a ``lock`` is locked for the whole traversal.
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


Limit = Literal["max_nodes", "max_cost", "max_depth", "passed_nodes", "broken_links", "edges", "elsewhere"]


class Step(NamedTuple):
    """One relation of a path: from `uri`, in its direction (out) or against it (in), to the `uri` of the next step or
    to the node itself."""

    uri: Uri
    type: str
    direction: Direction


class Visited(NamedTuple):
    """A node with its cheapest path; ties are broken by fewest hops, then URI and type. A start has no path."""

    uri: Uri
    card: Card
    cost: float
    hops: int
    path: tuple[Step, ...]
    origins: tuple[str, ...]


class Link(NamedTuple):
    """A relation between two nodes of the answer."""

    source: Uri
    target: Uri
    type: str
    weight: float


class Met(NamedTuple):
    """The distance at which a traversal reached a node: cost, in millionths of a step, and hops.

    `before` is the number of nodes in the answer at that point.
    """

    cost: int
    hops: int
    before: int


@dataclass(frozen=True, slots=True)
class Cut:
    """The nodes or relations that a limit left out; `at` is the first place.

    `count` is the number of relations that were not followed (for very large nodes an upper bound). For `max_nodes` it
    is the number of nodes that would be next (a lower bound), for `broken_links` and `edges` the number of omitted
    relations, and for `elsewhere` the number of nodes of another workspace from which the traversal did not continue.
    """

    limit: Limit
    at: Uri
    count: int
