"""The surroundings of a change: the graph, versions and files against which its edits are checked, at the tip or a
commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from kgd.codec.paths import MEMORY_FOLDER, conflict_path, is_part_path, part_folder_of, path_of
from kgd.git.objects import ObjectId
from kgd.git.store import ObjectStore
from kgd.graph.live_graph import LiveGraph
from kgd.model.node import Node
from kgd.model.uri import Uri, collision_key
from kgd.workspace import memory_files
from kgd.workspace.answers import InvalidFile
from kgd.workspace.history.commits import Past
from kgd.workspace.merging.files import decoded
from kgd.workspace.served import SentVersions, Served


class MemoryNames:
    """Paths of the node files that may name a memory: possibly too many, but never too few. For the thread that
    flushes.

    The first call reads every node of its tree, a later call only the files that have changed since then.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._tree: ObjectId | None = None
        self._paths: set[str] = set()

    def paths(self, tree: ObjectId) -> frozenset[str]:
        for path, _, new in self._store.diff(self._tree, tree):
            if path.startswith("nodes/"):
                data = self._store.read(new) if new else b""
                # YAML writes the first part of the path literally, unless the text has an escape.
                if MEMORY_FOLDER.encode() in data or b"\\" in data:
                    self._paths.add(path)
                else:
                    self._paths.discard(path)
        self._tree = tree
        return frozenset(self._paths)


@dataclass(eq=False)
class Surroundings:
    """The surroundings of a change at the served tip, read from memory.

    Args:
        count: Returns the version of a file; 0 if it has none.
        knows_workspace: Returns whether the registry lists another workspace.
    """

    past: Past
    served: Served
    sent: SentVersions
    count: Callable[[str], int]
    in_overlay: Callable[[Uri], bool]
    knows_workspace: Callable[[str], bool]

    def __post_init__(self) -> None:
        self.workspace, self.sharded = self.past.workspace, self.past.sharded
        self._memory_names = MemoryNames(self.past.store)

    def at(self, base: ObjectId, tip: ObjectId) -> PastSurroundings:
        """The surroundings at an older commit."""
        return PastSurroundings(
            self.past, self.served, self.sent, self.count, self.in_overlay, self.knows_workspace, base, tip
        )

    @property
    def graph(self) -> LiveGraph:
        """The graph at the served tip, also for the surroundings at an older commit."""
        return self.served.graph

    def resolve(self, uri: Uri) -> Uri:
        return self.served.graph.resolve(uri)

    def twin(self, uri: Uri) -> Uri | None:
        """Another node whose name some file systems cannot distinguish from this node's name."""
        return self.served.graph.twin(uri)

    def version(self, path: str) -> int:
        return self.count(path)

    def served_blob(self, path: str, version: int) -> bytes | None:
        return self.sent.blob(path, version)

    def parts_of(self, uri: Uri) -> Collection[str] | None:
        """The parts that may contain the node; None if that can only be found in the tree."""
        at = self.served.locations.part_with(uri)
        return (at.path,) if at else ()

    def invalid_file(self, path: str) -> InvalidFile | None:
        return self.served.invalid_file(path)

    def memory_names(self) -> Collection[str]:
        """Paths of the nodes that may name a memory, at the tip. For the thread that flushes."""
        return self._memory_names.paths(self.served.tree) if self.served.tree else ()


@dataclass(eq=False)
class PastSurroundings(Surroundings):
    """The surroundings of a change that is based on an older commit.

    The versions at the tip are known; versions of files that changed since the older commit are counted again.
    """

    base: ObjectId
    tip: ObjectId

    def __post_init__(self) -> None:
        super().__post_init__()
        self._store = store = self.past.nodes()
        self._then, self._now = store.tree_of(self.base), store.tree_of(self.tip)
        self._graph = self.past.graph_at(self.base, self.tip, self.served.graph)

    def resolve(self, uri: Uri) -> Uri:
        return self._graph.resolve(uri)

    def version(self, path: str) -> int:
        if self._is_unchanged(path):
            return self.count(path)
        return len(self.past.log(self.base, self._files(path), limit=100_000))

    def version_at_base(self, path: str) -> int:
        """The version of a file at the commit; 0 if it was absent."""
        return self.version(path) if self._store.entry(self._then, path) else 0

    def parts_of(self, uri: Uri) -> None:
        return None

    def invalid_file(self, path: str) -> InvalidFile | None:
        return self.served.invalid_file(path) if self._is_unchanged(path) else None

    def memory_names(self) -> Collection[str]:
        return MemoryNames(self.past.store).paths(self._then)

    def _files(self, path: str) -> tuple[str, ...]:
        """A node's file, its detail file under its name at that commit, and the folder of its conflicts."""
        blob = self._store.entry(self._then, path)
        node = decoded(path, self._store.read(blob)) if blob else None
        if not isinstance(node, Node):
            return (path,)
        folder = conflict_path(node.uri, "", self.sharded).rpartition("/")[0]
        return tuple(filter(None, (path, memory_files.file_of(node), folder)))

    def _is_unchanged(self, path: str) -> bool:
        store = self._store
        return all(store.lookup(self._then, file) == store.lookup(self._now, file) for file in self._files(path))


@dataclass(eq=False)
class PendingBatch(Surroundings):
    """The surroundings of the next change in a flush. For the thread that flushes; empty between flushes."""

    _counts: Counter[str] = field(default_factory=Counter, init=False)
    _nodes: dict[Uri, Node | None] = field(default_factory=dict, init=False)
    _moved: dict[Uri, Node] = field(default_factory=dict, init=False)
    """Those of the nodes that have aliases."""
    _parts: dict[str, set[str]] = field(default_factory=dict, init=False)
    """The parts that this flush changes, by folder."""
    _unkeyed: list[Uri] = field(default_factory=list, init=False)
    _keys: dict[str, list[Uri]] = field(default_factory=dict, init=False)
    """Nodes by collision key; filled when the first new name is compared."""

    def begin(self) -> None:
        """Start a flush with only the served tip."""
        self._counts.clear()
        self._nodes.clear()
        self._moved.clear()
        self._parts.clear()
        self._unkeyed.clear()
        self._keys.clear()

    def note(self, paths: Iterable[str], nodes: Mapping[Uri, Node | None]) -> None:
        """Add a staged change: the paths of its files, and its nodes afterwards (None: removed)."""
        paths = list(paths)
        for path in filter(is_part_path, paths):
            self._parts.setdefault(path.rpartition("/")[0], set()).add(path)
        own = (path_of(uri, self.sharded) for uri in nodes)  # a change of only the detail changes its node too
        self._counts.update({*paths, *own})
        self._nodes.update(nodes)
        for uri, node in nodes.items():
            if node and node.aliases:
                self._moved[uri] = node
            else:
                self._moved.pop(uri, None)
        self._unkeyed += nodes

    def version(self, path: str) -> int:
        return self.count(path) + self._counts[path]

    def resolve(self, uri: Uri) -> Uri:
        if self._nodes.get(uri) is not None:
            return uri
        claims = [new for new, node in self._moved.items() if uri in node.aliases]
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
        """The part that the node is served from, and all parts of its folder that this flush changes."""
        return sorted({*(super().parts_of(uri) or ()), *self._parts.get(part_folder_of(uri) or "", ())})

    def memory_names(self) -> Collection[str]:
        return {*super().memory_names(), *(path_of(uri, self.sharded) for uri in self._nodes)}
