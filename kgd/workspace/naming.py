"""This file is where it is known which nodes may name a memory, so that a change of one need not read all nodes."""

from __future__ import annotations

from kgd.codec.memories import FOLDER
from kgd.git.objects import ObjectId
from kgd.git.store import ObjectStore


class Naming:
    """Paths of the node files that may name a memory; never too few. For the writer's thread.

    The first question reads every node of its tree, each later one what differs since.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._tree: ObjectId | None = None
        self._paths: set[str] = set()

    def paths(self, tree: ObjectId) -> frozenset[str]:
        """Those of a tree."""
        for path, _, new in self._store.diff(self._tree, tree):
            if path.startswith("nodes/"):
                data = self._store.read(new) if new else b""
                # Whatever way YAML writes the path, its first part stands there as it is, unless something is escaped.
                if FOLDER.encode() in data or b"\\" in data:
                    self._paths.add(path)
                else:
                    self._paths.discard(path)
        self._tree = tree
        return frozenset(self._paths)
