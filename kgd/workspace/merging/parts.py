"""Merging parts of threads and documents, node by node.

Changes in parts are expanded into changes of nodes and merged with all other nodes; the results are folded back into
parts. Locations are merged too: if one side moved a node to another part, the node goes there. Chunks are generated
from their document: if both sides regenerated the chunks, all chunks are taken from one side.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from kgd.codec import bulk, paths
from kgd.errors import KgdError
from kgd.git.objects import FILE, FOLDER, Entry, ObjectId, object_id, text
from kgd.git.store import ObjectStore
from kgd.git.walk import Change, Changes
from kgd.model.uri import Uri
from kgd.workspace import parts
from kgd.workspace.parts import FOLDERS, READABLE, Folder, NodeFiles, fits, node_in, uri_in_part

Files = dict[str, bytes | None]
"""The files to write onto ours, by path; None is removal."""


@dataclass(frozen=True, slots=True)
class _Ours:
    """Our tree, as a `parts.ChangedTree`."""

    store: ObjectStore
    tree: ObjectId

    def blob_at(self, path: str) -> ObjectId | None:
        return self.store.entry(self.tree, path)

    def read(self, path: str) -> bytes | None:
        blob = self.blob_at(path)
        return self.store.read(blob) if blob else None

    def names(self, folder: str) -> list[str]:
        found = self.store.lookup(self.tree, folder)
        listed = self.store.tree(found[1]) if found and found[0] == FOLDER else {}
        return sorted(text(name) for name, (mode, _) in listed.items() if mode != FOLDER)


class PartsMerge:
    """The parts that two sides changed. `ours` and `theirs` are the same changes with nodes instead of parts.

    Args:
        tree: Our tree.
        view: The store from which nodes of parts are read.
    """

    def __init__(
        self,
        store: ObjectStore,
        view: NodeFiles,
        tree: ObjectId,
        ours: Changes,
        theirs: Changes,
        sharded: frozenset[str],
    ) -> None:
        self._store, self._view, self._tree, self._sharded = store, view, tree, sharded
        self.files: Files = {}
        """Files of parts that are already merged."""
        self._sides: tuple[Changes, Changes] = (ours, theirs)
        decided = self._choose_chunks()
        self._paths = self._expandable(decided)
        self._found = tuple(self._difference(side) for side in self._sides)
        self.ours, self.theirs = (self._expanded(side, decided) for side in self._sides)

    def _choose_chunks(self) -> set[str]:
        folders = [{p.rpartition("/")[0] for p in side if p.startswith("bulk/chunk/")} for side in self._sides]
        decided = set[str]()
        for folder in sorted(folders[0] & folders[1]):
            was = max(self._source(folder, (change.old for change in side.values())) for side in self._within(folder))
            sources = [self._source(folder, (c.new for c in side.values())) for side in self._within(folder)]
            if sources[0] == sources[1] or was in sources:
                continue
            chosen = 0 if sources[0] > sources[1] else 1
            for path in {p for side in self._sides for p in side if p.rpartition("/")[0] == folder}:
                ours, wanted = self._blob(path, 0), self._blob(path, chosen)
                if ours != wanted:
                    self.files[path] = self._store.read(wanted) if wanted else None
                decided.add(path)
        return decided

    def _within(self, folder: str) -> list[Changes]:
        return [{p: change for p, change in side.items() if p.rpartition("/")[0] == folder} for side in self._sides]

    def _source(self, folder: str, entries: Iterable[Entry | None]) -> str:
        found = [""]
        for mode, blob in filter(None, entries):
            try:
                if mode == FILE:
                    found.append(bulk.split(self._store.read(blob), at=folder).source)
            except KgdError:
                continue
        return max(found)

    def _blob(self, path: str, side: int) -> ObjectId | None:
        """The blob of one side at a path that either side changed."""
        change = self._sides[side].get(path)
        if change is None:
            old = self._sides[1 - side][path].old
            return old and old[1]
        return change.new and change.new[1]

    def _expandable(self, decided: set[str]) -> set[str]:
        """Parts that are readable in every version; other parts are merged as files."""
        found = set[str]()
        for path in {p for side in self._sides for p in side if paths.is_part_path(p)} - decided:
            versions = [entry for side in self._sides if path in side for entry in side[path] if entry]
            try:
                for mode, blob in versions:
                    if mode != FILE:
                        break
                    parts.decoded(path, blob, self._store.read)
                else:
                    found.add(path)
            except KgdError:
                continue
        return found

    def _difference(self, side: Changes) -> parts.Difference:
        changed = ((p, c.old and c.old[1], c.new and c.new[1]) for p, c in side.items() if p in self._paths)
        return parts.difference(changed, self._store.read)

    def _expanded(self, side: Changes, decided: set[str]) -> Changes:
        left = {path: change for path, change in side.items() if path not in decided}
        if not self._paths.intersection(left):
            return left
        plain = {
            path: change for path, change in left.items() if path not in self._paths and not path.startswith(FOLDERS)
        }
        rest = ((path, *change) for path, change in left.items() if path not in plain)
        return plain | {path: Change(old, new) for path, old, new in self._view.expanded(rest)}

    # ---- back into parts

    def fold(self, files: Files) -> Files:
        """The files of the merge, with nodes folded into their parts."""
        made = dict(files) | self.files
        in_parts = {path: data for path, data in files.items() if uri_in_part(path, self._sharded) is not None}
        placed = self._places() if in_parts or self._paths else {}
        named = ((self._uri(path, data, placed), data) for path, data in in_parts.items())
        nodes = {uri: data for uri, data in named if uri is not None}
        if not nodes and not self._paths:
            return made
        tree = _Ours(self._store, self._tree)
        touched = {path.rpartition("/")[0] for path in self._paths} | {paths.part_folder_of(uri) or "" for uri in nodes}
        folders = {path: Folder(path, tree, self._parts_of) for path in touched}
        inside: dict[str, dict[Uri, bytes | None]] = {path: {} for path in folders}
        goals: dict[str, dict[Uri, str]] = {path: {} for path in folders}
        for uri in sorted({*nodes, *placed}):
            folder, own = paths.part_folder_of(uri) or "", paths.path_of(uri, self._sharded)
            there = tree.blob_at(own)
            data = nodes[uri] if uri in nodes else self._ours(uri, there)
            goal = placed.get(uri) or folders[folder].find(uri) or (own if there else "")
            is_in_part = data is not None and goal != own and fits(uri, data)
            inside[folder][uri] = data if is_in_part else None
            if is_in_part and goal:
                goals[folder][uri] = goal
            made.pop(own, None)
            _write(made, own, None if is_in_part else data, there)
        for path, parted in folders.items():
            for part in self._paths:
                if part.rpartition("/")[0] == path:
                    parted.open(part)
            parted.fill(inside[path], goals[path], READABLE)
            for part, entries in parted.changed.items():
                made.pop(part, None)
                _write(made, part, self._bytes(part, entries), tree.blob_at(part))
        return made

    def _places(self) -> dict[Uri, str]:
        """The merged location of each node in a changed part."""
        base, sides = dict[Uri, str](), list[tuple[dict[Uri, str], dict[Uri, str]]]()
        for changes, found in zip(self._sides, self._found, strict=True):
            was, now = ({uri: at.path for uri, at in each.items()} for each in (found.old, found.new))
            for path, change in changes.items():
                for into, entry in ((was, change.old), (now, change.new)):
                    if entry and uri_in_part(path, self._sharded) and (uri := _named(self._store.read(entry[1]), path)):
                        into.setdefault(uri, path)
            base |= was
            sides.append((was, now))
        placed: dict[Uri, str] = {}
        for uri in {uri for was, now in sides for uri in (*was, *now)}:
            old = base.get(uri)
            one, two = (now.get(uri) if uri in was or uri in now else old for was, now in sides)
            at = two if one == old else one if two in (old, one) else min(filter(None, (one, two)))
            placed[uri] = at or one or two or old or ""
        return placed

    def _uri(self, path: str, data: bytes | None, placed: Mapping[Uri, str]) -> Uri | None:
        """The node at a path. A removed node is found from the parts; a removed separate file alone is not a node."""
        if data is not None:
            return _named(data, path)
        named = uri_in_part(path, self._sharded)
        home = next((uri.split("/", 3)[2] for uri in placed), "")
        uri = Uri(str(named).replace("://x/", f"://{home}/", 1))
        return uri if uri in placed else None

    def _parts_of(self, uri: Uri) -> Collection[str] | None:
        """The part of our tree that contains a node; None if that can only be found in the tree."""
        (ours, theirs) = self._found
        if uri in ours.new or uri in ours.old:
            return (ours.new[uri].path,) if uri in ours.new else ()
        if uri in theirs.old:
            return (theirs.old[uri].path,)
        return () if uri in theirs.new else None

    def _ours(self, uri: Uri, own: ObjectId | None) -> bytes | None:
        """Our bytes of a node, from a changed part or from its own file."""
        (ours, theirs) = self._found
        if uri in ours.new:
            return ours.new[uri].data
        if own is None and uri not in ours.old and uri in theirs.old:
            return theirs.old[uri].data
        return self._store.read(own) if own else None

    def _bytes(self, path: str, nodes: Mapping[Uri, bytes]) -> bytes | None:
        """The bytes of a part with these nodes. If a side's part has exactly these nodes, its bytes are used, including
        comments."""
        if not nodes:
            return None
        changed = path in self._sides[0] or path in self._sides[1]
        blobs = [self._blob(path, side) for side in (0, 1)] if changed else [self._store.entry(self._tree, path)]
        versions = [self._store.read(blob) for blob in blobs if blob]
        sides = [bulk.split(data, at=path) for data in versions]
        source = self._merged_source(path, [side.source for side in sides])
        same = [d for d, side in zip(versions, sides, strict=True) if side.nodes == nodes and side.source == source]
        return min(same) if same else bulk.encode_entries(bulk.Entries(nodes, source))

    def _merged_source(self, path: str, sources: list[str]) -> str:
        """The merged source of a part, from the side that regenerated it."""
        old = next((side[path].old for side in self._sides if path in side), None)
        was = self._source(path, [old])
        return max((source for source in sources if source != was), default=max(sources, default=""))


def _named(data: bytes, path: str) -> Uri | None:
    node = node_in(path, data)
    return node.uri if node else None


def _write(files: Files, path: str, data: bytes | None, there: ObjectId | None) -> None:
    if there != (object_id("blob", data) if data is not None else None):
        files[path] = data
