"""One immutable state of the code tree: directories, files and `contains` relations; and its cache for restarts.

The next scan creates a new `Tree` that shares every unchanged directory. So a reader keeps its state, and a rescan
needs memory only for the changes. The cache is derived data: a missing, damaged or unknown file is treated as empty,
and each fact is valid only while the stamps of its file are unchanged.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import os
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from kgd.errors import MALFORMED, KgdError
from kgd.git.objects import raw
from kgd.graph.edges import Card, Edge
from kgd.model.node import RELATIONS_LIMIT, Node, Relation
from kgd.model.uri import Uri, build, encode_segment, from_path, path_of, segments_of
from kgd.overlay.facts import File, data_of, readable, readable_size, summary_of

CONTAINS = "contains"
ORIGIN = "tree"
"""The origin of these nodes: the tree as checked out on this machine."""

_CACHED_EDGES = 20_000
"""Maximum number of cached relations; caching all of them would double the memory of a large tree."""

_PLAIN = re.compile(r"[A-Za-z0-9._:/-]+\Z").match
"""Matches URIs that are certainly canonical; another spelling of a path must not be served as a second node."""


@dataclass(slots=True, eq=False)
class Directory:
    """The members of a directory by name; the totals include everything below it."""

    files: dict[str, File] = field(default_factory=dict)
    folders: dict[str, Directory] = field(default_factory=dict)
    note: str = ""
    file_count: int = 0
    total_size: int = 0

    def add_up(self) -> None:
        """Recompute the totals from the members, whose own totals must be correct."""
        below = self.folders.values()
        self.file_count = len(self.files) + sum(d.file_count for d in below)
        self.total_size = sum(f.size for f in self.files.values()) + sum(d.total_size for d in below)

    def says_the_same_as(self, other: Directory) -> bool:
        """Whether the directory's node, including its relations, is the same."""
        mine, others = ((d.file_count, d.total_size, d.note, d.files.keys(), d.folders.keys()) for d in (self, other))
        return mine == others


class Delta(NamedTuple):
    """Changes found by a scan, sorted: URIs of new, changed and removed nodes.

    If `complete` is False, the scan was interrupted and nothing changed for readers.
    """

    added: tuple[Uri, ...] = ()
    changed: tuple[Uri, ...] = ()
    removed: tuple[Uri, ...] = ()
    complete: bool = True

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


class Tree:
    """One state of the tree as an `EdgeSource`. `root` is None if there is nothing to serve."""

    def __init__(self, workspace: str, root: Directory | None, name: str) -> None:
        self.workspace, self.root, self.name = workspace, root, name
        self._edges: dict[Uri, tuple[Edge, ...]] = {}
        self._kept = 0
        self._lock = threading.Lock()

    def out(self, uri: Uri) -> Sequence[Edge]:
        """The `contains` relations of a directory, sorted by URI; O(members) at first, then O(1)."""
        ready = self._edges.get(uri)
        if ready is not None:
            return ready
        found = self.find(uri)
        if not isinstance(found, Directory):
            return ()
        edges = tuple(Edge(1.0, member, CONTAINS) for member in members(self.workspace, uri, found))
        with self._lock:
            if uri not in self._edges:
                self._edges[uri] = edges
                self._kept += len(edges) + 1
                while self._kept > _CACHED_EDGES and len(self._edges) > 1:
                    self._kept -= len(self._edges.pop(next(iter(self._edges)))) + 1
        return edges

    def into(self, uri: Uri) -> Sequence[Edge]:
        """The relation from the directory that contains the node; none for the root."""
        if self.find(uri) is None:
            return ()
        segments = segments_of(uri)
        return (Edge(1.0, build("dir", self.workspace, segments[:-1]), CONTAINS),) if segments else ()

    def card(self, uri: Uri) -> Card | None:
        found = self.find(uri)
        if found is None:
            return None
        kind = "concept" if isinstance(found, Directory) else "resource"
        return Card(uri, kind, self._name(uri), _summary(found), None, ORIGIN)

    def resolve(self, uri: Uri) -> Uri:
        return uri

    def node(self, uri: Uri) -> Node | None:
        """The node with its facts and at most its first 10,000 relations, the limit of a node."""
        found = self.find(uri)
        if found is None:
            return None
        relations: tuple[Relation, ...] = ()
        data = facts_of(uri, found)
        if isinstance(found, Directory):
            edges = self.out(uri)
            relations = tuple(Relation(CONTAINS, edge.target) for edge in edges[:RELATIONS_LIMIT])
            if len(edges) > RELATIONS_LIMIT:
                data["contains_left_out"] = len(edges) - RELATIONS_LIMIT
        return Node(uri, name=self._name(uri), summary=_summary(found), data=data, relations=relations)

    def uris(self) -> Iterator[Uri]:
        """All URIs, a directory before its members, in URI order within a directory."""
        if self.root is not None:
            yield from below(self.workspace, from_path("dir", self.workspace, ""), self.root)

    def directories(self) -> Iterator[Directory]:
        """All directories, in no particular order."""
        todo = [self.root] if self.root else []
        while todo:
            directory = todo.pop()
            yield directory
            todo += directory.folders.values()

    def files(self) -> Iterator[File]:
        """All files, in no particular order."""
        return (file for directory in self.directories() for file in directory.files.values())

    def find(self, uri: str) -> File | Directory | None:
        """The file or directory of a canonical URI of this tree; None for any other string."""
        scheme, _, rest = uri.partition("://")
        if self.root is None or scheme not in ("file", "dir") or rest.partition("/")[0] != self.workspace:
            return None
        try:
            path = path_of(uri)
            if not _PLAIN(uri) and from_path(scheme, self.workspace, path) != uri:
                return None
        except KgdError:
            return None
        if not path:
            return self.root if uri == f"dir://{self.workspace}/_" else None
        *above, name = path.split("/")
        here: Directory | None = self.root
        for step in above:
            here = here.folders.get(step) if here else None
        if here is None:
            return None
        return here.files.get(name) if scheme == "file" else here.folders.get(name)

    def _name(self, uri: Uri) -> str:
        segments = segments_of(uri)
        if not segments:
            return self.name
        name = segments[-1].decode("utf-8", "replace")
        # A line break or a direction mark in a file name could forge lines in lists of names.
        return name if name.isprintable() else uri.rsplit("/", 1)[1]


def difference(workspace: str, old: Directory | None, new: Directory | None) -> Delta:
    """The changed nodes between two states of a root; shared directories are not visited."""
    added: list[Uri] = []
    changed: list[Uri] = []
    removed: list[Uri] = []
    todo = [(from_path("dir", workspace, ""), old, new)]
    while todo:
        uri, before, after = todo.pop()
        if before is after:
            continue
        if before is None or after is None:
            whole = after or before
            if whole is not None:
                (removed if after is None else added).extend(below(workspace, uri, whole))
            continue
        if not before.says_the_same_as(after):
            changed.append(uri)
        files, folders = _prefixes(workspace, uri)
        for name in before.files.keys() | after.files.keys():
            one, two = before.files.get(name), after.files.get(name)
            if one is None or two is None:
                (added if one is None else removed).append(Uri(files + encode_segment(raw(name))))
            elif one is not two and not one.says_the_same_as(two):
                changed.append(Uri(files + encode_segment(raw(name))))
        for name in before.folders.keys() | after.folders.keys():
            todo.append((_folder_uri(folders, name), before.folders.get(name), after.folders.get(name)))
    return Delta(tuple(sorted(added)), tuple(sorted(changed)), tuple(sorted(removed)))


def members(workspace: str, uri: Uri, directory: Directory) -> list[Uri]:
    """The URIs of a directory's members, sorted."""
    files, folders = _prefixes(workspace, uri)
    found = [Uri(files + encode_segment(raw(name))) for name in directory.files]
    found += [_folder_uri(folders, name) for name in directory.folders]
    return sorted(found)


def below(workspace: str, uri: Uri, directory: Directory) -> Iterator[Uri]:
    """The URIs of a directory and of everything in it."""
    yield uri
    files, folders = _prefixes(workspace, uri)
    yield from sorted(Uri(files + encode_segment(raw(name))) for name in directory.files)
    for inner, name in sorted((_folder_uri(folders, name), name) for name in directory.folders):
        yield from below(workspace, inner, directory.folders[name])


def facts_of(uri: Uri, found: File | Directory) -> dict[str, Any]:
    """The facts about a file or directory."""
    segments = segments_of(uri)
    if isinstance(found, File):
        return data_of(segments[-1].decode("utf-8", "surrogateescape"), found)
    data: dict[str, Any] = {
        "node_type": "directory",
        "file_count": found.file_count,
        "total_size": found.total_size,
        "depth": len(segments),
    }
    if found.note:
        data[found.note.replace(" ", "_")] = True
    return data


def _prefixes(workspace: str, uri: Uri) -> tuple[str, str]:
    """Two URI prefixes: one for the files in a directory, one for its subdirectories."""
    segments = segments_of(uri)
    if not segments:
        return f"file://{workspace}/", f"dir://{workspace}/"
    return f"file://{workspace}/{'/'.join(map(encode_segment, segments))}/", f"{uri}/"


def _folder_uri(prefix: str, name: str) -> Uri:
    top = prefix.count("/") == 3
    return Uri(prefix + ("%5F" if top and name == "_" else encode_segment(raw(name))))


def _summary(found: File | Directory) -> str:
    if isinstance(found, File):
        return summary_of(found)
    if found.note:
        return f"directory, {found.note}"
    files = "1 file" if found.file_count == 1 else f"{found.file_count} files"
    return f"directory, {files}, {readable_size(found.total_size)}"


def title_of(name: str) -> str:
    """A root's name as one readable line."""
    text = readable(name)
    return text if text.isprintable() else ascii(text)[1:-1]


_FORMAT = b"kgd-facts 1 "

log = logging.getLogger(__name__)


def save_facts(path: Path, root: Directory) -> None:
    """Replace the cache file. A failure is logged, not raised; the next start then reads the tree again."""
    body = b"".join(_lines(root))
    unfinished = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(exist_ok=True)
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(_header(body))
            file.write(body)
        unfinished.replace(path)
    except OSError as error:
        log.warning("the cache of the code tree could not be written", extra={"reason": error.strerror})
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)


def load_facts(path: Path) -> Directory | None:
    """The saved tree, or None. O(files), without touching any of them."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    header, newline, body = data.partition(b"\n")
    if header + newline != _header(body):
        return None
    try:
        return _tree(io.BytesIO(body))
    except MALFORMED:
        return None


def _header(body: bytes) -> bytes:
    return _FORMAT + hashlib.blake2b(body, digest_size=20).hexdigest().encode() + b"\n"


def _lines(root: Directory) -> Iterator[bytes]:
    """A line for each directory, above its members. Reading a single document for the whole tree would need five times
    its size in memory."""
    todo = [("", root)]
    while todo:
        path, directory = todo.pop()
        files = {_to_text(name): list(file) for name, file in directory.files.items()}
        yield orjson.dumps([path, directory.note, files], option=orjson.OPT_APPEND_NEWLINE)
        todo += [(f"{path}/{_to_text(name)}", folder) for name, folder in directory.folders.items()]


def _tree(lines: Iterable[bytes]) -> Directory | None:
    made: dict[str, Directory] = {}
    words: dict[str, str] = {}
    for line in lines:
        path, note, files = orjson.loads(line)
        directory = made[path] = Directory(note=note)
        for name, (size, mtime_ns, ctime_ns, inode, content, lines_in_it, file_type) in files.items():
            # Intern the words: a hundred thousand copies of "python" would take 5 MB.
            content, file_type = words.setdefault(content, content), words.setdefault(file_type, file_type)
            directory.files[_from_text(name)] = File(size, mtime_ns, ctime_ns, inode, content, lines_in_it, file_type)
        if path:
            above, _, own = path.rpartition("/")
            made[above].folders[_from_text(own)] = directory
    for directory in reversed(made.values()):
        directory.add_up()
    return made.get("")


def _to_text(name: str) -> str:
    """A name of arbitrary bytes as text that JSON can represent, with one character per byte."""
    return os.fsencode(name).decode("latin-1")


def _from_text(text: str) -> str:
    return os.fsdecode(text.encode("latin-1"))
