"""Parts of threads and documents: decodes each part once, and reads the repository as if every node had its own file.

Decoded parts are cached by blob, independently of the tree. A node in a part has the path and the blob that its own
file would have, so it does not change when it moves into a part.

People may store a node in several places. The first path is then used, and parts take precedence over separate files,
so a full load and an incremental one give the same result. Nodes with separate files take no memory in `PartLocations`.

`Folder` chooses the part to which each new or changed node goes. The same tree and nodes give the same files on every
replica: A node stays in its part. A new node goes to the last part while that part is small, otherwise to a new one, so
growing threads rewrite little. A part that is too large keeps its first nodes; its other nodes are placed like new
nodes.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, Protocol

from kgd.codec import bulk, canonical, documents, paths
from kgd.errors import Invalid, KgdError
from kgd.git.history import Change
from kgd.git.objects import FILE, FOLDER, PLAIN, Entry, ObjectId, Tree, object_id, text
from kgd.git.store import READ_LIMIT, ObjectStore
from kgd.git.walk import ENTRY_BUDGET
from kgd.model.conflict import Conflict
from kgd.model.fields import misspelt
from kgd.model.node import NODE_BYTES, Node
from kgd.model.uri import Uri, workspace_of

Hint = Callable[[Uri], str | None]

FILE_LIMIT = 1 << 20
"""Maximum bytes of a file; larger files are not read. A node's file has at most a quarter of this."""
KEPT = 64
"""Maximum number of decoded parts in memory; they take at most 10 MB, usually 2."""

Read = Callable[[ObjectId], bytes]


@dataclass(frozen=True, slots=True)
class DecodedPart:
    """A decoded part: for each node, the blob that its own file would have, and its bytes."""

    entries: bulk.Entries
    ids: Mapping[Uri, ObjectId]


class NodeInPart(NamedTuple):
    """A node in a part."""

    path: str
    id: ObjectId
    data: bytes


@dataclass(slots=True)
class Difference:
    """The nodes of changed parts, before and after. `unread` are the unreadable parts."""

    old: dict[Uri, NodeInPart] = field(default_factory=dict)
    new: dict[Uri, NodeInPart] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)

    def uris(self) -> list[Uri]:
        """The sorted URIs of nodes that changed; moving to another part is not a change."""
        old, new = ({uri: inside.id for uri, inside in side.items()} for side in (self.old, self.new))
        return sorted(uri for uri in {*old, *new} if old.get(uri) != new.get(uri))


_kept: OrderedDict[tuple[ObjectId, str], DecodedPart] = OrderedDict()
_keeping = threading.Lock()


def decoded(path: str, blob: ObjectId, read: Read) -> DecodedPart:
    """The decoded part at a path with this blob. Calls `read` unless it is cached.

    Raises:
        KgdError: The part cannot be read, or contains a node that belongs elsewhere.
    """
    known = _known(path, blob)
    if known is not None:
        return known
    entries = bulk.read(read(blob), path)
    made = DecodedPart(entries, {uri: object_id("blob", data) for uri, data in entries.nodes.items()})
    with _keeping:
        _kept[blob, path.rpartition("/")[0]] = made
        while len(_kept) > KEPT:
            _kept.popitem(last=False)
    return made


def misspelt_keys(data: bytes, path: str, workspace: str | None = None) -> Iterator[str]:
    """A sentence for each unknown key in a part that is probably a misspelt field, with the URI of its node. Raises as
    `bulk.read`."""
    for uri, entry in bulk.read(data, path, workspace).nodes.items():
        yield from (f"{uri}: {said}" for said in misspelt(documents.decode(entry)))


def node_bytes(path: str, blob: ObjectId, uri: Uri, id: ObjectId, read: Read) -> bytes:
    """The bytes of one node in a part with this blob. Decodes the part only if necessary.

    Raises:
        KgdError: The part cannot be read.
    """
    known = _known(path, blob)
    if known is None:
        data = bulk.cut(read(blob), uri)
        if data is not None and object_id("blob", data) == id:
            return data
        known = decoded(path, blob, read)
    return known.entries.nodes[uri]


def difference(changes: Iterable[tuple[str, ObjectId | None, ObjectId | None]], read: Read) -> Difference:
    """The nodes of these parts (path, blob before, blob after), before and after. A node in two parts is taken from the
    first part."""
    found = Difference()
    for path, old, new in sorted(changes):
        try:
            before, after = (decoded(path, blob, read) if blob else None for blob in (old, new))
        except KgdError:
            found.unread.add(path)
            continue
        for into, part in ((found.old, before), (found.new, after)):
            for uri, id in part.ids.items() if part else ():
                if uri not in into:
                    into[uri] = NodeInPart(path, id, part.entries.nodes[uri])  # type: ignore[union-attr]
    return found


def may_name(path: str, blob: ObjectId, name: str, read: Read) -> bool:
    """Whether the part may contain a node whose URI ends in `name`, determined without decoding the part."""
    known = _known(path, blob)
    if known is not None:
        return any(uri.endswith(name) for uri in known.ids)
    data = read(blob)
    return name.encode() in data or b"\\" in data


def _known(path: str, blob: ObjectId) -> DecodedPart | None:
    key = blob, path.rpartition("/")[0]
    with _keeping:
        known = _kept.get(key)
        if known is not None:
            _kept.move_to_end(key)
    return known


Changed = tuple[str, Entry | None, Entry | None]
FOLDERS = tuple(f"nodes/{scheme}/" for scheme in sorted(paths.PARTS_OF))
"""The folders where nodes of parts would have their own files."""


TREES_KEPT = 16
"""Number of parsed folders that a computation keeps: it often looks for several nodes in the same ones."""


class NodeFiles(ObjectStore):
    """A view of the repository with nodes instead of parts, for one thread and one computation.

    A part that is unreadable or contains a misplaced node appears as an ordinary file. `tree` and its users (`Lookup`,
    `check_history`) see the repository unchanged.

    Args:
        hint: The part that holds a node now, if known; it is searched first.
    """

    def __init__(self, store: ObjectStore, sharded: frozenset[str], hint: Hint = lambda uri: None) -> None:
        self.__dict__.update(store.__dict__)
        self._raw, self._sharded, self._hint = store, sharded, hint
        self._inside: dict[ObjectId, bytes] = {}
        self._tree = lru_cache(maxsize=TREES_KEPT)(store.tree)

    # ---- objects

    def tree(self, id: ObjectId) -> Tree:
        return self._tree(id)

    def _read(self, id: ObjectId, limit: int = READ_LIMIT) -> tuple[str, bytes]:
        inside = self._inside.get(id)
        return ("blob", inside) if inside is not None else self._raw._read(id, limit)

    def lookup(self, tree: ObjectId, path: str) -> Entry | None:
        uri = uri_in_part(path, self._sharded)
        folder = paths.part_folder_of(uri) if uri else None
        if uri is None or folder is None:
            return super().lookup(tree, path)
        found = super().lookup(tree, folder)
        listed = (
            {text(name): entry for name, entry in self.tree(found[1]).items()} if found and found[0] == FOLDER else {}
        )
        hint, last = self._hint(uri) or "", uri.rpartition("/")[2]
        for part in sorted(listed, key=lambda part: (f"{folder}/{part}" != hint, part)):
            at, (mode, blob) = f"{folder}/{part}", listed[part]
            try:
                if not paths.is_part_path(at) or not mode.startswith(PLAIN):
                    continue
                if at != hint and not may_name(at, blob, f"/{last}", self._raw.read):
                    continue
                inside = decoded(at, blob, self._raw.read)
            except KgdError:
                continue
            name = Uri(f"{inside.entries.parent}/{last}")
            if (id := inside.ids.get(name)) is not None:
                self._inside[id] = inside.entries.nodes[name]
                return FILE, id
        return super().lookup(tree, path)

    # ---- walks

    def changes(self, old: ObjectId | None, new: ObjectId | None, *, budget: int = ENTRY_BUDGET) -> Iterator[Changed]:
        return self.expanded(super().changes(old, new))

    def expanded(self, changes: Iterable[Changed]) -> Iterator[Changed]:
        """Changes of files with nodes instead of parts; moving a node into a part is not a change."""
        own: dict[str, tuple[Entry | None, Entry | None]] = {}
        changed: dict[str, tuple[Entry | None, Entry | None]] = {}
        for path, old, new in changes:
            if paths.is_part_path(path) and _is_plain(old) and _is_plain(new):
                changed[path] = old, new
            elif path.startswith(FOLDERS):
                own[path] = old, new
            else:
                yield path, old, new
        found = difference(((p, o and o[1], n and n[1]) for p, (o, n) in changed.items()), self._raw.read)
        for path in sorted(found.unread):
            yield path, *changed[path]
        for uri in sorted({*found.old, *found.new}) if own else found.uris():
            path = paths.path_of(uri, self._sharded)
            was, now = own.pop(path, (None, None))
            before, after = (self._entry(side.get(uri)) for side in (found.old, found.new))
            if (before or was) != (after or now):
                yield path, before or was, after or now
        for path, (old, new) in own.items():
            yield path, old, new

    def _entry(self, inside: NodeInPart | None) -> Entry | None:
        if inside is None:
            return None
        self._inside[inside.id] = inside.data
        return FILE, inside.id


def node_changes(store: ObjectStore, sharded: frozenset[str], changes: Sequence[Change]) -> Sequence[Change]:
    """File changes of a commit as node changes; for a merge, changes against every parent."""
    if not any(is_about_parts(change.path) for change in changes):
        return changes
    view = NodeFiles(store, sharded)
    parents = 1 + max(len(change.others) for change in changes)
    sides: list[dict[str, Change]] = []
    for number in range(parents):
        rows = ((c.path, _plain((c.old, *c.others)[number]), _plain(c.new)) for c in changes)
        sides.append({p: Change(p, o and o[1], n and n[1]) for p, o, n in view.expanded(rows)})
    return [
        side._replace(others=tuple(other[path].old for other in sides[1:]))
        for path, side in sides[0].items()
        if all(path in other for other in sides)
    ]


def resolved_conflict(read: Read, change: Change, sharded: frozenset[str]) -> Conflict | None:
    """The conflict that a change of a file resolved by removing its readable record. A merge resolves none."""
    if not (change.path.startswith(paths.CONFLICTS) and change.old and not change.new) or change.others:
        return None
    try:
        return documents.read_record(read(change.old), change.path, sharded)
    except KgdError:
        return None


def node_in(path: str, data: bytes | None) -> Node | None:
    """The node in a file; None if the file is absent or cannot be decoded."""
    try:
        return documents.decode(data, at=path) if data is not None else None
    except KgdError:
        return None


def node_of(path: str, blob: ObjectId | None, read: Read) -> Node | None:
    """The node in a blob; None if there is no blob, or if it cannot be read or decoded."""
    try:
        return node_in(path, read(blob) if blob else None)
    except KgdError:
        return None


def is_about_parts(path: str) -> bool:
    """Whether a path may be a part, or the path that a node in a part would have for its own file."""
    return paths.is_part_path(path) or path.startswith(FOLDERS)


def _plain(blob: ObjectId | None) -> Entry | None:
    return (FILE, blob) if blob else None


def uri_in_part(path: str, sharded: frozenset[str]) -> Uri | None:
    """A URI for this path if its node may be in a part; the workspace in it is a placeholder."""
    if not path.startswith(FOLDERS):
        return None
    try:
        uri = paths.uri_of(path, "x", sharded)
    except KgdError:
        return None
    return uri if uri and paths.part_folder_of(uri) else None


def _is_plain(entry: Entry | None) -> bool:
    return entry is None or entry[0].startswith(PLAIN)


class At(NamedTuple):
    """A part as it is served: in its last good version."""

    path: str
    blob: ObjectId


class PartLocations:
    """The locations of all nodes in parts. Changed in the thread that flushes under the graph's lock."""

    def __init__(self) -> None:
        self._parts: dict[str, tuple[At, Sequence[Uri]]] = {}
        self._at: dict[Uri, At] = {}
        self._more: dict[Uri, set[str]] = {}
        """Additional parts that contain the node."""
        self._own: dict[Uri, tuple[str, ObjectId]] = {}
        """Path and blob of the separate files of nodes that are also in parts."""
        self.part_with = self._at.get
        """The part that a node is served from, or None. O(1)."""

    def place(self, uri: Uri) -> At | ObjectId | None:
        """The node's part; otherwise the blob of the separate file that a part replaced; otherwise None."""
        own = self._own.get(uri)
        return self._at.get(uri) or (own[1] if own else None)

    def uris(self, path: str) -> Sequence[Uri]:
        """The nodes of a part."""
        return self._parts[path][1] if path in self._parts else ()

    def doubled(self) -> list[tuple[Uri, str]]:
        """Nodes stored more than once, with each additional path."""
        own = [(uri, path) for uri, (path, _) in self._own.items()]
        return sorted([*own, *((uri, path) for uri, paths in self._more.items() for path in paths)])

    def put(
        self, path: str, blob: ObjectId | None, uris: Collection[Uri], own: Callable[[Uri], tuple[str, ObjectId] | None]
    ) -> list[Uri]:
        """Set the nodes of a part (without a blob, the part is gone). Returns the nodes to check, sorted.

        Args:
            own: Returns path and blob of the separate file from which a node has been served so far.
        """
        before = self.uris(path)
        known = set(before)
        if blob is None:
            self._parts.pop(path, None)
        else:
            self._parts[path] = At(path, blob), tuple(uris)
        for uri in before:
            if uri not in uris:
                self._leave(uri, path)
        for uri in uris:
            assert blob is not None
            if uri not in known and uri not in self._at and (file := own(uri)):
                self._own[uri] = file
            self._come(uri, At(path, blob))
        return sorted(known.union(uris))

    def shadow(self, uri: Uri, path: str, blob: ObjectId | None) -> None:
        """Record that a node in a part also has a separate file (with a blob of None, that the file is gone)."""
        if blob is None:
            self._own.pop(uri, None)
        else:
            self._own[uri] = path, blob

    def _come(self, uri: Uri, at: At) -> None:
        now = self._at.get(uri)
        if now is None or now.path == at.path:
            self._at[uri] = at
        elif at.path < now.path:
            self._at[uri] = at
            self._more.setdefault(uri, set()).add(now.path)
        else:
            self._more.setdefault(uri, set()).add(at.path)

    def _leave(self, uri: Uri, path: str) -> None:
        more = self._more.get(uri)
        if self._at[uri].path != path:
            assert more is not None
            more.discard(path)
        elif more:
            first = min(more)
            more.discard(first)
            self._at[uri] = self._parts[first][0]
        else:
            del self._at[uri]
        if more is not None and not more:
            del self._more[uri]

    def export(self) -> list[str]:
        """The input for `restore`: for each part its path, blob, number of nodes and their URIs."""
        flat: list[str] = []
        for at, uris in self._parts.values():
            flat += [at.path, at.blob.hex(), str(len(uris)), *uris]
        return flat

    def shadowed_files(self) -> list[str]:
        return sorted(path for path, _ in self._own.values())

    def restore(self, flat: Sequence[str], same: Callable[[Uri], Uri]) -> None:
        """Load the output of `export`. `same` returns the copy of a URI that is already in memory."""
        at = 0
        while at < len(flat):
            path, blob, count = flat[at], bytes.fromhex(flat[at + 1]), int(flat[at + 2])
            uris = [same(Uri(uri)) for uri in flat[at + 3 : at + 3 + count]]
            self.put(path, blob, uris, lambda uri: None)
            at += 3 + count


OPEN_BYTES = 32 * 1024
"""Parts above this size are not rewritten for a new node: 10,000 single messages then write 160 MB instead of 640."""


class ChangedTree(Protocol):
    """The tree that a change is based on, including earlier changes of the flush."""

    def blob_at(self, path: str) -> ObjectId | None: ...
    def read(self, path: str) -> bytes | None: ...
    def names(self, folder: str) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class Capacity:
    """The capacity of a part."""

    bytes: int
    events: int


WRITTEN = Capacity(bulk.PART_BYTES, bulk.PART_EVENTS)
READABLE = Capacity(NODE_BYTES, canonical.MAX_EVENTS)


@dataclass(slots=True)
class Folder:
    """The parts of one thread or document, in a tree and after a change."""

    path: str
    tree: ChangedTree
    known: Callable[[Uri], Collection[str] | None]
    """Returns the parts that may hold a node; None if that can only be found in the tree."""
    workspace: str = ""
    """The workspace of the nodes, if set: a part with nodes of another workspace is treated as unreadable."""
    changed: dict[str, dict[Uri, bytes]] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)

    def names(self) -> list[str]:
        """Paths of the parts in the tree."""
        listed = (f"{self.path}/{name}" for name in self.tree.names(self.path))
        return [path for path in listed if paths.is_part_path(path)]

    def find(self, uri: Uri) -> str | None:
        """The part in the tree that holds the node.

        Raises:
            KgdError: The node may be in an unreadable part.
        """
        known = self.known(uri)
        if known is not None and len(known) == 1 and uri in self.part(*known).ids:
            return next(iter(known))
        for path in self.names() if known is None else known:
            blob = self.tree.blob_at(path)
            named = blob and may_name(path, blob, f"/{uri.rpartition('/')[2]}", self._reader(path))
            if named and uri in self.part(path).ids:
                return path
        return None

    def part(self, path: str) -> DecodedPart:
        """A decoded part of the tree; an empty part if it is absent.

        Raises:
            KgdError: The part cannot be read.
        """
        blob = self.tree.blob_at(path)
        found = decoded(path, blob, self._reader(path)) if blob else DecodedPart(bulk.Entries(), {})
        if self.workspace and found.ids and workspace_of(next(iter(found.ids))) != self.workspace:
            raise Invalid("this part contains nodes of another workspace", at=f"{path}:1")
        return found

    def _reader(self, path: str) -> Read:
        return lambda blob: self.tree.read(path) or b""

    # ---- changing

    def fill(
        self, nodes: Mapping[Uri, bytes | None], places: Mapping[Uri, str] | None = None, room: Capacity | None = None
    ) -> None:
        """Store these nodes (None: removed), in these parts if given.

        Raises:
            KgdError: A part to be written cannot be read; writing it would overwrite a person's text.
        """
        places, new = places or {}, dict[Uri, bytes]()
        for uri in sorted({*nodes, *places}):
            now = self.find(uri)
            goal = places.get(uri) or now
            if uri not in nodes and (now is None or now == goal):
                continue
            data = nodes[uri] if uri in nodes else self.part(now or "").entries.nodes[uri]
            if now:
                self.open(now).pop(uri, None)
            if data is not None and goal:
                self.open(goal)[uri] = data
            elif data is not None:
                new[uri] = data
        for path in sorted(self.changed):
            new |= _overflow(self.changed[path], room or WRITTEN)
        self._append(new)

    def open(self, path: str) -> dict[Uri, bytes]:
        """The nodes of a part that will be written."""
        if path not in self.changed:
            self.changed[path] = dict(self.part(path).entries.nodes)
            self.sources[path] = self.part(path).entries.source
        return self.changed[path]

    def files(self, source: str | None = None) -> dict[str, bytes | None]:
        """The changed files. With `source`, every part records it as its origin."""
        return {
            path: bulk.encode_entries(bulk.Entries(nodes, self.sources.get(path, "") if source is None else source))
            if nodes
            else None
            for path, nodes in self.changed.items()
        }

    def _append(self, new: Mapping[Uri, bytes]) -> None:
        """Add nodes after all others, in the order of their URIs."""
        at, size, events = "", 0, 0
        for uri in sorted(new):
            more, many = bulk.size_of(new[uri]), bulk.events_of(new[uri])
            if not at:
                at, size, events = self._last()
            if not at or size + more > WRITTEN.bytes or events + many > WRITTEN.events:
                at, size, events = self._next(), 64, 8
                self.changed[at] = {}
            self.changed[at][uri] = new[uri]
            size, events = size + more, events + many

    def _last(self) -> tuple[str, int, int]:
        """The last part and its size, for new nodes; without a path if the part has no room."""
        number, path = self._newest()
        if not number:
            return "", 0, 0
        try:
            nodes = self.changed[path] if path in self.changed else dict(self.part(path).entries.nodes)
        except KgdError:
            return "", 0, 0
        size, events = measure(nodes.values())
        if size > OPEN_BYTES or not nodes:
            return "", 0, 0
        self.open(path)
        return path, size, events

    def _next(self) -> str:
        return f"{self.path}/{self._newest()[0] + 1:04d}.yaml"

    def _newest(self) -> tuple[int, str]:
        """The highest number of a part that has nodes, with its path; 0 if there is no such part."""
        there = {path for path in (*self.names(), *self.changed) if self.changed.get(path, {"": b""})}
        return max(((number_of(path), path) for path in there), default=(0, ""))


def fits(uri: Uri, data: bytes) -> bool:
    """Whether the node with these canonical bytes belongs in a part."""
    return paths.part_folder_of(uri) is not None and bulk.may_hold(documents.decode(data, at=uri), data)


def measure(entries: Iterable[bytes]) -> tuple[int, int]:
    """Upper bounds of a part's bytes and events."""
    listed = list(entries)
    return 64 + sum(map(bulk.size_of, listed)), 8 + sum(map(bulk.events_of, listed))


def number_of(path: str) -> int:
    """The number in a part's name if kgd chose the name; 0 for any other name."""
    name = path.rpartition("/")[2].removesuffix(".yaml")
    return int(name) if name.isascii() and name.isdigit() and len(name) < 10 else 0


def _overflow(nodes: dict[Uri, bytes], room: Capacity) -> dict[Uri, bytes]:
    """Remove nodes from the end of a part until it is within the limits for writing; returns the removed nodes."""
    size, events = measure(nodes.values())
    if size <= room.bytes and events <= room.events:
        return {}
    size, events, out = 64, 8, dict[Uri, bytes]()
    for uri in sorted(nodes):
        size, events = size + bulk.size_of(nodes[uri]), events + bulk.events_of(nodes[uri])
        if size > WRITTEN.bytes or events > WRITTEN.events:
            out[uri] = nodes[uri]
    for uri in out:
        del nodes[uri]
    return out
