"""The served state of the tip: live graph, unreadable files and open conflicts.

All of it is derived: it equals a fresh load of the tip at any time, and follows by tree diffs. An unreadable file is
reported, and its last good value stays served.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import NamedTuple

from kgd.codec import bulk, documents, memories, paths
from kgd.codec.fast_reader import Lean, glance
from kgd.errors import Invalid, KgdError
from kgd.git.history import Change as History
from kgd.git.objects import FOLDER, LINK, PLAIN, Entry, ObjectId
from kgd.git.store import ObjectStore
from kgd.graph.arrays import Arrays
from kgd.graph.edges import Card
from kgd.graph.live_graph import Frozen, LiveGraph
from kgd.model.fields import misspelt
from kgd.model.node import Node, Relation
from kgd.model.uri import Uri, parse, workspace_of
from kgd.workspace.answers import InvalidFile
from kgd.workspace.files import memory_files, parts
from kgd.workspace.files.parts import FILE_LIMIT, NodeFiles, node_changes
from kgd.workspace.tip.part_locations import PartLocations

FREEZE_FROM = 5_000
"""Nodes loaded at once from which on they are exempt from garbage collection."""

NO_NODES: Mapping[str, Node] = MappingProxyType({})

LastGood = Callable[[str], ObjectId | None]


class Change(NamedTuple):
    """One changed node, for derived indexes."""

    path: str
    uri: Uri
    blob: ObjectId | None


class Served:
    """The graph and related state of one workspace. Changed in the writer's thread, read by any.

    Args:
        last_good: The newest readable blob in the history of a path; called for unreadable files only.
    """

    def __init__(self, store: ObjectStore, workspace: str, sharded: frozenset[str], last_good: LastGood) -> None:
        self._store, self._workspace, self._sharded, self._last_good = store, workspace, sharded, last_good
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Serve nothing, as before the first `load`."""
        self.graph = LiveGraph(self._workspace)
        self.tree: ObjectId | None = None
        self._invalid: dict[str, InvalidFile] = {}
        self._conflicts: dict[str, set[str]] = {}
        self._disputed: set[Uri] = set()
        self._misspelt: dict[str, tuple[str, ...]] = {}
        self._cut: dict[str, Uri] = {}
        """Paths that do not tell their URI."""
        self.locations = PartLocations()

    # ---- reading

    def invalid_files(self) -> tuple[InvalidFile, ...]:
        with self._lock:
            return tuple(self._invalid[path] for path in sorted(self._invalid))

    def invalid_file(self, path: str) -> InvalidFile | None:
        return self._invalid.get(path)

    def misspelt_keys(self) -> list[str]:
        """A sentence for each unknown key of a node's file that is probably a misspelt field."""
        with self._lock:
            return [f"{path}: {said}" for path, all in sorted(self._misspelt.items()) for said in all]

    def conflict_paths(self, folder: str | None = None) -> list[str]:
        """Paths of the open records of one node's folder, or of all; sorted."""
        with self._lock:
            chosen = self._conflicts.values() if folder is None else [self._conflicts.get(folder, set())]
            return sorted(path for paths in chosen for path in paths)

    def disputed(self) -> set[Uri]:
        """The nodes whose conflict records came, changed or went since the last call. For the writer's thread."""
        found, self._disputed = self._disputed, set()
        return found

    @property
    def conflict_count(self) -> int:
        return sum(map(len, self._conflicts.values()))

    def path_of(self, uri: Uri) -> str:
        return paths.path_of(uri, self._sharded)

    def bytes_of(self, uri: Uri) -> bytes | None:
        """The bytes of the node's file, real or virtual; None if there is no such node.

        Raises:
            Damaged: It cannot be read.
        """
        with self.graph.lock:  # a flush may move the node to another part
            card, at = self.graph.card(uri), self.locations.part_with(uri)
        if card is None or card.blob is None:
            return None
        if at is None:
            return self._store.read(card.blob)
        return parts.node_bytes(*at, uri, card.blob, self._store.read)

    def node_path_of(self, path: str, blob: ObjectId | None) -> str | None:
        """The path of the node that owns a memory: a change of the detail is a change of the node."""
        if blob is None or not memories.is_path(path):
            return None
        try:
            owner = memory_files.owner_of(memories.read(self._store.read(blob, FILE_LIMIT), path))
            return self.path_of(parse(owner)) if owner else None
        except KgdError:
            return None

    def counted(self, changes: Sequence[History]) -> list[str]:
        """The paths whose versions a commit counts for: files, nodes in parts, and nodes of details."""
        own = node_changes(self._store, self._sharded, changes)
        details = (self.node_path_of(change.path, change.new) for change in own)
        return list(dict.fromkeys([*(change.path for change in own), *filter(None, details)]))

    def uris_between(self, old: ObjectId, new: ObjectId) -> list[Uri]:
        """The nodes that differ between two trees, including those with a last good value."""
        found: dict[Uri, None] = {}
        for path, before, after in NodeFiles(self._store, self._sharded).diff(old, new):
            if path.startswith("nodes/"):
                found |= {uri: None for uri in (self._uri_of(path),) if uri}
            elif bulk.is_path(path):
                found |= dict.fromkeys(self.locations.uris(path))
            elif memories.is_path(path):
                found |= dict.fromkeys(self._owners(path, before, after))
        return list(found)

    # ---- the snapshot

    def export(self) -> tuple[str, Frozen, dict[str, list[str]]]:
        """A consistent input for `restore`: the tree, the graph, and paths that need care."""
        with self.graph.lock:
            tree, frozen = self.tree.hex() if self.tree else "", self.graph.freeze()
        with self._lock:
            conflicts = [path for paths in self._conflicts.values() for path in paths]
            care = {"invalid": sorted(self._invalid), "conflicts": sorted(conflicts), "cut": sorted(self._cut)}
            care |= {"parts": self.locations.export(), "shadowed": self.locations.shadowed_files()}
            care["misspelt"] = sorted(self._misspelt)
        return tree, frozen, care

    def restore(self, tree: ObjectId, arrays: Arrays, care: Mapping[str, list[str]]) -> None:
        """Load the output of `export`; `load` then brings it to the tip. O(moved nodes, and paths that need care)."""
        self.graph.load(arrays)
        self.tree = tree
        # One walk: ten thousand single look-ups would read the parent folders as often.
        folder = self._store.lookup(tree, "conflicts") if care.get("conflicts") else None
        records = self._store.files(folder[1]) if folder and folder[0] == FOLDER else ()
        there = {f"conflicts/{file.path}" for file in records}
        for path in care.get("conflicts", ()):
            if path in there:
                self._note_conflict(path, True)
        self.locations.restore(care.get("parts", ()), lambda uri: card.uri if (card := self.graph.card(uri)) else uri)
        for path in [name for kind in ("cut", "shadowed", "invalid", "misspelt") for name in care.get(kind, ())]:
            found = self._store.lookup(tree, path)
            if found:
                list(self._apply_entry(path, found))

    def close(self) -> None:
        """Return the loaded nodes to garbage collection."""
        gc.unfreeze()

    @contextmanager
    def _growing(self) -> Iterator[None]:
        """Suspend garbage collection while many lasting objects are created.

        Large graphs stay exempt afterwards: one pass over 100,000 nodes stops all threads for half a second.
        """
        before, was_enabled = len(self.graph), gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if was_enabled:
                gc.enable()
                if len(self.graph) - before >= FREEZE_FROM:
                    gc.freeze()

    # ---- following the tip

    def load(self, tree: ObjectId) -> list[Change]:
        """Bring everything to `tree`, by a diff from the current tree or from nothing. Returns the changes."""
        if tree == self.tree:
            return []
        with self._growing():
            changes, details = list[Change](), list[tuple[str, ObjectId | None]]()
            for path, new in self._store.changed_entries(self.tree, tree):
                changes += self._apply_entry(path, new)
                if self.tree is not None and memories.is_path(path):  # otherwise every node is among the changes
                    details.append((path, new and new[1]))
            changes += self._detailed(details, changes)
            self.tree = tree
            return changes

    def follow(
        self, files: Iterable[tuple[str, ObjectId | None]], tree: ObjectId, nodes: Mapping[str, Node] = NO_NODES
    ) -> list[Change]:
        """Apply changed files, by path and new blob, which together lead to `tree`.

        `nodes` are known nodes of these files, by path; the others are read.
        """
        files = list(files)
        changes = [change for path, blob in files for change in self._apply(path, blob, nodes.get(path))]
        changes += self._detailed(files, changes)
        self.tree = tree
        return changes

    def _detailed(self, files: Iterable[tuple[str, ObjectId | None]], known: Iterable[Change]) -> list[Change]:
        """Changes of nodes whose detail changed while their own files did not."""
        changed = [(path, blob) for path, blob in files if memories.is_path(path)]
        done = {change.uri for change in known} if changed else set()
        found: dict[Uri, Change] = {}
        for path, blob in changed:
            before = self._store.entry(self.tree, path) if self.tree else None
            for uri in self._owners(path, before, blob):
                card = self.graph.card(uri)
                if card and card.blob and uri not in done:
                    found[uri] = Change(self.path_of(uri), uri, card.blob)
        return list(found.values())

    def _owners(self, path: str, *blobs: ObjectId | None) -> list[Uri]:
        """The nodes that versions of a memory name as owner, by their current URIs."""
        owners = []
        for blob in blobs:
            try:
                memory = memories.read(self._store.read(blob, FILE_LIMIT), path) if blob else None
                named = memory.front.get("id") if memory else None
                owners += [self.graph.resolve(parse(named))] if isinstance(named, str) else []
            except KgdError:
                continue
        return owners

    def _apply_entry(self, path: str, new: Entry | None) -> Sequence[Change]:
        """As `_apply`; a committed link or submodule is no node, even if its bytes are."""
        if new and not new[0].startswith(PLAIN) and path.startswith(("nodes/", "bulk/")):
            what = "a symbolic link" if new[0] == LINK else "a submodule"
            refusal = Invalid(f"it is {what} in git, and only plain files are read")
            return self._keep_last_part(path, refusal) if bulk.is_path(path) else self._keep_last_good(path, refusal)
        return self._apply(path, new and new[1])

    def _apply(self, path: str, new: ObjectId | None, node: Node | None = None) -> Sequence[Change]:
        if path.startswith("conflicts/"):
            self._apply_conflict(path, new)
            return ()
        if bulk.is_path(path):
            return self._apply_part(path, new)
        if not path.startswith("nodes/"):
            return ()
        if new is None:
            return self._remove(path)
        try:
            return self._put(path, new, node)
        except KgdError as refusal:
            return self._keep_last_good(path, refusal)

    def _apply_conflict(self, path: str, new: ObjectId | None) -> None:
        """Apply a conflict record. An unreadable or misplaced record is reported and does not count."""
        refusal: KgdError | None = None
        try:
            if new:
                documents.read_record(self._store.read(new, FILE_LIMIT), path, self._sharded, self._workspace)
        except KgdError as error:
            refusal = error
        self._note_conflict(path, bool(new) and refusal is None)
        folder = path.removeprefix("conflicts/").rpartition("/")[0]
        if self.tree is not None and (uri := self._uri_of(f"nodes/{folder}.yaml")):
            self._disputed.add(uri)
        self._mark(path, refusal)

    def _note_conflict(self, path: str, is_open: bool) -> None:
        folder = path.rpartition("/")[0]
        with self._lock:
            if is_open:
                self._conflicts.setdefault(folder, set()).add(path)
            elif folder in self._conflicts:
                self._conflicts[folder].discard(path)
                if not self._conflicts[folder]:
                    del self._conflicts[folder]

    def _put(self, path: str, blob: ObjectId, known: Node | None) -> Sequence[Change]:
        node = known or _glance(self._store.read(blob), path)
        paths.check_place(node.uri, path, self._workspace, self._sharded)
        if self._invalid:
            self._mark(path)
        self._note_keys(path, node)
        if self.locations.is_in_part(node.uri):
            self.locations.shadow(node.uri, path, blob)
            return ()
        self._serve(node, blob)
        if "~" in path and self._uri_of(path) is None:
            self._cut[path] = node.uri
        return (Change(path, node.uri, blob),)

    def _serve(self, node: Node | Lean, blob: ObjectId) -> None:
        relations = node.relations if isinstance(node, Node) else [Relation(*each) for each in node.relations]
        self.graph.put(Card(node.uri, node.type, node.name, node.summary, blob, ""), relations, node.aliases)

    def _mark(self, path: str, refusal: KgdError | None = None, uri: Uri | None = None) -> None:
        """Record why a file cannot be read, or that it can."""
        with self._lock:
            self._invalid.pop(path, None)
            if refusal:
                self._invalid[path] = InvalidFile.refused(path, uri, refusal)

    def _note_keys(self, path: str, node: Node | Lean | None) -> None:
        found = tuple(misspelt(node)) if isinstance(node, Node) else ()
        if found or path in self._misspelt:
            with self._lock:
                self._misspelt.pop(path, None)
                self._misspelt |= {path: found} if found else {}

    def _remove(self, path: str) -> Sequence[Change]:
        self._mark(path)
        self._note_keys(path, None)
        uri = self._uri_of(path)
        if uri is None:
            return ()
        if self.locations.is_in_part(uri):
            self.locations.shadow(uri, path, None)
            return ()
        self.graph.remove(uri)
        return (Change(path, uri, None),)

    def _keep_last_good(self, path: str, refusal: KgdError) -> Sequence[Change]:
        uri = self._uri_of(path)
        self._mark(path, refusal, uri)
        if uri is None or self.graph.card(uri) is not None:
            return ()
        good = self._last_good(path)
        if good is None:
            return ()
        node = _glance(self._store.read(good), path)
        self._serve(node, good)
        return (Change(path, node.uri, good),)

    # ---- parts

    def _apply_part(self, path: str, new: ObjectId | None) -> Sequence[Change]:
        try:
            part = parts.decoded(path, new, self._read_part) if new else None
            if part and part.ids and workspace_of(next(iter(part.ids))) != self._workspace:
                raise Invalid("this part holds nodes of another workspace", at=f"{path}:1")
        except KgdError as refusal:
            return self._keep_last_part(path, refusal)
        self._mark(path)
        return self._serve_part(path, new, part)

    def _keep_last_part(self, path: str, refusal: KgdError) -> Sequence[Change]:
        self._mark(path, refusal)
        good = None if self.locations.knows(path) else self._last_good(path)
        return self._serve_part(path, good, parts.decoded(path, good, self._read_part)) if good else ()

    def _read_part(self, blob: ObjectId) -> bytes:
        return self._store.read(blob, FILE_LIMIT)

    def _serve_part(self, path: str, blob: ObjectId | None, part: parts.DecodedPart | None) -> list[Change]:
        """Serve the nodes of a part. A node in several parts, which only people create, is served from the first."""
        changes: list[Change] = []
        for uri in self.locations.put(path, blob, part.ids if part else (), self._own_file):
            at = self.locations.place(uri)
            own = paths.path_of(uri, self._sharded)
            card = self.graph.card(uri)
            if at is None:
                self.graph.remove(uri)
                changes.append(Change(own, uri, None))
            elif isinstance(at, bytes):  # its own file, which a part replaced
                self.locations.shadow(uri, own, None)
                self._serve(_glance(self._store.read(at), own), at)
                changes.append(Change(own, uri, at))
            else:
                there = part if part and at.path == path else parts.decoded(at.path, at.blob, self._read_part)
                id = there.ids[uri]
                if card is None or card.blob != id:
                    data = there.entries.nodes[uri]
                    self._serve(_glance(data, own), id)
                    changes.append(Change(own, uri, id))
        return changes

    def _own_file(self, uri: Uri) -> tuple[str, ObjectId] | None:
        """Path and blob of the own file that a node is served from."""
        card = self.graph.card(uri)
        return (paths.path_of(uri, self._sharded), card.blob) if card and card.blob else None

    def _uri_of(self, path: str) -> Uri | None:
        if path in self._cut:
            return self._cut[path]
        try:
            return paths.uri_of(path, self._workspace, self._sharded)
        except KgdError:
            return None


def _glance(data: bytes, path: str) -> Node | Lean:
    """The node in a file. A file of the ordinary shape is not decoded whole: a start reads all of them."""
    return glance(data) or documents.decode(data, at=path)
