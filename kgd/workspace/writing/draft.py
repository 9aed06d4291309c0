"""A draft: the nodes and files that one ChangeSet touches, as they will be after the ChangeSet.

A draft reads unchanged nodes from the writer's tip and changes nothing there; dropping it undoes everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kgd.codec import bulk, documents, front_matter, paths
from kgd.errors import InvariantViolation, KgdError
from kgd.model.conflict import Conflict
from kgd.model.node import Node
from kgd.model.uri import Uri, build, collision_key, is_owned, is_settings_uri, scheme_of, segments_of, workspace_of
from kgd.workspace import memory_files
from kgd.workspace.merging.files import record_files
from kgd.workspace.parts import ChangedTree, Folder
from kgd.workspace.writing import admission
from kgd.workspace.writing.surroundings import Surroundings


@dataclass(slots=True)
class _Read:
    """A node at the tip: blob and bytes of its file or, for a node in a part, of the separate file it would have."""

    blob: bytes | None
    data: bytes | None
    node: Node | None
    is_unreadable: bool = False
    """The bytes and the node are then those of the last readable version; the file is replaced even if they stay."""


class Draft:
    """Nodes and files as they are after one change, with warnings.

    Nodes are given by canonical URI. `node` does not follow aliases; callers `resolve` first.
    """

    def __init__(self, tip: ChangedTree, around: Surroundings, now: int = 0) -> None:
        self.tip = tip
        self.around = around
        self.now = now
        """Unix seconds of the change."""
        self.warnings: list[str] = []
        self.settled: list[str] = []
        self.carried: set[str] = set()
        """Conflict records that are kept under another name."""
        self.restored: set[tuple[Uri, tuple[str, str]]] = set()
        """Relations that a revert or the settlement of a conflict restored, as the source and the key."""
        self.files: dict[str, bytes | None] = {}
        self._before: dict[Uri, _Read] = {}
        self._after: dict[Uri, Node | None] = {}
        self._touched: list[Uri] | None = None
        """The answer of `touched`, until the next change."""
        self._folders: dict[str, Folder] = {}

    # ---- nodes

    def path(self, uri: Uri) -> str:
        """The path of the node's file, real or virtual, by which versions are counted."""
        return paths.path_of(uri, self.around.sharded)

    def before(self, uri: Uri) -> Node | None:
        """The node at the tip.

        Raises:
            InvariantViolation: The node's file cannot be read; writing it would overwrite a person's text.
        """
        return self.read(uri).node

    def node(self, uri: Uri) -> Node | None:
        """The node with the changes made so far."""
        return self._after[uri] if uri in self._after else self.before(uri)

    def changed(self) -> dict[Uri, Node | None]:
        """The changed nodes with the changes made so far; None for a removed node."""
        return {uri: self._after[uri] for uri in self.touched()}

    def exists(self, uri: Uri) -> bool:
        """Whether the node exists, even with an unreadable file. Does not read the node."""
        if uri in self._after:
            return self._after[uri] is not None
        folder = self._folder(uri)
        in_part = folder is not None and self._part(folder, uri) is not None
        return in_part or self.tip.blob_at(self.path(uri)) is not None

    def put(self, node: Node) -> None:
        self.read(node.uri)
        self._after[node.uri], self._touched = node, None

    def remove(self, uri: Uri) -> None:
        self.read(uri)
        self._after[uri] = self._touched = None

    def replace_unreadable(self, node: Node) -> None:
        """Write a node whose file cannot be read, with the comments of the last readable version."""
        path, past = self.path(node.uri), self.around.past
        good = past.last_good(path)
        data = past.store.read(good) if good else None
        before = documents.decode(data, at=path) if data is not None else None
        self._before[node.uri] = _Read(self.tip.blob_at(path), data, before, is_unreadable=True)
        self._after[node.uri], self._touched = node, None

    def touched(self) -> list[Uri]:
        """Changed nodes, sorted."""
        if self._touched is None:
            before = self._before
            self._touched = sorted(
                u for u, node in self._after.items() if before[u].is_unreadable or node != before[u].node
            )
        return self._touched

    def written(self) -> list[Uri]:
        """Nodes that get a new version: their file or their detail file changes, or a conflict is resolved. Sorted."""
        owners = {
            owner
            for path, data in self.files.items()
            if paths.is_memory_path(path)
            and self._differs(path, data)
            and (owner := memory_files.owner_of(front_matter.memory_in(data, path)))
        }
        home = self.around.workspace
        known = {owner for owner in owners if workspace_of(owner) == home and self.exists(owner)}
        resolved = {one.uri for one in map(self._resolved, self.files) if one and not is_settings_uri(one.uri)}
        return sorted(
            known | set(filter(self.exists, resolved)) | {uri for uri in self.touched() if self._after[uri] is not None}
        )

    def _resolved(self, path: str) -> Conflict | None:
        """The conflict whose record at a path is removed."""
        data = self.tip.read(path) if path.startswith(paths.CONFLICTS) and self.files[path] is None else None
        try:
            return documents.read_record(data, path, self.around.sharded, self.around.workspace) if data else None
        except KgdError:
            return None

    def created(self) -> list[Uri]:
        return [uri for uri in self.touched() if self._after[uri] and self._before[uri].node is None]

    # ---- other files

    def read_file(self, path: str) -> bytes | None:
        if path in self.files:
            return self.files[path]
        return self.tip.read(path)

    def record(self, conflict: Conflict) -> None:
        """Write a record for each field of a conflict."""
        self.files.update(record_files([conflict], self.around.sharded))

    def conflict_records(self, uri: Uri) -> list[str]:
        """Paths of the open conflicts of one node at the tip."""
        return conflict_records(self.tip, uri, self.around.sharded)

    def log_paths(self, uri: Uri) -> list[str]:
        """Paths of a node's changelog entries after this change so far, oldest first."""
        folder = paths.log_path(uri, "x").rpartition("/")[0]
        stored = {f"{folder}/{name}" for name in self.tip.names(folder) if name.endswith(".yaml")}
        added = {path for path in self.files if path.rpartition("/")[0] == folder}
        return sorted(path for path in stored | added if self.files.get(path, b"") is not None)

    # ---- the result

    def finish(self) -> dict[str, bytes | None]:
        """The files to write or remove (None), canonical and checked.

        Raises:
            KgdError: A node or file is not admitted; see `kgd.workspace.writing.admission`.
            InvariantViolation: A new name differs from an existing name only in letter case or normal form.
        """
        nodes = [(self._before[uri].node, self._after[uri]) for uri in self.touched()]
        self.files |= memory_files.keep_in_step(nodes, self.read_file)
        files, first = dict(self.files), dict[str, Uri]()
        written = list[tuple[Node, Node | None, bytes]]()
        inside: dict[str, dict[Uri, bytes | None]] = {}
        for uri in self.touched():
            node, read = self._after[uri], self._before[uri]
            if node is None:
                self._place(uri, None, None, files, inside)
                files.update(dict.fromkeys(self.log_paths(uri)))
                for record in self.conflict_records(uri):
                    if files.setdefault(record, None) is None and record not in self.carried:
                        self.settled.append(record)
                continue
            if read.node is None:
                self._refuse_twin(uri, first.setdefault(collision_key(uri), uri))
            data = documents.rewrite(read.data, node)
            self._place(uri, node, data, files, inside)
            written.append((node, read.node, data))
        self._admit(written, files)
        for folder, placed in inside.items():
            made = replace(self._folders[folder], changed={}, sources={})
            made.fill(placed)
            files |= made.files(self._source_of(next(iter(placed))))
        return {path: data for path, data in files.items() if self._differs(path, data)}

    def _admit(self, written: Iterable[tuple[Node, Node | None, bytes]], files: Mapping[str, bytes | None]) -> None:
        def read(path: str) -> bytes | None:
            return files[path] if path in files else self.tip.read(path)

        home = memory_files.Home(self.around.workspace, self.around.sharded, read)
        for node, before, data in written:
            admission.admit(node, before, data, home)
        for path, data_or_none in files.items():
            if path.startswith("nodes/") or data_or_none is None or not self._differs(path, data_or_none):
                continue
            if paths.is_memory_path(path):
                owner = memory_files.owner_of(front_matter.memory_in(data_or_none, path))
                admission.admit_memory(path, data_or_none, self.tip.read(path), home, owner or "")
            elif path.startswith("log/"):
                admission.admit_entry(path, data_or_none, self.tip.read(path), home)

    def _place(
        self,
        uri: Uri,
        node: Node | None,
        data: bytes | None,
        files: dict[str, bytes | None],
        inside: dict[str, dict[Uri, bytes | None]],
    ) -> None:
        """Put a node's bytes into its own file or its part, and remove them from their former place."""
        path, folder = self.path(uri), self._folder(uri)
        if folder is None:
            files[path] = data
            return
        fits = node is not None and data is not None and bulk.may_hold(node, data)
        inside.setdefault(folder.path, {})[uri] = data if fits else None
        if not fits or self.tip.blob_at(path) is not None:
            files[path] = None if fits else data

    def _source_of(self, uri: Uri) -> str | None:
        """The content hash recorded in a chunk's document; None if there is none."""
        if scheme_of(uri) != "chunk":
            return None
        document = self.node(build("document", self.around.workspace, segments_of(uri)[:-1]))
        digest = document.data.get("hash") if document else None
        return digest if isinstance(digest, str) and len(digest) <= 200 and digest.isprintable() else None

    def _folder(self, uri: Uri) -> Folder | None:
        """The parts that may contain the node; None for a node with a separate file."""
        path = paths.part_folder_of(uri)
        if path is None:
            return None
        return self._folders.setdefault(path, Folder(path, self.tip, self.around.parts_of, self.around.workspace))

    def _part(self, folder: Folder, uri: Uri) -> str | None:
        try:
            return folder.find(uri)
        except KgdError as unreadable:
            raise InvariantViolation(
                f"the part of this node cannot be read: {unreadable.message}",
                at=unreadable.at or folder.path,
                next="Fix or revert that file first; nothing was written.",
            ) from None

    def _differs(self, path: str, data: bytes | None) -> bool:
        return self.tip.read(path) != data

    def _refuse_twin(self, uri: Uri, made: Uri) -> None:
        """Refuse a new name that some file systems cannot distinguish from another name. `made` is the first such node
        of this change."""
        twin = made if made != uri else self.around.twin(uri)
        if twin and twin != uri and self.node(twin) is not None:
            raise admission.twin_of(uri, twin)

    def read(self, uri: Uri) -> _Read:
        """A node at the tip. Raises as `before`."""
        read = self._before.get(uri)
        if read is None:
            path = self.path(uri)
            invalid = self.around.invalid_file(path)
            if invalid:
                raise InvariantViolation(
                    f"the file of this node cannot be read: {invalid.reason}",
                    at=f"{path}:{invalid.line}",
                    next="Fix or revert that file first; nothing was written.",
                )
            blob, data = self._stored(uri, path)
            node = documents.decode(data, at=path, expect=uri) if data is not None else None
            read = self._before[uri] = _Read(blob, data, node)
        return read

    def _stored(self, uri: Uri, path: str) -> tuple[bytes | None, bytes | None]:
        folder = self._folder(uri)
        part = self._part(folder, uri) if folder else None
        if folder is None or part is None:
            return self.tip.blob_at(path), self.tip.read(path)
        taken = folder.part(part)
        return taken.ids[uri], taken.entries.nodes[uri]


def conflict_records(tree: ChangedTree, uri: Uri, sharded: frozenset[str]) -> list[str]:
    """Paths of the open conflicts of one node."""
    folder = paths.conflict_path(uri, "x", sharded).rpartition("/")[0]
    return [f"{folder}/{name}" for name in tree.names(folder) if name.endswith(".yaml")]


def is_resource(uri: Uri, workspace: str) -> bool:
    """Whether a relation creates its target (rule E8): a file of this workspace, or a URI outside kgd's schemes."""
    return not is_owned(uri) or (scheme_of(uri) == "file" and workspace_of(uri) == workspace)
