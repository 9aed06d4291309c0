"""This file is where the operations on nodes are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from kgd.api import reading
from kgd.api.calling import Calling, NodeRef, new_node, source_of, texts, uri_of
from kgd.api.values import NewNode, Node, Source
from kgd.errors import Unavailable


class NodeOperations(Calling):
    """Create, read, update, delete; in batches, by namespace, by source."""

    def create_node(
        self, type: str = "", name: str = "", *, namespace: str = "", uri: str | None = None, summary: str = "",
        content: str = "", tags: Sequence[str] = (), data: dict[str, Any] | None = None,
        source: Source | tuple[str, str] | None = None, detail: str = "", message: str = "",
    ) -> Node:  # fmt: skip
        """Make a node that is not there yet.

        Its URI is made of type, namespace and name; where that is taken, a number behind the name makes it its own. A
        `uri` that you give yourself must be free.

        Args:
            type: Any text. The types that have a URI scheme of their own (docs/concepts.md) get it, others `concept`.
            namespace: A path such as ``services/billing``.
            summary: One line of at most 100 characters.
            source: Where it was taken from, for `nodes_by_source` and `delete_nodes_by_source`.
            detail: The Markdown behind a decision, pattern, gotcha, insight or task, which gets a file of its own.
            message: The commit's subject; one is made if it is empty.

        Raises:
            Stale: A node has this `uri` already.
            KgdError: Something in it is not allowed. Nothing was written.
        """
        node = NewNode(type, name, namespace, uri, summary, content, tags, data or {}, source, detail=detail)
        return self.create_nodes([node], message=message)[0]

    def create_nodes(self, nodes: Iterable[NewNode], *, message: str = "") -> list[Node]:
        """Make all of them as one commit, or none; at most 2,000. In their order.

        Raises:
            KgdError: Its `at` names the first that is wrong, as ``nodes[3]``. Nothing was written.
        """
        asked = [new_node(node) for node in nodes]
        if not asked:
            return []
        answer = self._write("create_nodes", nodes=asked, message=message)
        return [reading.node(one) for one in answer["nodes"]]

    def get_node(self, uri: NodeRef, *, content: bool = True) -> Node | None:
        """The node as it is now, or None. A URI that it had before it was moved finds it too.

        Raises:
            Unavailable: It is in a workspace that is on a hub, which is not asked.
        """
        found = self.get_nodes([uri], content=content)
        return found[0] if found else None

    def get_nodes(self, uris: Iterable[NodeRef], *, content: bool = True) -> list[Node]:
        """Those that there are, in the order of `uris`.

        Raises:
            Unavailable: One is in a workspace that is on a hub, which is not asked.
        """
        elsewhere = list[str]()
        found = self._found([uri_of(one) for one in uris], content=content, elsewhere=elsewhere)
        if elsewhere:
            raise Unavailable(
                "this node is in a workspace on a hub", at=elsewhere[0],
                next="traverse from a node of this workspace leads there, and says what it is.",
            )  # fmt: skip
        return found

    def update_node(
        self, node: NodeRef, *, type: str | None = None, name: str | None = None, summary: str | None = None,
        content: str | None = None, tags: Sequence[str] | None = None, data: dict[str, Any] | None = None,
        source: Source | tuple[str, str] | None = None, detail: str | None = None, unset: Sequence[str] = (),
        expect_version: int | None = None, message: str = "",
    ) -> Node:  # fmt: skip
        """Replace what is named and leave the rest; returns the node as it is then.

        Without `expect_version` it is done to the node as it is. With the `version` of a node that you have read, it is
        refused if anybody changed the node or its edges since.

        Args:
            tags: All tags that it has afterwards.
            data: Merged by key, maps within maps too; None deletes a key.
            unset: Fields, or ``data.<key>``, to clear.

        Raises:
            NotFound: There is no such node.
            Stale: It was changed since; its `current` is the version it has.
        """
        answer = self._write(
            "update_node", uri=uri_of(node), type=type, name=name, summary=summary, content=content,
            tags=None if tags is None else texts(tags), data=data, source=source_of(source), detail=detail,
            unset=texts(unset), expect_version=expect_version, message=message,
        )  # fmt: skip
        return reading.node(answer["node"])

    def delete_node(self, node: NodeRef, *, expect_version: int | None = None, message: str = "") -> None:
        """Delete it with the edges that leave it. Those that lead to it stay, as broken links.

        Raises:
            NotFound: There is no such node.
            Stale: It is not at `expect_version` any more.
        """
        self._write("delete_nodes", uris=[uri_of(node)], expect_version=expect_version, message=message)

    def delete_nodes(self, nodes: Iterable[NodeRef], *, message: str = "") -> int:
        """Delete all of them as one commit, or none, whatever their versions; at most 2,000. Returns how many."""
        uris = [uri_of(one) for one in nodes]
        return self._write("delete_nodes", uris=uris, message=message)["deleted"] if uris else 0

    def delete_nodes_by_source(self, type: str, id: str, *, message: str = "") -> int:
        """Delete all nodes that have this source, however many; returns how many they were.

        Each 2,000 of them are one commit. After an error in between the rest is there, and the same call takes it.
        """
        answer = self._call("delete_nodes", source={"type": type, "id": id}, message=message)
        return int(answer["deleted"])

    def nodes(self, namespace: str = "", *, types: Sequence[str] = (), content: bool = False) -> Iterator[Node]:
        """What is stored in a namespace and below it, under every scheme, by URI; all of the workspace without one.

        They come page by page, so that a large namespace needs little memory; what is written meanwhile may or may not
        be among them. Without `content` no full text is read.
        """
        return self._listed(namespace=namespace, types=texts(types), content=content)

    def nodes_by_source(
        self, type: str, id: str | None = None, *, types: Sequence[str] = (), content: bool = False
    ) -> Iterator[Node]:
        """Nodes that were taken from a source, or from any source of this type, by URI, page by page."""
        source = {"type": type} if id is None else {"type": type, "id": id}
        return self._listed(source=source, types=texts(types), content=content)
