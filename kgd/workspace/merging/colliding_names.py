"""Colliding names: nodes that some file systems cannot tell apart, found when a merge brings them together.

Both nodes stay in their files, and a conflict records the collision (CONTRACT section 1). Only the folders above new
nodes are read; for a sharded scheme, all of its folders are read, because two colliding names are then in different
folders.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping, Sequence

from kgd.codec import documents, paths
from kgd.errors import KgdError
from kgd.git.objects import FOLDER, ObjectId, Tree, raw, text
from kgd.git.store import ObjectStore
from kgd.model.conflict import Conflict
from kgd.model.merge_graph import twin
from kgd.model.uri import OWNED, Uri, collision_key, decode_segment

EverOpen = Callable[[int, str], bool]
"""Whether side 0 (ours) or 1 (theirs) ever had the conflict's record at this path since the base."""
Trees = tuple[ObjectId | None, ObjectId, ObjectId]


def colliding(
    store: ObjectStore,
    trees: Trees,
    added: tuple[Sequence[str], Sequence[str]],
    result: Mapping[str, bytes | None],
    sharded: frozenset[str],
    ever_open: EverOpen,
) -> list[Conflict]:
    """Conflicts for pairs of nodes with colliding names that meet for the first time, or whose conflict one side never
    recorded.

    Args:
        trees: Base, ours and theirs.
        added: Paths of the new nodes on each side.
        result: The files that the merge writes onto ours.
    """
    if not any(added):
        return []
    base, *sides = (None if tree is None else Names(store, tree, sharded) for tree in trees)
    found: dict[str, Conflict] = {}

    def stays(path: str) -> bool:
        ours = sides[0]
        return result[path] is not None if path in result else ours is not None and ours.has(path)

    for path in sorted({*added[0], *added[1]}):
        for other in sorted({name for side in sides if side for name in side.alike(path)} - {path}):
            if not all(stays(name) for name in (path, other)):
                continue
            together = [bool(side and side.has(path) and side.has(other)) for side in sides]
            if base is not None and base.has(path) and base.has(other):
                continue
            pair = _pair(path, other, [side for side in sides if side])
            if pair is None:
                continue
            record = paths.conflict_path(pair.uri, pair.digest, sharded)
            if not any(both and ever_open(n, record) for n, both in enumerate(together)):
                found[pair.id] = pair
    return [found[id] for id in sorted(found)]


def _pair(path: str, other: str, sides: Sequence[Names]) -> Conflict | None:
    """The conflict about two paths; None if they are not nodes or their names do not collide."""
    uris = [next((uri for side in sides if (uri := side.uri(name))), None) for name in (path, other)]
    if uris[0] is None or uris[1] is None or collision_key(uris[0]) != collision_key(uris[1]):
        return None
    one, two = sorted(uri for uri in uris if uri)
    return twin(one, two)


class Names:
    """The names in one tree; each folder is read only once."""

    def __init__(self, store: ObjectStore, tree: ObjectId, sharded: frozenset[str]) -> None:
        self._store, self._tree = store, tree
        self._sharded = paths.ALWAYS_SHARDED | sharded
        self._folders: dict[ObjectId, tuple[Tree, dict[str, list[bytes]]]] = {}

    def has(self, path: str) -> bool:
        return self._entry(path) is not None

    def uri(self, path: str) -> Uri | None:
        blob = self._entry(path)
        try:
            return documents.decode(self._store.read(blob), at=path).uri if blob else None
        except KgdError:
            return None

    def alike(self, path: str) -> list[str]:
        """The files whose paths are equal to this one except for letter case and normal form, including the file
        itself."""
        _, scheme, *names = path.split("/")
        if scheme not in OWNED:
            return []  # an external resource with a different spelling is a different resource
        found: list[tuple[str, ObjectId]] = [("", self._tree)]
        shard = len(names) if scheme in self._sharded else 0
        for depth, name in enumerate(("nodes", scheme, *names)):
            last = depth == len(names) + 1
            level = []
            for prefix, folder in found:
                entries, by_key = self._folder(folder)
                here = list(entries) if shard and depth == shard else by_key.get(_key(raw(name)), [])
                for spelled in here:
                    mode, id = entries[spelled]
                    if (mode == FOLDER) != last:
                        level.append((f"{prefix}{text(spelled)}{'' if last else '/'}", id))
            found = level
        return [name for name, _ in found]

    def _entry(self, path: str) -> ObjectId | None:
        folder = self._tree
        *above, last = path.split("/")
        for name in above:
            found = self._folder(folder)[0].get(raw(name))
            if found is None or found[0] != FOLDER:
                return None
            folder = found[1]
        file = self._folder(folder)[0].get(raw(last))
        return file[1] if file and file[0] != FOLDER else None

    def _folder(self, id: ObjectId) -> tuple[Tree, dict[str, list[bytes]]]:
        known = self._folders.get(id)
        if known is None:
            entries = self._store.tree(id)
            by_key: dict[str, list[bytes]] = {}
            for name in entries:
                by_key.setdefault(_key(name), []).append(name)
            known = self._folders[id] = entries, by_key
        return known


def _key(name: bytes) -> str:
    """A key that is equal for colliding names; escapes are decoded first."""
    if name.isascii() and b"%" not in name:
        return name.decode("ascii").lower()
    try:
        plain = decode_segment(text(name))
    except KgdError:
        plain = name
    return unicodedata.normalize("NFKC", plain.decode("utf-8", "replace")).casefold()
