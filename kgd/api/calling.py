"""Calls of operations: pages are joined into one answer, and a node may stand for its URI."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kgd.api import reading
from kgd.api.values import Edge, NewEdge, NewNode, Node, Source

if TYPE_CHECKING:
    from kgd.api.connections import Connections, Progress

NodeRef = str | Node
"""A node, or its URI in any spelling: in full, ``concept:auth``, or a path."""

Change = Mapping[str, Any]
"""One change as `put` takes it: ``{"op": "upsert", "uri": ...}``."""


BATCH = 1_000
"""Nodes read in one call."""
NULLABLE = ("max_cost",)
"""Parameters for which null has a meaning. Elsewhere None means "not given"."""


class Calling:
    """The base of all groups of operations."""

    _connections: Connections
    id: str
    """The workspace's id, which every URI contains."""

    def _call(self, name: str, progress: Progress | None = None, /, **args: Any) -> dict[str, Any]:
        given = {key: value for key, value in args.items() if value is not None or key in NULLABLE}
        return self._connections.call(name, {**given, "workspace": self.id}, progress)

    def _write(self, name: str, /, **args: Any) -> dict[str, Any]:
        """A call with a request id: if its answer is lost, it is sent again and still applied once."""
        return self._call(name, **{"request_id": secrets.token_hex(12), **args})

    def _pages(self, name: str, /, **args: Any) -> Iterator[dict[str, Any]]:
        cursor = None
        while True:
            page = self._call(name, **args, cursor=cursor)
            yield page
            cursor = page.get("cursor")
            if cursor is None:
                return

    def _found(self, uris: Sequence[str], *, content: bool, elsewhere: list[str] | None = None) -> list[Node]:
        """The existing nodes. URIs of nodes on a hub are appended to `elsewhere`."""
        found = list[Node]()
        for first in range(0, len(uris), BATCH):
            for page in self._pages("nodes", uris=uris[first : first + BATCH], content=content):
                found += map(reading.node, page["nodes"])
                if elsewhere is not None:
                    elsewhere += page.get("elsewhere", ())
        return found

    def _listed(self, **args: Any) -> Iterator[Node]:
        for page in self._pages("nodes", **args):
            yield from map(reading.node, page["nodes"])


def uri_of(node: NodeRef) -> str:
    return node.uri if isinstance(node, Node) else node


def texts(given: Sequence[str] | str) -> list[str]:
    """A list; a single text becomes a list of one."""
    return [given] if isinstance(given, str) else list(given)


def source_of(source: Source | tuple[str, str] | None) -> dict[str, str] | None:
    if source is None:
        return None
    type, id = (source.type, source.id) if isinstance(source, Source) else source
    return {"type": type, "id": id}


def new_node(node: NewNode) -> dict[str, Any]:
    """The given fields."""
    given = {
        "uri": node.uri,
        "type": node.type,
        "name": node.name,
        "namespace": node.namespace,
        "summary": node.summary,
        "content": node.content,
        "tags": texts(node.tags),
        "data": node.data,
        "source": source_of(node.source),
        "aliases": texts(node.aliases),
        "detail": node.detail,
    }
    return {name: value for name, value in given.items() if value not in (None, "", [], {})}


def new_edge(edge: NewEdge | Edge) -> dict[str, Any]:
    given = {"source": edge.source, "target": edge.target, "type": edge.type, "weight": edge.weight, "data": edge.data}
    return {name: value for name, value in given.items() if value is not None}
