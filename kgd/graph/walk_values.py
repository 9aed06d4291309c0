"""Values of walks: the answered nodes with their paths, and what limits left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from kgd.graph.edges import WEIGHT_DIGITS, Card, Direction
from kgd.model.uri import Uri

UNIT = 10**WEIGHT_DIGITS
"""Costs inside a walk are whole numbers of this fraction of a step."""

Limit = Literal["max_nodes", "max_cost", "max_depth", "passed_nodes", "broken_links", "edges", "elsewhere"]


class Step(NamedTuple):
    """One relation of a path: from `uri`, along it (out) or against it (in), to the next step's `uri` or the node."""

    uri: Uri
    type: str
    direction: Direction


class Visited(NamedTuple):
    """A node with its cheapest path: of equal paths the one with fewest hops, then by URI and type. A start has
    none."""

    uri: Uri
    card: Card
    cost: float
    hops: int
    path: tuple[Step, ...]
    origins: tuple[str, ...]


class Link(NamedTuple):
    """A relation between two answered nodes."""

    source: Uri
    target: Uri
    type: str
    weight: float


class Met(NamedTuple):
    """The point where a walk reached a node: its cost, in millionths of a step, and its hops.

    `before` is the number of nodes answered until then.
    """

    cost: int
    hops: int
    before: int


@dataclass(frozen=True, slots=True)
class Cut:
    """The nodes or relations that a limit left out; `at` is the first place.

    `count` is the number of relations that were not followed (for very large nodes an upper bound), for `max_nodes`
    the number of next nodes (a lower bound), for `broken_links` and `edges` the number left out, for `elsewhere` the
    number of nodes of another workspace that were not continued.
    """

    limit: Limit
    at: Uri
    count: int
