"""The pending batch: the effect of changes that are staged but not yet durable, on top of the served tip.

Changes in one flush are staged in turn, and graph, versions and request ids follow only when all are durable. A later
change must see the earlier ones. Otherwise two changes that expect the same version would both succeed, and the second
would bury the first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from kgd.codec.bulk import folder_of, is_path
from kgd.codec.paths import path_of
from kgd.model.node import Node
from kgd.model.uri import Uri, collision_key
from kgd.workspace.surroundings import Surroundings


@dataclass(eq=False)
class PendingBatch(Surroundings):
    """The surroundings of the next change in a flush. For the writer's thread; empty between flushes."""

    _counts: Counter[str] = field(default_factory=Counter, init=False)
    _nodes: dict[Uri, Node | None] = field(default_factory=dict, init=False)
    _parts: dict[str, set[str]] = field(default_factory=dict, init=False)
    """The parts that this flush changes, by folder."""
    _unkeyed: list[Uri] = field(default_factory=list, init=False)
    _keys: dict[str, list[Uri]] = field(default_factory=dict, init=False)
    """Nodes by collision key; filled when the first new name is compared."""

    def begin(self) -> None:
        """Start a flush with the served tip alone."""
        self._counts.clear()
        self._nodes.clear()
        self._parts.clear()
        self._unkeyed.clear()
        self._keys.clear()

    def note(self, paths: Iterable[str], nodes: Mapping[Uri, Node | None]) -> None:
        """Add a staged change: the paths of its files, and its nodes afterwards (None: removed)."""
        paths = list(paths)
        for path in filter(is_path, paths):
            self._parts.setdefault(path.rpartition("/")[0], set()).add(path)
        own = (path_of(uri, self.sharded) for uri in nodes)  # a change of the detail alone counts for its node too
        self._counts.update({*paths, *own})
        self._nodes.update(nodes)
        self._unkeyed += nodes

    def version(self, path: str) -> int:
        return self.count(path) + self._counts[path]

    def resolve(self, uri: Uri) -> Uri:
        if self._nodes.get(uri) is not None:
            return uri
        claims = [new for new, node in self._nodes.items() if node and uri in node.aliases]
        found = super().resolve(uri)
        if found != uri and found not in self._nodes:
            claims.append(found)
        return min(claims, default=uri)

    def twin(self, uri: Uri) -> Uri | None:
        found = super().twin(uri)
        gone = found in self._nodes and self._nodes[found] is None
        if not self._nodes or (found is not None and not gone):
            return found
        for known in self._unkeyed:
            self._keys.setdefault(collision_key(known), []).append(known)
        self._unkeyed.clear()
        return next((u for u in self._keys.get(collision_key(uri), ()) if u != uri and self._nodes[u]), None)

    def parts_of(self, uri: Uri) -> Collection[str]:
        """The served part and every part of the folder that this flush changes."""
        return sorted({*(super().parts_of(uri) or ()), *self._parts.get(folder_of(uri) or "", ())})

    def memory_names(self) -> Collection[str]:
        return {*super().memory_names(), *(path_of(uri, self.sharded) for uri in self._nodes)}
