"""`kgd.open`, and the workspace it returns, with its complete nodes and edges."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, cast

from kgd.api import values
from kgd.api.calling import Change, Connections, NodeRef, new_edge, new_node, source_of, texts, uri_of
from kgd.api.knowledge import KnowledgeOperations, SourceOperations
from kgd.api.values import Edge, NewEdge, NewNode, Node, Source, Written
from kgd.config import Home, person_environment
from kgd.errors import Advice, Do, Unavailable

if TYPE_CHECKING:
    from typing import Self

    import networkx as nx

    from kgd.api.mapped_graph import MappedGraph


class Workspace(KnowledgeOperations, SourceOperations):
    """One graph, opened by `kgd.open`. Thread-safe.

    Answers are values, which do not change with the graph. Every change is one commit, durable when the call returns;
    if a call fails, nothing was written. Errors are subclasses of `kgd.KgdError` with `code`, `message`, `at` and
    `next`.

    Attributes:
        id: The workspace's id, which each of its URIs contains.
    """

    def __init__(self, connections: Connections, id: str) -> None:
        self._connections, self.id = connections, id
        self._mapped: MappedGraph | None = None

    def __repr__(self) -> str:
        return f"<kgd workspace {self.id}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections. A second call does nothing."""
        self._connections.close()

    def put(self, *changes: Change, message: str = "", request_id: str | None = None, dry_run: bool = False) -> Written:
        """Apply changes of any kind in one commit, or none; at most 1,000. docs/mcp.md describes each `op`.

        Args:
            message: The reason in one line: the commit's subject.
            request_id: A call repeated with the same id is applied only once. Generated if left out.
            dry_run: Report the changes and write nothing.

        Raises:
            KgdError: Its `at` names the wrong change, as ``changes[2].weight``.
        """
        return self.put_many(changes, message=message, request_id=request_id, dry_run=dry_run)

    def put_many(
        self, changes: Iterable[Change], *, message: str = "", request_id: str | None = None, dry_run: bool = False
    ) -> Written:
        """`put` for a list."""
        given: dict[str, Any] = {"request_id": request_id} if request_id else {}
        answer = self._write(
            "put",
            changes=[dict(one) for one in changes],
            message=message,
            conflicts="show",
            **({"dry_run": True} if dry_run else {}),
            **given,
        )
        return values.written(answer)

    @property
    def graph(self) -> nx.MultiDiGraph[str]:
        """The stored nodes and edges as a read-only `networkx.MultiDiGraph`, as of the commit `graph.graph["commit"]`.

        Later changes do not affect it; the next access returns the current graph. A node is its URI. Its attribute
        `card` has the fields `type`, `name` and `summary`; the target of a broken link has no attributes. The key of an
        edge is its type; an edge has `weight` and, if the relation has any, `data`. To change a graph, make a copy with
        `graph.copy()`.

        The memory is mapped from a file of the daemon and shared with it.

        Raises:
            Unavailable: The file cannot be read by this program.
        """
        # Imported here because networkx takes longer to import than the rest of the library.
        from kgd.api.mapped_graph import MappedGraph

        mapped = self._mapped = self._mapped or MappedGraph(self._call)
        return cast("nx.MultiDiGraph[str]", mapped.now())

    def status(self) -> dict[str, Any]:
        """The health of the workspace, as in `kgd status`: stages, counts, conflicts, problems."""
        return self._call("status")

    def create_node(
        self,
        type: str = "",
        name: str = "",
        *,
        namespace: str = "",
        uri: str | None = None,
        summary: str = "",
        content: str = "",
        tags: Sequence[str] = (),
        data: dict[str, Any] | None = None,
        source: Source | tuple[str, str] | None = None,
        detail: str = "",
        message: str = "",
        **fields: Any,
    ) -> Node:
        """Create a new node.

        Its URI is made from type, namespace and name, with a number after the name if that URI is taken. If you pass
        `uri`, it must not be in use.

        Args:
            type: Any text. Some types have their own URI scheme (docs/concepts.md); all other types use `concept`.
            namespace: A path such as ``services/billing``.
            summary: One line of at most 100 characters.
            source: Its origin, for `nodes_by_source` and `delete_nodes_by_source`.
            detail: The Markdown detail of a decision, pattern, gotcha, insight or task, kept as a separate file.
            message: The commit's subject; generated if empty.
            fields: Other fields of `NewNode`.

        Raises:
            Stale: The `uri` is already in use.
            KgdError: A field is invalid. Nothing was written.
        """
        node = NewNode(type, name, namespace, uri, summary, content, tags, data or {}, source, detail=detail, **fields)
        return self.create_nodes([node], message=message)[0]

    def create_nodes(self, nodes: Iterable[NewNode], *, message: str = "") -> list[Node]:
        """Create all nodes in one commit, or none; at most 2,000. Returns them in order.

        Raises:
            KgdError: Its `at` names the first wrong node, such as ``nodes[3]``. Nothing was written.
        """
        asked = [new_node(node) for node in nodes]
        if not asked:
            return []
        answer = self._write("create_nodes", nodes=asked, message=message)
        return [values.node(one) for one in answer["nodes"]]

    def get_node(self, uri: NodeRef, *, content: bool = True) -> Node | None:
        """The current node, or None. A moved node is also found under its former URIs.

        Raises:
            Unavailable: The node is in a workspace on a hub.
        """
        found = self.get_nodes([uri], content=content)
        return found[0] if found else None

    def get_nodes(self, uris: Iterable[NodeRef], *, content: bool = True) -> list[Node]:
        """The existing nodes, in the order of `uris`.

        Raises:
            Unavailable: A node is in a workspace on a hub.
        """
        elsewhere = list[str]()
        found = self._found([uri_of(one) for one in uris], content=content, elsewhere=elsewhere)
        if elsewhere:
            raise Unavailable(
                "this node is in a workspace on a hub",
                at=elsewhere[0],
                next=Advice("Reach it with ", Do("traverse"), " from a node of this workspace."),
            )
        return found

    def update_node(
        self,
        node: NodeRef,
        *,
        type: str | None = None,
        name: str | None = None,
        summary: str | None = None,
        content: str | None = None,
        tags: Sequence[str] | None = None,
        data: dict[str, Any] | None = None,
        source: Source | tuple[str, str] | None = None,
        detail: str | None = None,
        unset: Sequence[str] = (),
        expect_version: int | None = None,
        message: str = "",
        **fields: Any,
    ) -> Node:
        """Replace the given fields; returns the changed node.

        Without `expect_version`, the current node is changed. If you pass the `version` of a node that you have read,
        the call is refused if the node or its edges have changed since.

        Args:
            tags: All tags of the node after the call.
            data: Merged by key, including nested maps; None deletes a key.
            unset: Fields, or ``data.<key>``, to clear.
            fields: Other fields of a node, by name.

        Raises:
            NotFound: The node does not exist.
            Stale: The node has changed since; `current` is its version.
        """
        answer = self._write(
            "update_node",
            uri=uri_of(node),
            type=type,
            name=name,
            summary=summary,
            content=content,
            tags=None if tags is None else texts(tags),
            data=data,
            source=source_of(source),
            detail=detail,
            unset=texts(unset),
            expect_version=expect_version,
            message=message,
            **fields,
        )
        return values.node(answer["node"])

    def delete_node(self, node: NodeRef, *, expect_version: int | None = None, message: str = "") -> None:
        """Delete the node with its outgoing edges. Incoming edges become broken links.

        Raises:
            NotFound: There is no such node.
            Stale: The node is at another version.
        """
        self._write("delete_nodes", uris=[uri_of(node)], expect_version=expect_version, message=message)

    def delete_nodes(self, nodes: Iterable[NodeRef], *, message: str = "") -> int:
        """Delete all nodes in one commit, or none, at any version; at most 2,000. Returns the number."""
        uris = [uri_of(one) for one in nodes]
        return self._write("delete_nodes", uris=uris, message=message)["deleted"] if uris else 0

    def delete_nodes_by_source(self, type: str, id: str, *, message: str = "") -> int:
        """Delete all nodes of this source; returns the number.

        Each commit deletes up to 2,000 nodes. If it fails, repeat the call to delete the remaining nodes.
        """
        answer = self._call("delete_nodes", source={"type": type, "id": id}, message=message)
        return int(answer["deleted"])

    def nodes(self, namespace: str = "", *, types: Sequence[str] = (), content: bool = False) -> Iterator[Node]:
        """The stored nodes in or below a namespace, under every scheme, sorted by URI; without a namespace, all nodes
        of the workspace.

        Nodes are read page by page; nodes written in between may be missing. Without `content` no full text is read.
        """
        return self._listed(namespace=namespace, types=texts(types), content=content)

    def nodes_by_source(
        self, type: str, id: str | None = None, *, types: Sequence[str] = (), content: bool = False
    ) -> Iterator[Node]:
        """The nodes from one source, or from all sources of this type, sorted by URI and read page by page."""
        source = {"type": type} if id is None else {"type": type, "id": id}
        return self._listed(source=source, types=texts(types), content=content)

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

        The target may be missing. If it is a file or an external address, its node is created; any other edge is broken
        until the node is written.

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
            KgdError: Its `at` names the first wrong edge, such as ``edges[3]``. Nothing was written.
        """
        asked = [new_edge(edge) for edge in edges]
        if not asked:
            return []
        answer = self._write("create_edges", edges=asked, message=message)
        return [values.value_of(Edge, one) for one in answer["edges"]]

    def get_edges(
        self, node: NodeRef, direction: Literal["in", "out", "both"] = "both", *, edge_types: Sequence[str] = ()
    ) -> list[Edge]:
        """The outgoing edges, followed by the incoming edges; both are sorted by weight, other end and type.

        Edges of the code tree are included; mentions are included only if `edge_types` names MENTIONS.

        Raises:
            NotFound: There is no such node, and no edge leads to it.
        """
        pages = self._pages("edges", uri=uri_of(node), direction=direction, edge_types=texts(edge_types))
        return [values.value_of(Edge, one) for page in pages for one in page["edges"]]

    def delete_edge(self, edge: Edge | str | tuple[NodeRef, NodeRef, str], *, message: str = "") -> None:
        """Delete an edge, given as a value, by its id, or as (source, target, type).

        The first look-up by id in a session scans all edges.

        Raises:
            NotFound: There is no such edge.
        """
        if isinstance(edge, str):
            self._write("delete_edges", ids=[edge], message=message)
            return
        source, target, type = (edge.source, edge.target, edge.type) if isinstance(edge, Edge) else edge
        ends = {"source": uri_of(source), "target": uri_of(target), "type": type}
        self._write("delete_edges", edges=[ends], message=message)

    def delete_edges_for_node(self, node: NodeRef, *, message: str = "") -> int:
        """Delete every stored edge of the node in both directions; returns the number.

        Each commit deletes up to 2,000 edges.

        Raises:
            NotFound: There is no such node.
        """
        return int(self._call("delete_edges", uri=uri_of(node), message=message)["deleted"])


def open(
    directory: str | os.PathLike[str] = ".",
    *,
    workspace: str | None = None,
    create: bool = False,
    client: str = "python",
) -> Workspace:
    """Open the workspace of a directory or of one of its parents.

    Calls go to your kgd daemon. If no daemon is running, one is started.

    Args:
        directory: The base of relative paths such as ``./src/a.py``.
        workspace: The id of the workspace to open instead of the directory's.
        create: Whether to create a missing workspace, as `kgd up` does.
        client: The program's name, recorded next to your own as the author of its changes.

    Raises:
        NotFound: The directory has no workspace.
        Unavailable: The daemon cannot be started.
    """
    place = os.path.abspath(directory)
    connections = Connections(Home.find(), place, client)
    try:
        if create and workspace is None:
            connections.call("up", {"directory": place, "environment": person_environment()})
        found = connections.call("nodes", {"workspace": workspace or place})
    except BaseException:
        connections.close()
        raise
    return Workspace(connections, str(found["workspace"]))
