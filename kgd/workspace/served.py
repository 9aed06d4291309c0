"""The served state of the tip: live graph, unreadable files and open conflicts; and the content that was sent to
clients under each version.

The state is derived: it always equals a fresh load of the tip, and is updated by diffs of trees. An unreadable file is
reported, and its last good version is still served.

Features that keep state in memory for a workspace extend `Beside`, and follow the nodes with `Changed`.
"""

from __future__ import annotations

import contextlib
import gc
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

from kgd.codec import documents, front_matter, paths
from kgd.codec.documents import Lean, glance
from kgd.errors import Invalid, KgdError
from kgd.git.history import Change as History
from kgd.git.objects import FILE, FOLDER, LINK, PLAIN, Entry, ObjectId
from kgd.git.store import ObjectStore
from kgd.graph.array_builder import ArrayStream, Frozen
from kgd.graph.arrays import Arrays
from kgd.graph.edges import Card
from kgd.graph.live_graph import LiveGraph
from kgd.model.fields import misspelt
from kgd.model.node import Node, Relation, label_of
from kgd.model.uri import Uri, is_settings_uri, workspace_of
from kgd.workspace import memory_files, parts
from kgd.workspace.answers import InvalidFile
from kgd.workspace.parts import FILE_LIMIT, At, NodeFiles, PartLocations, node_changes, resolved_conflict

if TYPE_CHECKING:
    from kgd.workspace.workspace import Workspace

FREEZE_FROM = 5_000
"""If at least this many nodes are loaded at once, they are exempted from garbage collection."""

READ_AHEAD = 20_000
"""Largest number of nodes that a change reads before it locks the graph; it reads further nodes under the lock."""

SENT_KEPT, SENT_KEPT_OF_ONE = 20_000, 500
"""Maximum number of answers whose content is remembered, in total and per file; the newest are kept."""
_VERSION = struct.Struct("<I")
_ANSWER = struct.Struct("<I?20s")
"""The version, whether the id is the id of the commit that wrote the file (otherwise of the blob), and the id."""

LastGood = Callable[[str], ObjectId | None]


class Change(NamedTuple):
    """One changed node, for derived indexes."""

    path: str
    uri: Uri
    blob: ObjectId | None


class Served:
    """The graph and related state of one workspace. Changed only in the thread that flushes; any thread may read.

    Args:
        last_good: Returns the newest readable blob in the history of a path; called only for unreadable files.
    """

    def __init__(self, store: ObjectStore, workspace: str, sharded: frozenset[str], last_good: LastGood) -> None:
        self._store, self.workspace, self.sharded, self._last_good = store, workspace, sharded, last_good
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Go back to serving nothing, as before the first `load`."""
        self.graph = LiveGraph(self.workspace)
        self._target: LiveGraph | ArrayStream = self.graph
        """The graph, or during the first load the arrays that it will read."""
        self.tree: ObjectId | None = None
        self._invalid: dict[str, InvalidFile] = {}
        self._conflicts: dict[str, set[str]] = {}
        self._disputed: set[Uri] = set()
        self._misspelt: dict[str, tuple[str, ...]] = {}
        """By the path that a node has or would have as a separate file."""
        self._cut: dict[str, Uri] = {}
        """URIs by path, for paths from which the URI cannot be derived."""
        self.locations = PartLocations()

    # ---- reading

    def invalid_files(self) -> tuple[InvalidFile, ...]:
        if not self._invalid:
            return ()
        with self._lock:
            return tuple(self._invalid[path] for path in sorted(self._invalid))

    def invalid_file(self, path: str) -> InvalidFile | None:
        return self._invalid.get(path)

    def misspelt_keys(self) -> list[str]:
        """A sentence for each unknown key of a node that is probably a misspelt field, with the node's file."""
        with self.graph.lock, self._lock:  # a flush may move a node to another part
            return sorted(f"{self._file_of(path)}: {said}" for path, all in self._misspelt.items() for said in all)

    def _file_of(self, path: str) -> str:
        """The path at which the node of this path is stored; with its URI if it is in a part."""
        uri = self._uri_of(path)
        at = self.locations.part_with(uri) if uri else None
        return f"{at.path}: {uri}" if at else path

    def conflict_paths(self, folder: str | None = None) -> list[str]:
        """The sorted paths of open conflict records, in one node's folder or all."""
        with self._lock:
            chosen = self._conflicts.values() if folder is None else [self._conflicts.get(folder, set())]
            return sorted(path for paths in chosen for path in paths)

    def disputed(self) -> set[Uri]:
        """The nodes whose conflict records were added, changed or removed since the last call. For the writer's
        thread."""
        found, self._disputed = self._disputed, set()
        return found

    @property
    def conflict_count(self) -> int:
        return sum(map(len, self._conflicts.values()))

    def path_of(self, uri: Uri) -> str:
        return paths.path_of(uri, self.sharded)

    def bytes_of(self, uri: Uri) -> bytes | None:
        """The bytes of the node's file, real or virtual; None if there is no such node.

        Raises:
            Damaged: The file cannot be read."""
        with self.graph.lock:  # a flush may move the node to another part
            card, at = self.graph.card(uri), self.locations.part_with(uri)
        if card is None or card.blob is None:
            return None
        if at is None:
            return self._store.read(card.blob)
        return parts.node_bytes(*at, uri, card.blob, self._store.read)

    def places(self, uris: Iterable[Uri]) -> tuple[ObjectId, dict[Uri, tuple[ObjectId, At | None]]]:
        """The served tree, and the blobs and parts that `bytes_of` reads; without nodes that do not exist."""
        with self.graph.lock:
            found = {uri: (self.graph.card(uri), self.locations.part_with(uri)) for uri in uris}
            tree = self.tree
        assert tree is not None
        return tree, {uri: (card.blob, at) for uri, (card, at) in found.items() if card and card.blob}

    def node_path_of(self, path: str, blob: ObjectId | None) -> str | None:
        """The path of the node that owns a memory, because a change to the detail is a change to the node."""
        if blob is None or not paths.is_memory_path(path):
            return None
        try:
            owner = memory_files.owner_of(front_matter.memory_in(self._store.read(blob, FILE_LIMIT), path))
            return self.path_of(owner) if owner else None
        except KgdError:
            return None

    def counted(self, changes: Sequence[History]) -> list[str]:
        """The paths whose versions a commit increases: files, nodes in parts, and nodes of details and of resolved
        conflicts."""
        own = node_changes(self._store, self.sharded, changes)
        details = (self.node_path_of(change.path, change.new) for change in own)
        resolved = filter(None, (resolved_conflict(self._store.read, change, self.sharded) for change in own))
        about = (self.path_of(one.uri) for one in resolved if not is_settings_uri(one.uri))
        return list(dict.fromkeys([*(change.path for change in own), *filter(None, details), *about]))

    def uris_between(self, old: ObjectId, new: ObjectId) -> list[Uri]:
        """The nodes that differ between two trees, including nodes whose last good version is served."""
        found: dict[Uri, None] = {}
        for path, before, after in NodeFiles(self._store, self.sharded).diff(old, new):
            if path.startswith("nodes/"):
                found |= {uri: None for uri in (self._uri_of(path),) if uri}
            elif paths.is_part_path(path):
                found |= dict.fromkeys(self.locations.uris(path))
            elif paths.is_memory_path(path):
                found |= dict.fromkeys(self._owners(path, before, after))
        return list(found)

    # ---- the snapshot

    def freeze(self) -> tuple[str, Frozen]:
        """The root tree, in hex, and its graph."""
        with self.graph.lock:
            return self.tree.hex() if self.tree else "", self.graph.freeze()

    def export(self) -> tuple[str, Frozen, dict[str, list[str]]]:
        """Consistent input for `restore`: the tree, the graph, and paths that need special treatment."""
        tree, frozen = self.freeze()
        with self._lock:
            conflicts = [path for paths in self._conflicts.values() for path in paths]
            care = {"invalid": sorted(self._invalid), "conflicts": sorted(conflicts), "cut": sorted(self._cut)}
            care |= {"parts": self.locations.export(), "shadowed": self.locations.shadowed_files()}
            care["misspelt"] = sorted(self._misspelt)
        return tree, frozen, care

    def restore(self, tree: ObjectId, arrays: Arrays, care: Mapping[str, list[str]]) -> None:
        """Load the output of `export`; `load` then updates it to the tip. O(moved nodes, and paths that need special
        treatment)."""
        self.graph.load(arrays)
        self.tree = tree
        # One walk, since ten thousand separate look-ups would read the parent folders ten thousand times.
        folder = self._store.lookup(tree, "conflicts") if care.get("conflicts") else None
        records = self._store.files(folder[1]) if folder and folder[0] == FOLDER else ()
        there = {f"conflicts/{file.path}" for file in records}
        for path in care.get("conflicts", ()):
            if path in there:
                self._note_conflict(path, True)
        self.locations.restore(care.get("parts", ()), lambda uri: card.uri if (card := self.graph.card(uri)) else uri)
        for path in [name for kind in ("cut", "shadowed", "invalid") for name in care.get(kind, ())]:
            found = self._store.lookup(tree, path)
            if found:
                list(self._apply_entry(path, found))
        for path in care.get("misspelt", ()):
            with contextlib.suppress(KgdError):
                data = self.bytes_of(uri) if (uri := self._uri_of(path)) else None
                self._note_keys(path, _glance(data, path) if data else None)

    def close(self) -> None:
        """Make the loaded nodes subject to garbage collection again."""
        gc.unfreeze()

    @contextlib.contextmanager
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
        """Bring everything to `tree`, by a diff from the current tree or from nothing. Returns the changes since an
        earlier tree."""
        if tree == self.tree:
            return []
        if self.tree is None:
            self._load_first(tree)
            return []
        entries = list(self._store.changed_entries(self.tree, tree))
        return self._advance(entries, tree, self._read_ahead(entries))

    def _load_first(self, tree: ObjectId) -> None:
        self._target = stream = ArrayStream()
        try:
            for path, new in self._store.changed_entries(None, tree):
                self._apply_entry(path, new)
            self.graph.load(stream.arrays())
        finally:
            self._target = self.graph
        self.tree = tree

    def follow(
        self, files: Iterable[tuple[str, ObjectId | None]], tree: ObjectId, nodes: Mapping[str, Node]
    ) -> list[Change]:
        """Apply changed files, by path and new blob, which together lead to `tree`.

        `nodes` are known nodes of these files, by path; the others are read.
        """
        entries = [(path, (FILE, blob) if blob else None) for path, blob in files]
        unknown = [entry for entry in entries if entry[0] not in nodes]
        return self._advance(entries, tree, {**self._read_ahead(unknown), **nodes})

    def _read_ahead(self, entries: Iterable[tuple[str, Entry | None]]) -> dict[str, Node | Lean]:
        """The nodes of these files, by path, read before readers of the graph have to wait. Parts are cached, as many
        as the cache holds.

        A file that cannot be read is left to `_advance`.
        """
        found: dict[str, Node | Lean] = {}
        cached = 0
        for path, new in entries:
            if new and new[0].startswith(PLAIN):
                with contextlib.suppress(KgdError):
                    if paths.is_part_path(path) and cached < parts.KEPT:
                        cached += 1
                        parts.decoded(path, new[1], self._read_part)
                    elif path.startswith("nodes/") and len(found) < READ_AHEAD:
                        found[path] = _glance(self._store.read(new[1]), path)
        return found

    def _advance(
        self, entries: Iterable[tuple[str, Entry | None]], tree: ObjectId, nodes: Mapping[str, Node | Lean]
    ) -> list[Change]:
        """Apply changed files at once for readers of the graph."""
        changes, details, before = list[Change](), list[tuple[str, ObjectId | None]](), self.tree
        assert before is not None
        with self._growing():
            with self.graph.lock:
                for path, new in entries:
                    changes += self._apply_entry(path, new, nodes.get(path))
                    if paths.is_memory_path(path):
                        details.append((path, new and new[1]))
                self.tree = tree
            if details:
                changes += self._detailed(before, details, changes)
        return changes

    def _detailed(
        self, old: ObjectId, changed: Iterable[tuple[str, ObjectId | None]], known: Iterable[Change]
    ) -> list[Change]:
        """Changes to nodes whose detail changed but whose own file did not. `old` is the tree before the change."""
        done = {change.uri for change in known}
        found: dict[Uri, Change] = {}
        for path, blob in changed:
            for uri in self._owners(path, self._store.entry(old, path), blob):
                card = self.graph.card(uri)
                if card and card.blob and uri not in done:
                    found[uri] = Change(self.path_of(uri), uri, card.blob)
        return list(found.values())

    def _owners(self, path: str, *blobs: ObjectId | None) -> list[Uri]:
        """The nodes that versions of a memory name as owner, by their current URIs."""
        owners = []
        for blob in blobs:
            try:
                memory = front_matter.memory_in(self._store.read(blob, FILE_LIMIT), path) if blob else None
            except KgdError:
                continue
            if owner := memory_files.owner_of(memory):
                owners.append(self.graph.resolve(owner))
        return owners

    def _apply_entry(self, path: str, new: Entry | None, node: Node | Lean | None = None) -> Sequence[Change]:
        """As `_apply`; a committed link or submodule is not a node, even if its bytes form a node."""
        if new and not new[0].startswith(PLAIN) and path.startswith(("nodes/", "bulk/")):
            what = "a symbolic link" if new[0] == LINK else "a submodule"
            refusal = Invalid(f"it is {what} in git, and only plain files are read")
            keep_last = self._keep_last_part if paths.is_part_path(path) else self._keep_last_good
            return keep_last(path, refusal)
        return self._apply(path, new and new[1], node)

    def _apply(self, path: str, new: ObjectId | None, node: Node | Lean | None) -> Sequence[Change]:
        if path.startswith("conflicts/"):
            self._apply_conflict(path, new)
            return ()
        if paths.is_part_path(path):
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
        """Apply a conflict record. An unreadable or misplaced record is reported, and otherwise ignored."""
        refusal: KgdError | None = None
        try:
            if new:
                documents.read_record(self._store.read(new, FILE_LIMIT), path, self.sharded, self.workspace)
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

    def _put(self, path: str, blob: ObjectId, known: Node | Lean | None) -> Sequence[Change]:
        node = known or _glance(self._store.read(blob), path)
        paths.check_place(node.uri, path, self.workspace, self.sharded)
        if self._invalid:
            self._mark(path)
        if self.locations.part_with(node.uri):
            self.locations.shadow(node.uri, path, blob)
            return ()
        self._serve(node, blob, path)
        if "~" in path and self._uri_of(path) is None:
            self._cut[path] = node.uri
        return (Change(path, node.uri, blob),)

    def _serve(self, node: Node | Lean, blob: ObjectId, path: str) -> None:
        self._note_keys(path, node)
        card = Card(node.uri, node.type, label_of(node.uri, node.name, node.summary), node.summary, blob, "")
        target = self._target
        if isinstance(target, LiveGraph):
            relations = node.relations if isinstance(node, Node) else [Relation(*each) for each in node.relations]
            target.put(card, relations, node.aliases)
        elif isinstance(node, Node):
            target.put(card, [(r.type, r.target, r.weight, r.data) for r in node.relations], node.aliases)
        else:
            target.put(card, node.relations, node.aliases)

    def _mark(self, path: str, refusal: KgdError | None = None, uri: Uri | None = None) -> None:
        """Record why a file cannot be read or, without a refusal, that it can be read."""
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
        uri = self._uri_of(path)
        if uri is None:
            return ()
        if self.locations.part_with(uri):
            self.locations.shadow(uri, path, None)
            return ()
        self._note_keys(path, None)
        self.graph.remove(uri)
        return (Change(path, uri, None),)

    def _keep_last_good(self, path: str, refusal: KgdError) -> Sequence[Change]:
        uri = self._uri_of(path)
        self._mark(path, refusal, uri)
        if uri is None or self._target.card(uri) is not None:
            return ()
        good = self._last_good(path)
        if good is None:
            return ()
        node = _glance(self._store.read(good), path)
        self._serve(node, good, path)
        return (Change(path, node.uri, good),)

    # ---- parts

    def _apply_part(self, path: str, new: ObjectId | None) -> Sequence[Change]:
        try:
            part = parts.decoded(path, new, self._read_part) if new else None
            if part and part.ids and workspace_of(next(iter(part.ids))) != self.workspace:
                raise Invalid("this part contains nodes of another workspace", at=f"{path}:1")
        except KgdError as refusal:
            return self._keep_last_part(path, refusal)
        self._mark(path)
        return self._serve_part(path, new, part)

    def _keep_last_part(self, path: str, refusal: KgdError) -> Sequence[Change]:
        self._mark(path, refusal)
        good = None if self.locations.uris(path) else self._last_good(path)
        return self._serve_part(path, good, parts.decoded(path, good, self._read_part)) if good else ()

    def _read_part(self, blob: ObjectId) -> bytes:
        return self._store.read(blob, FILE_LIMIT)

    def _serve_part(self, path: str, blob: ObjectId | None, part: parts.DecodedPart | None) -> list[Change]:
        """Serve the nodes of a part. A node that a person stored in several parts is served from the first part."""
        changes: list[Change] = []
        for uri in self.locations.put(path, blob, part.ids if part else (), self._own_file):
            at = self.locations.place(uri)
            own = paths.path_of(uri, self.sharded)
            card = self._target.card(uri)
            if at is None:
                self._note_keys(own, None)
                self._target.remove(uri)
                changes.append(Change(own, uri, None))
            elif isinstance(at, bytes):  # its separate file, which a part replaced
                self.locations.shadow(uri, own, None)
                self._serve(_glance(self._store.read(at), own), at, own)
                changes.append(Change(own, uri, at))
            else:
                there = part if part and at.path == path else parts.decoded(at.path, at.blob, self._read_part)
                id = there.ids[uri]
                if card is None or card.blob != id:
                    data = there.entries.nodes[uri]
                    self._serve(_glance(data, own), id, own)
                    changes.append(Change(own, uri, id))
        return changes

    def _own_file(self, uri: Uri) -> tuple[str, ObjectId] | None:
        """Path and blob of the separate file from which a node is served."""
        card = self._target.card(uri)
        return (paths.path_of(uri, self.sharded), card.blob) if card and card.blob else None

    def _uri_of(self, path: str) -> Uri | None:
        if path in self._cut:
            return self._cut[path]
        try:
            return paths.uri_of(path, self.workspace, self.sharded)
        except KgdError:
            return None


def _glance(data: bytes, path: str) -> Node | Lean:
    """The node in a file. A file of the ordinary shape is not fully decoded, because startup reads all files."""
    return glance(data) or documents.decode(data, at=path)


class Written(NamedTuple):
    """A commit that wrote a file; its blob is looked up on demand."""

    commit: ObjectId


class SentVersions:
    """The content sent from a workspace, by path and version, for the lifetime of the process. Safe for any number of
    threads.

    A version is a count. After history is rewritten, the same number may stand for different content, so an expected
    version is checked against the content that was read.
    """

    def __init__(self, store: ObjectStore, served: Served) -> None:
        self._store, self._served = store, served
        self._lock = threading.Lock()
        self._answers: OrderedDict[str, bytearray] = OrderedDict()
        """Answers by path, packed: as separate objects they would take 400 bytes each, 8 MB in total."""
        self._count = 0

    def note(self, uri: Uri, version: int) -> None:
        """Record that the node is sent in its current state with this version."""
        card = self._served.graph.card(uri)
        if card and card.blob:
            self._keep(self._served.path_of(uri), version, card.blob)

    def note_written(self, commit: str, nodes: Iterable[tuple[Uri, int]]) -> None:
        """Record that the author of a commit knows its content under the versions in the answer."""
        for uri, version in nodes:
            self._keep(self._served.path_of(uri), version, bytes.fromhex(commit), is_commit=True)

    def note_detail(self, path: str, version: int) -> None:
        """Record that a detail file is sent with a version of its node; see `note`."""
        tree = self._served.tree
        blob = self._store.entry(tree, path) if tree else None
        if blob:
            self._keep(path, version, blob)

    def get(self, path: str, version: int) -> ObjectId | Written | None:
        """The recorded blob, or the commit that wrote it; None if nothing is recorded."""
        with self._lock:
            answers = self._answers.get(path, b"")
            at = _find(answers, version)
            if at < 0:
                return None
            _, is_commit, id = _ANSWER.unpack_from(answers, at)
        return Written(id) if is_commit else id

    def blob(self, path: str, version: int) -> ObjectId | None:
        """The blob sent for a file; None if nothing is recorded."""
        found = self.get(path, version)
        if not isinstance(found, Written):
            return found
        return self._store.entry(self._store.tree_of(found.commit), path)

    def _keep(self, path: str, version: int, id: ObjectId, *, is_commit: bool = False) -> None:
        answer = _ANSWER.pack(version, is_commit, id)
        with self._lock:
            answers = self._answers.setdefault(path, bytearray())
            self._answers.move_to_end(path)
            if (at := _find(answers, version)) >= 0:
                answers[at : at + _ANSWER.size] = answer
                return
            answers += answer
            self._count += 1
            if len(answers) > SENT_KEPT_OF_ONE * _ANSWER.size:
                del answers[: _ANSWER.size]
                self._count -= 1
            while self._count > SENT_KEPT:
                self._count -= len(self._answers.popitem(last=False)[1]) // _ANSWER.size


def _find(answers: bytes | bytearray, version: int) -> int:
    """The offset of the answer for a version; -1 if there is no answer."""
    if version >> 32:  # an expected version may be any number
        return -1
    number = _VERSION.pack(version)
    at = answers.find(number)
    while at >= 0 and at % _ANSWER.size:
        at = answers.find(number, at + 1)
    return at


class Beside:
    """In-memory state of a feature for one workspace, dropped with it."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace, self._lock = workspace, threading.Lock()

    @classmethod
    def of(cls, workspace: Workspace) -> Self:
        """The workspace's instance of this class, created at the first call."""
        return workspace.beside(cls, cls)


class Changed:
    """Nodes of some schemes, or of all, written or deleted since the last `take`; for features with state in memory.

    Thread-safe. The thread that flushes only records the nodes, each once; the next reader reads them.
    """

    def __init__(self, workspace: Workspace, *schemes: str) -> None:
        self._workspace, self._schemes = workspace, schemes
        self._starts = tuple(f"{scheme}:" for scheme in schemes) or ("",)
        self._lock, self._uris = threading.Lock(), set[Uri]()
        self._has_listed = False
        workspace.on_commit(self._note)

    def take(self) -> set[Uri]:
        """The changes since the last call."""
        with self._lock:
            uris, self._uris = self._uris, set()
        return uris

    def unread(self) -> set[Uri]:
        """All nodes at the first call, then the changes since the last one. For one reader at a time."""
        changed = self.take()
        if not self._has_listed:
            for scheme in self._schemes or (None,):
                changed.update(self._workspace.graph.uris(scheme=scheme))
            self._has_listed = True
        return changed

    def _note(self, uris: Iterable[Uri]) -> None:
        if ours := [uri for uri in uris if uri.startswith(self._starts)]:
            with self._lock:
                self._uris.update(ours)
