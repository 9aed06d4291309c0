"""Merging two trees: file by file, and nodes as a set.

Only changed files are considered. Files changed on both sides are read; a file that only one side changed is taken
without reading it. Nodes and their conflict records are merged as a set (`kgd.model.merge_graph`) if both sides changed
them, or if one side moved or deleted a node that the other side touched.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from kgd.codec import documents, front_matter, paths
from kgd.codec.settings import PATH as SETTINGS
from kgd.codec.settings import decode_settings
from kgd.errors import KgdError
from kgd.git.objects import FILE, FOLDER, PLAIN, ObjectId, object_id, text
from kgd.git.store import ObjectStore
from kgd.git.walk import Changes, changes_of
from kgd.model.conflict import PLACE, TWIN, Conflict, by_field
from kgd.model.fields import split
from kgd.model.merge import either, is_of_node, merge_record_others, same
from kgd.model.merge_graph import Graph, MergedGraph, merge_graphs, moved
from kgd.model.node import Json, Node
from kgd.model.uri import Uri, is_settings_uri, parse, settings_uri
from kgd.workspace import memory_files
from kgd.workspace.merging import files
from kgd.workspace.merging.files import (
    MEMORIES,
    Data,
    EverOpen,
    MergedFile,
    bytes_of,
    decoded,
    merge_file,
    merge_unreadable,
    record_files,
    variant_of,
)
from kgd.workspace.merging.parts import PartsMerge
from kgd.workspace.parts import NodeFiles, uri_in_part

log = logging.getLogger(__name__)

Versions = tuple[Data, Data, Data]
"""Base, ours and theirs of one file."""


@dataclass(frozen=True, slots=True)
class MergedTree:
    """The files to write onto `ours`, by path; None means removal. Callers must remove before they write.

    `conflicts` are the new conflicts; their records are among the files.
    """

    files: dict[str, bytes | None]
    conflicts: tuple[Conflict, ...]


def merge_trees(
    store: ObjectStore,
    base: ObjectId | None,
    ours: ObjectId,
    theirs: ObjectId,
    sharded: frozenset[str],
    ever_open: EverOpen = lambda side, path: True,
) -> MergedTree:
    """Merge `theirs` into `ours`. The cost depends on the number of changed files and the size of their folders.

    Raises:
        Damaged, Limit: A tree or a file cannot be read.
    """
    if theirs == ours:
        return MergedTree({}, ())
    return _TreeMerge(store, base, ours, theirs, sharded, ever_open).run()


@dataclass(slots=True)
class _Record:
    """A conflict record in three versions; each of its fields is a separate conflict."""

    versions: tuple[tuple[Conflict, ...], tuple[Conflict, ...], tuple[Conflict, ...]]

    @property
    def is_of_nodes(self) -> bool:
        """Whether the record concerns node files and their names, not the file of a memory."""
        names = {name for version in self.versions for conflict in version for name in conflict.fields}
        return all(is_of_node(name) or name in (PLACE, TWIN) for name in names)

    @property
    def uris(self) -> set[Uri]:
        return {conflict.uri for version in self.versions for conflict in version}


@dataclass(slots=True)
class _Node:
    """A node's file in three versions."""

    data: Versions
    nodes: tuple[Node | None, Node | None, Node | None]


@dataclass(slots=True)
class _Change:
    old: ObjectId | None
    new: ObjectId | None


class _TreeMerge:
    def __init__(
        self,
        store: ObjectStore,
        base: ObjectId | None,
        ours: ObjectId,
        theirs: ObjectId,
        sharded: frozenset[str],
        ever_open: EverOpen,
    ) -> None:
        self.store, self.sharded, self.ever_open = NodeFiles(store, sharded), sharded, ever_open
        self.trees: files.Trees = (base, ours, theirs)
        self.odd: set[str] = set()
        self.files: dict[str, bytes | None] = {}
        self.known: dict[ObjectId, bytes] = {}
        changed = partial(changes_of, store.read, base)
        self.parts = PartsMerge(store, self.store, ours, changed(ours), changed(theirs), sharded)
        self.ours, self.theirs = self._changes(self.parts.ours, is_ours=True), self._changes(self.parts.theirs)
        self.records: dict[str, _Record] = {}
        self.acted: tuple[set[Uri], set[Uri]] = (set(), set())
        self.done: set[str] = set()
        self.conflicts: list[Conflict] = []

    def run(self) -> MergedTree:
        self._read_records()
        self._merge_nodes()
        self._merge_disputed_files()
        for path, change in self.theirs.items():
            mine = self.ours.get(path)
            if path in self.done:
                continue
            if mine is None:
                self.files[path] = self._read(change.new) if change.new else None
            elif mine.new != change.new:
                self._took(path, merge_file(path, *self._versions(path)))
        self._keep_details()
        self._report_twins()
        self._make_room()
        return MergedTree(self.parts.fold(self.files), tuple(self.conflicts))

    def _changes(self, changes: Changes, *, is_ours: bool = False) -> dict[str, _Change]:
        found: dict[str, _Change] = {}
        for path, (old, new) in changes.items():
            blob = new[1] if new and new[0].startswith(PLAIN) else None  # a merge omits links and submodules
            found[path] = _Change(old and old[1], blob)
            if is_ours and new and new[0] != FILE:  # an unsupported mode; theirs would be written without it
                self.odd.add(path)
                self.files[path] = self._read(blob) if blob else None
        return found

    def _read(self, blob: ObjectId) -> bytes:
        data = self.known.get(blob)
        if data is None:
            data = self.known[blob] = self.store.read(blob)
        return data

    # ---- reading

    def _blobs(self, path: str) -> tuple[ObjectId | None, ObjectId | None, ObjectId | None]:
        """The three blobs of a path."""
        ours, theirs = self.ours.get(path), self.theirs.get(path)
        changed = ours or theirs
        old = changed.old if changed else self.store.entry(self.trees[1], path)
        return old, ours.new if ours else old, theirs.new if theirs else old

    def _versions(self, path: str) -> Versions:
        base, ours, theirs = (self._read(blob) if blob else None for blob in self._blobs(path))
        return base, ours, theirs

    def _read_records(self) -> None:
        """Read the conflict records that each side added or settled."""
        for path in sorted({p for side in (self.ours, self.theirs) for p in side if p.startswith("conflicts/")}):
            try:
                record = self.records[path] = self._record(path, self._blobs(path))
            except KgdError:
                continue  # an ordinary file
            for side, changes in enumerate((self.ours, self.theirs)):
                if path in changes:
                    self.acted[side].update(record.uris)

    # ---- nodes

    def _merge_nodes(self) -> None:
        hot = self._hot()
        if not hot:
            return
        try:
            self._merge_together(hot)
        except Exception:
            # A defect, or a result too large for a file: merge each of these files separately.
            log.exception("nodes could not be merged together")
            for uri, file in sorted(hot.items()):
                path = paths.path_of(uri, self.sharded)
                self._took(path, merge_file(path, *file.data))

    def _merge_together(self, hot: Mapping[Uri, _Node]) -> None:
        records = {path: record for path, record in self._records_at(hot).items() if record.is_of_nodes}
        graphs = [
            Graph(
                {uri: node for uri, file in hot.items() if (node := file.nodes[n]) is not None},
                {c.id: c for record in records.values() for c in record.versions[n]},
            )
            for n in range(3)
        ]
        merged = merge_graphs(*graphs)
        for uri in sorted(hot):
            path = paths.path_of(uri, self.sharded)
            self._write(path, self._bytes_of(path, uri, hot, merged))
        for path in records:
            self._write(path, None)
        self.done |= records.keys()
        for path, data in self._record_files(merged.graph.conflicts.values()).items():
            self._write(path, data)
        self.conflicts += merged.clashes

    def _records_at(self, uris: Iterable[Uri]) -> dict[str, _Record]:
        """All records under these URIs, changed or not."""
        found: dict[str, _Record] = {}
        for uri in uris:
            folder = paths.conflict_path(uri, "x", self.sharded).rpartition("/")[0]
            listed = [self._listing(tree, folder) for tree in self.trees]
            for name in sorted({name for names in listed for name in names}):
                path = f"{folder}/{name}"
                try:
                    record = self.records.get(path) or self._record(path, [names.get(name) for names in listed])
                except KgdError:
                    continue  # an ordinary file
                if record.uris <= {uri}:  # a record about another workspace's node can have the same path
                    found[path] = record
        return found

    def _listing(self, tree: ObjectId | None, folder: str) -> dict[str, ObjectId]:
        found = self.store.lookup(tree, folder) if tree else None
        entries = self.store.tree(found[1]) if found and found[0] == FOLDER else {}
        return {text(name): id for name, (mode, id) in entries.items() if mode != FOLDER}

    def _record(self, path: str, blobs: Iterable[ObjectId | None]) -> _Record:
        """The record in three versions. A file in the wrong place is not a record in any version.

        Raises:
            KgdError: The file is an ordinary file.
        """
        old, a, b = (
            documents.read_record(self._read(blob), path, self.sharded).by_field() if blob else () for blob in blobs
        )
        return _Record((old, a, b))

    def _hot(self) -> dict[Uri, _Node]:
        """The nodes to merge together, by URI. A path with a file that is not a node is merged as a file."""
        chosen = {
            path
            for path in self.ours.keys() & self.theirs.keys()
            if path.startswith("nodes/") and (self.ours[path].new != self.theirs[path].new or not self.ours[path].new)
        }
        for mine, others, changes in ((0, 1, self.theirs), (1, 0, self.ours)):
            for uri in self.acted[mine]:
                path = paths.path_of(uri, self.sharded)
                if not is_settings_uri(uri) and (uri in self.acted[others] or path in changes):
                    chosen.add(path)
        hot: dict[Uri, _Node] = {}
        claims: dict[str, set[str]] | None = None
        while chosen:
            found = {read for path in sorted(chosen) if (read := self._read_node(path, hot))}
            self.done |= chosen
            if claims is None and found:
                claims = self._claims()
            chosen = {path for uri in found for path in (claims or {}).get(uri, ()) if path not in self.done}
        return hot

    def _read_node(self, path: str, hot: dict[Uri, _Node]) -> Uri | None:
        versions = self._versions(path)
        read = [self._decoded(path, data) for data in versions]
        old, a, b = read
        if isinstance(a, str) or isinstance(b, str) or not paths.is_node_path(path):
            self._merge_unreadable(path, versions, a, b)
            return None
        named = (node.uri for node in (a, b, old) if isinstance(node, Node))
        acted = (each for side in self.acted for each in side if paths.path_of(each, self.sharded) == path)
        uri = next(named, None) or next(acted, None)
        if uri is not None:
            hot[uri] = _Node(versions, (old if isinstance(old, Node) else None, a, b))
        return uri

    def _decoded(self, path: str, data: Data) -> Node | str | None:
        node = decoded(path, data)
        if isinstance(node, Node) and paths.path_of(node.uri, self.sharded) != path:
            return "the node of another path"
        return node

    def _merge_unreadable(self, path: str, versions: Versions, a: Node | str | None, b: Node | str | None) -> None:
        old, ours, theirs = versions
        if theirs == old or ours == theirs:
            return
        if ours == old:
            self._write(path, theirs)
        elif isinstance(a, str) or isinstance(b, str):
            self._took(path, merge_unreadable(ours, theirs, a, b))
        else:
            self._took(path, merge_file(path, *versions))

    def _claims(self) -> dict[str, set[str]]:
        """Changed files by the aliases that they list: a node that is missing may have moved there."""
        found: dict[str, set[str]] = {}
        for changes in (self.ours, self.theirs):
            for path, change in changes.items():
                if change.new and path.startswith("nodes/") and path.endswith(".yaml"):
                    data = self._read(change.new)
                    node = decoded(path, data) if b"aliases" in data else None
                    for alias in node.aliases if isinstance(node, Node) else ():
                        found.setdefault(alias, set()).add(path)
        return found

    def _bytes_of(self, path: str, uri: Uri, hot: Mapping[Uri, _Node], merged: MergedGraph) -> Data:
        node = merged.graph.nodes.get(uri)
        if node is None:
            return None
        names = {uri, *node.aliases}
        files = [file for at, file in hot.items() if at in names]
        sides = [(file.data[n], file.nodes[n]) for file in files for n in (1, 2)]
        try:
            return bytes_of(node, sides)
        except KgdError:
            # The sides may each be small enough, but too large together.
            held = [moved(side, uri) for _, side in sides if side is not None]
            choice = either(hot[uri].nodes[0], held[0], max(held[1:], key=lambda side: not same(side, held[0])))
            self._took(path, MergedFile(None, (choice.conflict,) if choice.conflict else ()))
            assert choice.node is not None
            return bytes_of(choice.node, sides)

    # ---- other files

    def _merge_disputed_files(self) -> None:
        """Merge settings and memories with conflicts; settling one may leave the file itself unchanged."""
        both = {p for p in self.ours.keys() & self.theirs.keys() if p == SETTINGS or p.startswith(f"{MEMORIES}/")}
        for path in both | self._disputed_files().keys():  # an open conflict counts even if its record did not change
            self.records |= self._records_at(self._nodes_of(path))
        about = self._disputed_files()
        for path, record_paths in sorted(about.items()):
            old, ours, theirs = (
                by_field(one for record in record_paths for one in self.records[record].versions[n]) for n in range(3)
            )
            if old == theirs and path not in self.theirs:
                continue
            merged = merge_file(path, *self._versions(path), (old, ours, theirs))
            for record_path in record_paths:
                self._write(record_path, None)
            self.done |= {path, *record_paths}
            self._took(path, merged)

    def _disputed_files(self) -> dict[str, set[str]]:
        """Settings and memories that are in conflict, with the paths of the records about them."""
        about: dict[str, set[str]] = {}
        for record_path, record in self.records.items():
            for conflict in (conflict for version in record.versions for conflict in version):
                head, *rest = split(next(iter(conflict.fields)))
                if is_settings_uri(conflict.uri):
                    about.setdefault(SETTINGS, set()).add(record_path)
                elif head == MEMORIES and rest and conflict.uri in self._nodes_of(f"{MEMORIES}/{rest[0]}"):
                    about.setdefault(f"{MEMORIES}/{rest[0]}", set()).add(record_path)
        return about

    def _nodes_of(self, path: str) -> set[Uri]:
        """The URIs under which conflicts about the settings or a memory are recorded: its versions name these nodes."""
        found = set[Uri]()
        for data in self._versions(path):
            with contextlib.suppress(KgdError):
                if path == SETTINGS:
                    found |= {settings_uri(decode_settings(data, newer=True).workspace)} if data is not None else set()
                    continue
                found |= {parse(str(front_matter.decode(data, at=path).front.get("id")))} if data is not None else set()
        return found

    def _took(self, path: str, merged: MergedFile) -> None:
        self._write(path, merged.data)
        for beside, data in merged.beside.items():
            self._write(beside, data)
        self.conflicts += [one for conflict in merged.conflicts for one in conflict.by_field()]
        for record, data in self._record_files(merged.conflicts).items():
            self._write(record, data)

    def _record_files(self, conflicts: Iterable[Conflict]) -> dict[str, bytes]:
        """The files of these conflicts, with the unknown keys of existing records of the same names."""
        ones = (self._with_others(one) for conflict in conflicts for one in conflict.by_field())
        return record_files(ones, self.sharded)

    def _with_others(self, conflict: Conflict) -> Conflict:
        path = paths.conflict_path(conflict.uri, conflict.digest, self.sharded)
        old, ours, theirs = (self._others(path, data) for data in self._versions(path))
        if ours is None and theirs is None:  # a new record, or a record that moved with its node
            return conflict
        base = old or {}
        merged = merge_record_others(base, *(base if side is None else side for side in (ours, theirs)))
        return replace(conflict, others=merged)

    def _others(self, path: str, data: Data) -> Mapping[str, Json] | None:
        try:
            return documents.read_record(data, path, self.sharded).others if data is not None else None
        except KgdError:
            return None

    def _write(self, path: str, data: Data) -> None:
        """Write or remove a file in the result."""
        if path in self.odd or self._blobs(path)[1] != (None if data is None else object_id("blob", data)):
            self.files[path] = data
        else:
            self.files.pop(path, None)

    def _keep_details(self) -> None:
        """Keep a memory that one side deleted and the other side edited, if the node that names it stays."""
        for path in sorted(self.ours.keys() | self.theirs.keys()):
            if not paths.is_memory_path(path) or self._final(path) is not None:
                continue
            left = next((data for data in self._versions(path)[1:] if data is not None), None)
            memory = front_matter.memory_in(left, path)
            owner = memory_files.owner_of(memory)
            if memory is None or owner is None:
                continue
            node_path = paths.path_of(owner, self.sharded)
            node = decoded(node_path, self._final(node_path))
            if isinstance(node, Node) and memory_files.file_of(node) == path and memory_files.belongs(memory, node):
                self._write(path, left)

    def _final(self, path: str) -> Data:
        """The content of a path in the result so far."""
        if path in self.files:
            return self.files[path]
        blob = self._blobs(path)[1]
        return self._read(blob) if blob else None

    # ---- names

    def _report_twins(self) -> None:
        added = self._added(self.ours), self._added(self.theirs)
        found = files.colliding(self.store, self.trees, added, self.files, self.sharded, self.ever_open)
        self.conflicts += found
        for path, data in record_files(found, self.sharded).items():
            self._write(path, data)

    def _added(self, changes: Mapping[str, _Change]) -> list[str]:
        """New node files whose names may collide; nodes in parts have no file names."""
        there = (path for path, change in changes.items() if not change.old and change.new)
        return [path for path in there if path.startswith("nodes/") and uri_in_part(path, self.sharded) is None]

    def _make_room(self) -> None:
        """Move a file aside if the other side has a folder there."""
        owned = ("nodes/", "conflicts/", "log/", "bulk/")
        for path in sorted({*self.ours, *self.theirs}):
            if path.startswith(owned) or self._final(path) is None:
                continue
            above = path
            while above := above.rpartition("/")[0]:
                if (above in self.ours or above in self.theirs) and (data := self._final(above)) is not None:
                    self._write(above, None)
                    self.files[variant_of(above, data)] = data
