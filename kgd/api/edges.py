"""Operations on edges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from kgd.api import reading
from kgd.api.calling import Calling, NodeRef, new_edge, texts, uri_of
from kgd.api.values import Edge, NewEdge


class EdgeOperations(Calling):
    """Create, read and delete; by node and direction, by ends, by id."""

    def create_edge(
        self,
        source: NodeRef,
        target: NodeRef,
        type: str,
        *,
        weight: float | None = None,
        data: dict[str, Any] | None = None,
        message: str = "",
    ) -> Edge:
        """Create an edge, or change the weight or data of the existing edge of this type.

        The target may be missing: a file or an address becomes a node. Otherwise the edge is broken until the node is
        written.

        Args:
            weight: The cost of the edge, 0..1; 1 for a new edge if left out.

        Raises:
            NotFound: There is no node `source`.
        """
        edge = NewEdge(uri_of(source), uri_of(target), type, weight, data)
        return self.create_edges([edge], message=message)[0]

    def create_edges(self, edges: Iterable[NewEdge | Edge], *, message: str = "") -> list[Edge]:
        """Create all edges in one commit, or none; at most 2,000. Returns them in order.

        Raises:
            KgdError: Its `at` names the first wrong edge, as ``edges[3]``. Nothing was written.
        """
        asked = [new_edge(edge) for edge in edges]
        if not asked:
            return []
        answer = self._write("create_edges", edges=asked, message=message)
        return [reading.edge(one) for one in answer["edges"]]

    def get_edges(
        self, node: NodeRef, direction: Literal["in", "out", "both"] = "both", *, edge_types: Sequence[str] = ()
    ) -> list[Edge]:
        """The outgoing edges, then the incoming ones, each sorted by weight, other end and type.

        Edges of the code tree are included; mentions only if `edge_types` names MENTIONS.

        Raises:
            NotFound: There is no such node, and no edge leads to it.
        """
        pages = self._pages("edges", uri=uri_of(node), direction=direction, edge_types=texts(edge_types))
        return [reading.edge(one) for page in pages for one in page["edges"]]

    def delete_edge(self, edge: Edge | str | tuple[NodeRef, NodeRef, str], *, message: str = "") -> None:
        """Delete an edge, given as a value, by its id, or as (source, target, type).

        The first id of a session costs a scan of all edges.

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
        """Delete every stored edge of the node in both directions; returns the number.

        Each 2,000 edges are one commit.

        Raises:
            NotFound: There is no such node.
        """
        return int(self._call("delete_edges", uri=uri_of(node), message=message)["deleted"])
