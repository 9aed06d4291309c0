"""Choosing parts: which part of a thread or document each new or changed node goes to.

The same tree and nodes give the same files on every replica:

- A node stays in its part.
- A new node goes to the last part while that part is small, otherwise to a new one. So growing threads rewrite little.
- A part that is too large keeps its first nodes; its other nodes are placed like new nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kgd.codec import bulk, canonical, documents, paths
from kgd.errors import Invalid, KgdError
from kgd.git.objects import ObjectId
from kgd.model.node import NODE_BYTES
from kgd.model.uri import Uri, workspace_of
from kgd.workspace.files import parts

OPEN_BYTES = 32 * 1024
"""Parts above this size are not rewritten for a new node: 10,000 single messages then write 160 MB instead of 640."""


class Tree(Protocol):
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
    tree: Tree
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
            named = blob and parts.may_name(path, blob, f"/{uri.rpartition('/')[2]}", self._reader(path))
            if named and uri in self.part(path).ids:
                return path
        return None

    def part(self, path: str) -> parts.DecodedPart:
        """A decoded part of the tree; an empty part if it is absent.

        Raises:
            KgdError: The part cannot be read.
        """
        blob = self.tree.blob_at(path)
        found = parts.decoded(path, blob, self._reader(path)) if blob else parts.DecodedPart(bulk.Entries(), {})
        if self.workspace and found.ids and workspace_of(next(iter(found.ids))) != self.workspace:
            raise Invalid("this part contains nodes of another workspace", at=f"{path}:1")
        return found

    def _reader(self, path: str) -> parts.Read:
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
