"""This file is where a flush in the making knows itself: what its earlier changes did, before anything serves it.

Changes that wait together are staged one after the other, and the graph, the versions and the request ids follow only
when all of them are durable. A later change has to see the earlier ones all the same: else two that expect the same
version would both be done, and the second would bury the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from kgd.codec.bulk import folder_of, is_path
from kgd.codec.paths import path_of
from kgd.graph.edges import Edge
from kgd.model.node import Node
from kgd.model.uri import Uri, collision_key
from kgd.workspace.draft import Surroundings
from kgd.workspace.outcome import InvalidFile


class Ahead:
    """The surroundings of the next change: what is served, and on top of it what this flush has staged so far.

    For the writer's thread alone. Empty between flushes, so that it costs nothing where nobody writes together.
    """

    def __init__(self, served: Surroundings) -> None:
        self._served = served
        self._counts: Counter[str] = Counter()
        self._nodes: dict[Uri, Node | None] = {}
        self._parts: dict[str, set[str]] = {}
        """The parts that this flush has changed, by folder."""
        self._unkeyed: list[Uri] = []
        self._keys: dict[str, list[Uri]] = {}
        """Which nodes have which collision key; made when a new name is first compared."""

    def begin(self) -> None:
        """A flush begins: what is served is all there is."""
        self._counts.clear()
        self._nodes.clear()
        self._parts.clear()
        self._unkeyed.clear()
        self._keys.clear()

    def note(self, paths: Iterable[str], nodes: Mapping[Uri, Node | None]) -> None:
        """A change was staged: the files it changes, and its nodes as it leaves them (None: removed)."""
        paths = list(paths)
        for path in filter(is_path, paths):
            self._parts.setdefault(path.rpartition("/")[0], set()).add(path)
        own = (path_of(uri, self.sharded) for uri in nodes)  # a change of the detail alone counts for its node too
        for path in dict.fromkeys((*paths, *own)):
            self._counts[path] += 1
        self._nodes.update(nodes)
        self._unkeyed += nodes

    @property
    def workspace(self) -> str:
        return self._served.workspace

    @property
    def sharded(self) -> frozenset[str]:
        return self._served.sharded

    def version(self, path: str) -> int:
        return self._served.version(path) + self._counts[path]

    def resolve(self, uri: Uri) -> Uri:
        if self._nodes.get(uri) is not None:
            return uri
        claims = [new for new, node in self._nodes.items() if node and uri in node.aliases]
        found = self._served.resolve(uri)
        if found != uri and found not in self._nodes:
            claims.append(found)
        return min(claims, default=uri)

    def twin(self, uri: Uri) -> Uri | None:
        found = self._served.twin(uri)
        gone = found in self._nodes and self._nodes[found] is None
        if not self._nodes or (found is not None and not gone):
            return found
        for known in self._unkeyed:
            self._keys.setdefault(collision_key(known), []).append(known)
        self._unkeyed.clear()
        return next((u for u in self._keys.get(collision_key(uri), ()) if u != uri and self._nodes[u]), None)

    def naming(self) -> Collection[str]:
        return {*self._served.naming(), *(path_of(uri, self.sharded) for uri in self._nodes)}

    def in_overlay(self, uri: Uri) -> bool:
        return self._served.in_overlay(uri)

    def served_blob(self, path: str, version: int) -> bytes | None:
        return self._served.served_blob(path, version)

    def parts_of(self, uri: Uri) -> Collection[str] | None:
        """Those that this flush has changed may have come to hold it, too."""
        known, folder = self._served.parts_of(uri), folder_of(uri)
        changed = self._parts.get(folder or "", ())
        return sorted({*known, *changed}) if known is not None else None

    def incoming(self, uri: Uri) -> Sequence[Edge]:
        return self._served.incoming(uri)

    def invalid_file(self, path: str) -> InvalidFile | None:
        return self._served.invalid_file(path)

    def knows_workspace(self, workspace: str) -> bool:
        return self._served.knows_workspace(workspace)
