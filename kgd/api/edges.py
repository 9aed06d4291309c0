"""This file is where the operations on edges are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from kgd.api import reading
from kgd.api.calling import Calling, NodeRef, new_edge, texts, uri_of
from kgd.api.values import Edge, NewEdge


class EdgeOperations(Calling):
    """Create, read and delete; by node and direction, by ends, by id."""

    def create_edge(
        self, source: NodeRef, target: NodeRef, type: str, *, weight: float | None = None,
        data: dict[str, Any] | None = None, message: str = "",
    ) -> Edge:  # fmt: skip
        """Make an edge, or give the one of this type that is there another weight or data.

        A target that is missing is allowed: a file or an address becomes a node, anything else makes the edge broken
        until somebody writes that node.

        Args:
            weight: What it costs to go along it, 0..1; 1 for a new edge, if it is left out.

        Raises:
            NotFound: There is no node `source`.
        """
        edge = NewEdge(uri_of(source), uri_of(target), type, weight, data)
        return self.create_edges([edge], message=message)[0]

    def create_edges(self, edges: Iterable[NewEdge | Edge], *, message: str = "") -> list[Edge]:
        """Make all of them as one commit, or none; at most 2,000. In their order.

        Raises:
            KgdError: Its `at` names the first that is wrong, as ``edges[3]``. Nothing was written.
        """
        asked = [new_edge(edge) for edge in edges]
        if not asked:
            return []
        answer = self._write("create_edges", edges=asked, message=message)
        return [reading.edge(one) for one in answer["edges"]]

    def get_edges(
        self, node: NodeRef, direction: Literal["in", "out", "both"] = "both", *, edge_types: Sequence[str] = ()
    ) -> list[Edge]:
        """The edges that leave the node, then those that lead to it; each by weight, other end and type.

        What the code tree says is among them; which texts mention which nodes is, where `edge_types` names MENTIONS.

        Raises:
            NotFound: There is no such node, and no edge leads to it.
        """
        pages = self._pages("edges", uri=uri_of(node), direction=direction, edge_types=texts(edge_types))
        return [reading.edge(one) for page in pages for one in page["edges"]]

    def delete_edge(self, edge: Edge | str | tuple[NodeRef, NodeRef, str], *, message: str = "") -> None:
        """Delete an edge that is given as it is, by its id, or as (source, target, type).

        The first id of a session takes as long as a look at all edges.

        Raises:
            NotFound: There is none.
        """
        if isinstance(edge, str):
            self._write("delete_edges", ids=[edge], message=message)
            return
        source, target, type = (edge.source, edge.target, edge.type) if isinstance(edge, Edge) else edge
        ends = {"source": uri_of(source), "target": uri_of(target), "type": type}
        self._write("delete_edges", edges=[ends], message=message)

    def delete_edges_for_node(self, node: NodeRef, *, message: str = "") -> int:
        """Delete every stored edge that leaves the node or leads to it; returns how many they were.

        Each 2,000 of them are one commit.

        Raises:
            NotFound: There is no such node.
        """
        return int(self._call("delete_edges", uri=uri_of(node), message=message)["deleted"])
