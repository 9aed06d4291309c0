"""This file is where a view becomes what is drawn of it: nodes, relations among them, and what is missing."""

from __future__ import annotations

from dataclasses import dataclass, field

from kgd.exchange.view import View
from kgd.model.uri import Uri, is_owned, name_of, scheme_of


@dataclass(frozen=True, slots=True)
class ShownNode:
    uri: Uri
    title: str
    type: str
    summary: str = ""
    tags: tuple[str, ...] = ()
    is_missing: bool = False


@dataclass(frozen=True, slots=True)
class ShownEdge:
    source: Uri
    target: Uri
    type: str
    weight: float
    is_broken: bool = False


@dataclass(slots=True)
class Shown:
    """`nodes` are those of the view in its order, then those that only relations name. `left` counts relations to
    nodes that are stored and were not chosen."""

    nodes: list[ShownNode] = field(default_factory=list)
    edges: list[ShownEdge] = field(default_factory=list)
    left: int = 0

    def counts(self) -> dict[str, int]:
        missing = sum(node.is_missing for node in self.nodes)
        counts = {"nodes": len(self.nodes) - missing, "relations": len(self.edges), "missing": missing}
        return counts | ({"relations_out_of_view": self.left} if self.left else {})


def shown(view: View) -> Shown:
    """What is drawn of a view. Files, other workspaces' nodes and web pages are drawn where something leads to them."""
    out = Shown()
    stored = list(view.nodes())
    chosen = {node.uri for node in stored}
    others: dict[Uri, ShownNode] = {}
    for node in stored:
        out.nodes.append(ShownNode(node.uri, node.title, node.type, node.summary, node.tags))
        for relation in node.relations:
            target = relation.target if relation.target in chosen else view.store.resolve(relation.target)
            is_missing = target not in chosen and view.is_missing(target)
            if target not in chosen and not is_missing and view.store.node(target) is not None:
                out.left += 1
                continue
            if target not in chosen and target not in others:
                others[target] = _other(target, is_missing=is_missing)
            out.edges.append(ShownEdge(node.uri, target, relation.type, relation.weight, is_missing))
    out.nodes += others.values()
    return out


def _other(uri: Uri, *, is_missing: bool) -> ShownNode:
    kind = scheme_of(uri) if is_owned(uri) else "resource"
    return ShownNode(uri, name_of(uri), kind, "nobody has written this yet" if is_missing else "", (), is_missing)
