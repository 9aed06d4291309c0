"""Operations on nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kgd.api import reading
from kgd.api.calling import Calling, NodeRef, new_node, source_of, texts, uri_of
from kgd.api.values import NewNode, Node, Source
from kgd.errors import Advice, Do, Unavailable


class NodeOperations(Calling):
    """Create, read, update, delete; in batches, by namespace, by source."""

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
    ) -> Node:
        """Create a new node.

        Its URI is made of type, namespace and name, with a number after the name if that URI is taken. A `uri` that you
        give must be free.

        Args:
            type: Any text. Types with their own URI scheme (docs/concepts.md) get it, others get `concept`.
            namespace: A path such as ``services/billing``.
            summary: One line of at most 100 characters.
            source: Its origin, for `nodes_by_source` and `delete_nodes_by_source`.
            detail: The Markdown detail of a decision, pattern, gotcha, insight or task, kept as a separate file.
            message: The commit's subject; generated if empty.

        Raises:
            Stale: The `uri` is taken.
            KgdError: A field is invalid. Nothing was written.
        """
        node = NewNode(type, name, namespace, uri, summary, content, tags, data or {}, source, detail=detail)
        return self.create_nodes([node], message=message)[0]

    def create_nodes(self, nodes: Iterable[NewNode], *, message: str = "") -> list[Node]:
        """Create all nodes in one commit, or none; at most 2,000. Returns them in order.

        Raises:
            KgdError: Its `at` names the first wrong node, as ``nodes[3]``. Nothing was written.
        """
        asked = [new_node(node) for node in nodes]
        if not asked:
            return []
        answer = self._write("create_nodes", nodes=asked, message=message)
        return [reading.node(one) for one in answer["nodes"]]

    def get_node(self, uri: NodeRef, *, content: bool = True) -> Node | None:
        """The current node, or None. Former URIs of a moved node also find it.

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
    ) -> Node:
        """Replace the given fields; returns the changed node.

        Without `expect_version` the current node is changed. With the `version` of a node that you have read, the call
        is refused if the node or its edges have changed since.

        Args:
            tags: All tags of the node after the call.
            data: Merged by key, maps within maps too; None deletes a key.
            unset: Fields, or ``data.<key>``, to clear.

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
        )
        return reading.node(answer["node"])

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

        Each 2,000 nodes are one commit. After an error the same call deletes the rest.
        """
        answer = self._call("delete_nodes", source={"type": type, "id": id}, message=message)
        return int(answer["deleted"])

    def nodes(self, namespace: str = "", *, types: Sequence[str] = (), content: bool = False) -> Iterator[Node]:
        """The stored nodes of a namespace and below it, under every scheme, by URI; without one, of the workspace.

        Nodes are read page by page; nodes written meanwhile may be missing. Without `content` no full text is read.
        """
        return self._listed(namespace=namespace, types=texts(types), content=content)

    def nodes_by_source(
        self, type: str, id: str | None = None, *, types: Sequence[str] = (), content: bool = False
    ) -> Iterator[Node]:
        """The nodes of a source, or of all sources of this type, by URI, page by page."""
        source = {"type": type} if id is None else {"type": type, "id": id}
        return self._listed(source=source, types=texts(types), content=content)
