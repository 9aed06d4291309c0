"""Part locations: the part that each node is served from, in memory.

Nodes with separate files take no memory here. People may store a node in several places: the first path is then used,
and parts take precedence over separate files. So a full load and an incremental one give the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from kgd.git.objects import ObjectId
from kgd.model.uri import Uri


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

    def part_with(self, uri: Uri) -> At | None:
        """The part that the node is served from. O(1)."""
        return self._at.get(uri)

    def is_in_part(self, uri: Uri) -> bool:
        return uri in self._at

    def place(self, uri: Uri) -> At | ObjectId | None:
        """The node's part; otherwise the blob of the separate file that a part replaced; otherwise None."""
        own = self._own.get(uri)
        return self._at.get(uri) or (own[1] if own else None)

    def knows(self, path: str) -> bool:
        return path in self._parts

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

    # ---- the snapshot

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
