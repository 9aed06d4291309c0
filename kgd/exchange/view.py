"""The nodes of an export, read one by one, and their drawing as a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kgd.model.node import Node
from kgd.model.uri import Uri, is_owned, name_of, scheme_of


class Store(Protocol):
    """The part of a workspace that an export needs; implemented by `kgd.workspace.workspace.Workspace`."""

    @property
    def id(self) -> str: ...
    def is_broken(self, target: Uri) -> bool: ...
    def node(self, uri: Uri) -> Node | None: ...
    def resolve(self, uri: Uri) -> Uri: ...


@dataclass(frozen=True, slots=True)
class View:
    """The stored nodes to export, in order.

    Args:
        chosen: Their URIs; sorted, or in the order of a walk.
        detail: Returns the prose of a node's memory file, or None.
        stamps: Returns when a node was created and last changed, in Unix seconds.
        cut: How many further nodes were not chosen.
    """

    store: Store
    chosen: Sequence[Uri]
    detail: Callable[[Node], str | None] = lambda node: None
    stamps: Callable[[Uri], tuple[int, int]] = lambda uri: (0, 0)
    cut: int = 0

    @property
    def workspace(self) -> str:
        return self.store.id

    def nodes(self) -> Iterator[Node]:
        """The chosen nodes that are stored, each read on demand."""
        for uri in self.chosen:
            node = self.store.node(uri)
            if node is not None:
                yield node


@dataclass(frozen=True, slots=True)
class DrawnNode:
    uri: Uri
    title: str
    type: str
    summary: str = ""
    tags: tuple[str, ...] = ()
    is_missing: bool = False


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    source: Uri
    target: Uri
    type: str
    weight: float
    is_broken: bool = False


@dataclass(slots=True)
class Drawing:
    """`nodes` has the nodes of the view in its order, then other targets of relations. `left` counts relations to
    stored nodes outside the view."""

    nodes: list[DrawnNode] = field(default_factory=list)
    edges: list[DrawnEdge] = field(default_factory=list)
    left: int = 0

    def counts(self) -> dict[str, int]:
        missing = sum(node.is_missing for node in self.nodes)
        counts = {"nodes": len(self.nodes) - missing, "relations": len(self.edges), "missing": missing}
        return counts | ({"relations_out_of_view": self.left} if self.left else {})


def drawing(view: View) -> Drawing:
    """The graph of a view, including related files, web pages, missing nodes and nodes of other workspaces."""
    out = Drawing()
    stored = list(view.nodes())
    chosen = {node.uri for node in stored}
    others: dict[Uri, DrawnNode] = {}
    for node in stored:
        out.nodes.append(DrawnNode(node.uri, node.title, node.type, node.summary, node.tags))
        for relation in node.relations:
            target = relation.target if relation.target in chosen else view.store.resolve(relation.target)
            is_missing = target not in chosen and view.store.is_broken(target)
            if target not in chosen and not is_missing and view.store.node(target) is not None:
                out.left += 1
                continue
            if target not in chosen and target not in others:
                kind = scheme_of(target) if is_owned(target) else "resource"
                summary = "missing" if is_missing else ""
                others[target] = DrawnNode(target, name_of(target), kind, summary, (), is_missing)
            out.edges.append(DrawnEdge(node.uri, target, relation.type, relation.weight, is_missing))
    out.nodes += others.values()
    return out
