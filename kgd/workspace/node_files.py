"""This file is where a repository is read as if every node had a file of its own, whichever part it lies in.

A part changes with each node that comes to it; whoever asks what became of nodes asks here: what a commit changed,
a node as it was, what two sides made of one. A node in a part has the path and the blob that its own file would have,
so that it is the same node before and after it goes into a part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from kgd.codec import bulk, paths
from kgd.errors import KgdError
from kgd.git.history import Change
from kgd.git.objects import FILE, FOLDER, PLAIN, Entry, ObjectId, text
from kgd.git.store import READ_LIMIT, ObjectStore
from kgd.git.walk import ENTRY_BUDGET
from kgd.model.uri import Uri
from kgd.workspace import parts

Changed = tuple[str, Entry | None, Entry | None]
Hint = Callable[[Uri], str | None]
FOLDERS = tuple(f"nodes/{scheme}/" for scheme in sorted(bulk.PARTS_OF))
"""Below these are the files that nodes of parts would have."""


class NodeFiles(ObjectStore):
    """The same repository, with nodes in place of parts: for one thread, as long as one computation takes.

    A part that cannot be read, or that holds what does not belong there, stays a file of its own path. `tree` and what
    is built on it (`Lookup`, `check_history`) see the repository as it is.

    Args:
        hint: In which part a node is now, for who knows it: there it is looked for first.
    """

    def __init__(self, store: ObjectStore, sharded: frozenset[str], hint: Hint = lambda uri: None) -> None:
        self.__dict__.update(store.__dict__)
        self._raw, self._sharded, self._hint = store, sharded, hint
        self._inside: dict[ObjectId, bytes] = {}

    # ---- objects

    def _read(self, id: ObjectId, limit: int = READ_LIMIT) -> tuple[str, bytes]:
        inside = self._inside.get(id)
        return ("blob", inside) if inside is not None else self._raw._read(id, limit)

    def lookup(self, tree: ObjectId, path: str) -> Entry | None:
        uri = uri_in_part(path, self._sharded)
        folder = bulk.folder_of(uri) if uri else None
        if uri is None or folder is None:
            return super().lookup(tree, path)
        found = super().lookup(tree, folder)
        listed = (
            {text(name): entry for name, entry in self.tree(found[1]).items()} if found and _is_folder(found) else {}
        )
        hint, last = self._hint(uri) or "", uri.rpartition("/")[2]
        for part in sorted(listed, key=lambda part: (f"{folder}/{part}" != hint, part)):
            at, (mode, blob) = f"{folder}/{part}", listed[part]
            try:
                if not bulk.is_path(at) or not mode.startswith(PLAIN) or _passes(at, blob, last, hint, self._raw.read):
                    continue
                inside = parts.taken(at, blob, self._raw.read)
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
        """Changes of files, with those of nodes in the place of parts; a node that only went into a part is none."""
        own: dict[str, tuple[Entry | None, Entry | None]] = {}
        changed: dict[str, tuple[Entry | None, Entry | None]] = {}
        for path, old, new in changes:
            if bulk.is_path(path) and _is_plain(old) and _is_plain(new):
                changed[path] = old, new
            elif path.startswith(FOLDERS):
                own[path] = old, new
            else:
                yield path, old, new
        found = parts.difference(((p, o and o[1], n and n[1]) for p, (o, n) in changed.items()), self._raw.read)
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

    def _entry(self, inside: parts.Inside | None) -> Entry | None:
        if inside is None:
            return None
        self._inside[inside.id] = inside.data
        return FILE, inside.id


def node_changes(store: ObjectStore, sharded: frozenset[str], changes: Sequence[Change]) -> Sequence[Change]:
    """What history says of files as what it says of nodes: of a merge those that differ from every parent."""
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


def is_about_parts(path: str) -> bool:
    """Whether a file may be a part, or what a node of a part would have."""
    return bulk.is_path(path) or path.startswith(FOLDERS)


def _plain(blob: ObjectId | None) -> Entry | None:
    return (FILE, blob) if blob else None


def uri_in_part(path: str, sharded: frozenset[str]) -> Uri | None:
    """A URI of the node that has this path, where such nodes are in parts; of whichever workspace."""
    if not path.startswith(FOLDERS):
        return None
    try:
        uri = paths.uri_of(path, "x", sharded)
    except KgdError:
        return None
    return uri if uri and bulk.folder_of(uri) else None


def _passes(path: str, blob: ObjectId, name: str, hint: str, read: parts.Read) -> bool:
    """Whether the part need not be taken apart, since it does not name the node."""
    return path != hint and not parts.may_name(path, blob, f"/{name}", read)


def _is_folder(entry: Entry) -> bool:
    return entry[0] == FOLDER


def _is_plain(entry: Entry | None) -> bool:
    return entry is None or entry[0].startswith(PLAIN)
