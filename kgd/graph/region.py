"""This file is where the part of a hub's graph that one walk was told about is held, to be walked through as well.

A hub answers with the nodes near some starts, their costs from there, and the relations among them. How far that goes
is kept for each node: a walk that comes to it with more left to spend than was asked for has to ask again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from kgd.graph.edges import Card, Edge
from kgd.model.uri import Uri, workspace_of

FAR = 1 << 62
"""As far as there is anything: no limit of cost or hops."""


class Reach(NamedTuple):
    """How far the graph around something is known: cost in millionths of a step, and hops."""

    cost: int
    hops: int


class Told(NamedTuple):
    """One node of an answer: its card, and how far it lies from the nearest start."""

    card: Card
    cost: int
    hops: int


@dataclass(frozen=True, slots=True)
class Patch:
    """One answer of a hub. `reach` is how far around the starts it is complete.

    `links` are relations (source, edge), with those that lead to nodes that are not among `nodes`; `moved` are starts
    that go by another URI now; `gone` and `forbidden` are what cannot be had there.
    """

    nodes: tuple[Told, ...]
    links: tuple[tuple[Uri, Edge], ...]
    reach: Reach
    moved: Mapping[Uri, Uri] = field(default_factory=dict)
    gone: frozenset[Uri] = frozenset()
    forbidden: frozenset[Uri] = frozenset()
    stamps: Mapping[Uri, tuple[str, str]] = field(default_factory=dict)
    """The commit and the author of the last change of a node, as the hub says."""


class Region:
    """What a walk knows of one hub so far; an `EdgeSource`. It speaks for nodes of `workspaces` and for external ones.

    Not safe for threads: one walk has its own.
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
            here = Reach(*(max(0, FAR if limit >= FAR else limit - spent)
                           for limit, spent in zip(patch.reach, (cost, hops), strict=True)))  # fmt: skip
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
