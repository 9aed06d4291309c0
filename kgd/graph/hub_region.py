"""The part of a hub's graph that one traversal has received, as an edge source.

A hub answers with the nodes near some starts, their costs, and the relations among them. The known radius is stored per
node, since a traversal that reaches a node with more budget has to ask again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kgd.graph.edges import Card, Edge
from kgd.model.uri import Uri, workspace_of

FAR = 1 << 62
"""No limit of cost or hops."""


class Reach(NamedTuple):
    """The radius known around a node: cost in millionths of a step, and hops."""

    cost: int
    hops: int


class AnsweredNode(NamedTuple):
    """One node of an answer: its card, and its distance from the nearest start."""

    card: Card
    cost: int
    hops: int


@dataclass(frozen=True, slots=True)
class Patch:
    """One answer of a hub, complete within `reach` around the starts.

    `links` are relations (source, edge), including those to nodes outside `nodes`; `moved` maps starts to their new
    URIs; `gone` and `forbidden` are nodes that the hub cannot serve.
    """

    nodes: tuple[AnsweredNode, ...]
    links: tuple[tuple[Uri, Edge], ...]
    reach: Reach
    moved: Mapping[Uri, Uri] = field(default_factory=dict)
    gone: frozenset[Uri] = frozenset()
    forbidden: frozenset[Uri] = frozenset()
    stamps: Mapping[Uri, tuple[str, str]] = field(default_factory=dict)
    """The commit and the author of a node's last change, as reported by the hub."""


class Region:
    """What one traversal has learned from one hub; an `EdgeSource` for nodes of `workspaces` and for external nodes.

    Not thread-safe: each traversal has its own.
    """

    def __init__(self, workspaces: Iterable[str]) -> None:
        self.workspaces = frozenset(workspaces)
        self.reached: dict[Uri, Reach] = {}
        self.gone: set[Uri] = set()
        self.forbidden: set[Uri] = set()
        self.stamps: dict[Uri, tuple[str, str]] = {}
        self._cards: dict[Uri, Card] = {}
        self._out: dict[Uri, set[Edge]] = {}
        self._in: dict[Uri, set[Edge]] = {}
        self._moved: dict[Uri, Uri] = {}

    def add(self, patch: Patch) -> None:
        for card, cost, hops in patch.nodes:
            if workspace_of(card.uri) not in (None, *self.workspaces):
                continue
            self._cards[card.uri] = card
            here = Reach(
                *(
                    max(0, FAR if limit >= FAR else limit - spent)
                    for limit, spent in zip(patch.reach, (cost, hops), strict=True)
                )
            )
            known = self.reached.get(card.uri)
            if known is None or here > known:
                self.reached[card.uri] = here
        for source, edge in patch.links:
            if workspace_of(source) in (None, *self.workspaces):
                self._out.setdefault(source, set()).add(edge)
                self._in.setdefault(edge.target, set()).add(edge._replace(target=source))
        self._moved.update((old, new) for old, new in patch.moved.items() if new in self._cards)
        self.stamps.update(patch.stamps)
        self.gone |= patch.gone
        self.forbidden |= patch.forbidden

    def out(self, uri: Uri) -> list[Edge]:
        return sorted(self._out.get(uri, ()))

    def into(self, uri: Uri) -> list[Edge]:
        return sorted(self._in.get(uri, ()))

    def card(self, uri: Uri) -> Card | None:
        return self._cards.get(uri)

    def resolve(self, uri: Uri) -> Uri:
        return self._moved.get(uri, uri) if uri not in self._cards else uri
