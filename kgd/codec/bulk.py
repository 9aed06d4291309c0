"""Bulk parts: one file for many machine-made nodes of a document or a thread.

    source: "9f86d081"      the hash of the nodes' source; omitted if there is none
    nodes:
    - uri: chunk://ws/handbook/1
      content: ...

Nodes are sorted by URI. Each is written as in a separate file, but indented by two columns. So a canonical part can be
split at its lines, and its nodes are read and checked like node files. When a part changes, only its changed nodes are
read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from kgd.codec import canonical, documents, paths
from kgd.codec.canonical import NotCanonical, Ordered
from kgd.errors import Invalid, KgdError, Limit
from kgd.model.node import NODE_BYTES, Json, Node
from kgd.model.uri import Uri, is_owned, workspace_of

PART_BYTES = 128 * 1024
PART_EVENTS = 10_000
"""Half of the guard's limit on events, so that a merge of two full parts still makes one readable file."""
ENTRY_DEPTH = canonical.DEPTH - 2
"""Maximum nesting of a node in a part, which is itself in a list in a mapping."""


NEVER_CUT = paths.NAME_BYTES // 3
"""Maximum bytes of a URI whose names certainly need no cut: each byte may take three in a path."""


@dataclass(frozen=True, slots=True)
class Part:
    nodes: tuple[Node, ...]
    source: str = ""


@dataclass(frozen=True, slots=True)
class Entries:
    """A split part: for each node, the bytes that its separate file would have, in ascending order of URIs."""

    nodes: Mapping[Uri, bytes] = field(default_factory=dict)
    source: str = ""

    @property
    def parent(self) -> str:
        """The common prefix of the part's URIs, up to the last slash; empty for a part without nodes."""
        return next(iter(self.nodes), "").rpartition("/")[0]


def may_hold(node: Node, data: bytes) -> bool:
    """Whether a part may hold the node with these canonical bytes.

    A part cannot hold a node that would fill a whole part, is nested too deeply, or names a memory file, since readers
    look for the nodes of memories in `nodes/`.
    """
    if paths.is_memory_path(node.data.get("file")) or size_of(data) > PART_BYTES // 2:
        return False
    return not _is_deep(data) and events_of(data) <= PART_EVENTS // 2


def decode(data: bytes, *, at: str = "") -> Part:
    """The part in a file of any author.

    Raises:
        Invalid, Refused, Limit: As for a node; or a URI occurs twice.
    """
    values = documents.read_mapping(data, at)
    listed = values.get("nodes") or []
    if (
        not isinstance(listed, list)
        or not isinstance(values.get("source", ""), str)
        or values.keys() - {"nodes", "source"}
    ):
        raise Invalid("a part must have 'nodes', a list, and may have 'source', a string", at=f"{at}:1")
    nodes = tuple(sorted((documents.node_of(value, at) for value in listed), key=lambda node: node.uri))
    for one, two in pairwise(nodes):
        if one.uri == two.uri:
            raise Invalid(f"the node {one.uri} occurs twice", at=f"{at}:1")
    return Part(nodes, values.get("source", ""))


def split(data: bytes, *, at: str = "") -> Entries:
    """Split a part into its nodes, each as the bytes of a separate file; nodes in a canonical part keep their bytes.

    Raises:
        Invalid, Refused, Limit: As `decode`.
    """
    quick = _quick(data)
    if quick is not None:
        return quick
    part = decode(data, at=at)
    return Entries({node.uri: documents.encode(node) for node in part.nodes}, part.source)


def cut(data: bytes, uri: Uri) -> bytes | None:
    """The likely bytes of one node in a canonical part, found without parsing the other nodes; the caller verifies them
    by blob id."""
    start = data.find(b"\n- uri: %s\n" % uri.encode())
    if start < 0:
        return None
    end = data.find(b"\n- ", start + 1)
    return data[start + 3 : end + 1 if end >= 0 else len(data)].replace(b"\n  ", b"\n")


def read(data: bytes, path: str, workspace: str | None = None) -> Entries:
    """Like `split`, and also checks that the nodes belong at the part's path.

    Raises:
        Invalid, Refused, Limit: As `decode`; or a node belongs elsewhere, or to another workspace.
    """
    found = split(data, at=path)
    folder, start = path.rpartition("/")[0], found.parent + "/"
    for number, uri in enumerate(found.nodes):
        is_beside = uri.startswith(start) and "/" not in uri[len(start) :]
        is_short = len(uri) <= NEVER_CUT and uri.isascii()
        if not (number and is_beside and is_short) and paths.part_folder_of(uri) != folder:
            raise Invalid(f"this part contains {uri}, which belongs in another file", at=f"{path}:1")
        if not uri.startswith(start):
            raise Invalid("this part contains nodes of several workspaces", at=f"{path}:1")
    if workspace is not None and found.nodes and workspace_of(Uri(start + "x")) != workspace:
        raise Invalid("this part contains nodes of another workspace", at=f"{path}:1")
    return found


def belongs(uri: Uri, path: str) -> bool:
    """Whether the node belongs in this part: a message of the part's thread, or a chunk of its document."""
    return is_owned(uri) and paths.is_part_path(path) and paths.part_folder_of(uri) == path.rpartition("/")[0]


def encode(part: Part, *, at: str = "") -> bytes:
    """The canonical bytes of a part. A merge may make it as large as twice `PART_BYTES`.

    Raises:
        Invalid, Limit: As for a node.
    """
    values: dict[str, Json] = {"source": part.source} if part.source else {}
    values["nodes"] = [Ordered(documents.shape_of(node)) for node in sorted(part.nodes, key=lambda node: node.uri)]
    data = canonical.dump(values).encode()
    if len(data) > NODE_BYTES or canonical.count_events(values) > canonical.MAX_EVENTS:
        raise Limit("a part is too large for one file", at=at, next="Split it into several parts.")
    return data


def encode_entries(entries: Entries) -> bytes:
    """The bytes of a part with these entries; equal to the result of `encode` if the entries are canonical. The caller
    limits the number of entries."""
    head = canonical.dump({"source": entries.source} if entries.source else {}).encode()
    if not entries.nodes:
        return head + b"nodes: []\n"
    indented = (b"- " + _LINE(b"\n  ", entries.nodes[uri]) for uri in sorted(entries.nodes))
    return head + b"nodes:\n" + b"".join(indented)


def size_of(entry: bytes) -> int:
    """The maximum number of bytes that a node takes within a part."""
    return len(entry) + 2 * entry.count(b"\n")


def events_of(entry: bytes) -> int:
    """The number of YAML events of a node in a part, or an upper bound if this bound is cheaper to find and small."""
    most = 4 * (entry.count(b"\n") + entry.count(b"- ")) + 10
    return most if most <= 200 else _counted(entry)


@lru_cache(maxsize=4096)
def _counted(entry: bytes) -> int:
    return canonical.count_events(documents.shape_of(documents.decode(entry)))


_HEAD = re.compile(rb"(source: [^\n]+\n)?nodes:\n(?=- )").match
_ITEMS = re.compile(rb"^- ", re.M).split
_LINE = re.compile(rb"\n(?=[^\n])").sub
_OUTSIDE = re.compile(rb"\n(?!  |\n|\Z)").search


def _quick(data: bytes) -> Entries | None:
    """A part of canonical nodes in order, within all limits; None if `decode` has to read it."""
    head = _HEAD(data)
    if head is None or len(data) > NODE_BYTES or not data.endswith(b"\n"):
        return None
    try:
        source = canonical.load(head[1].decode())["source"] if head[1] else ""
    except (NotCanonical, UnicodeDecodeError):
        return None
    if not isinstance(source, str):
        return None
    nodes: dict[Uri, bytes] = {}
    last, events = "", 0
    for item in _ITEMS(data[head.end() :])[1:]:
        if _OUTSIDE(item):
            return None
        entry = item.replace(b"\n  ", b"\n")
        uri = _uri_of(entry)
        if uri is None or uri <= last:
            return None
        nodes[uri] = entry
        last = uri
        events += events_of(entry)
    return Entries(nodes, source) if events + 8 <= canonical.MAX_EVENTS else None


@lru_cache(maxsize=4096)  # a growing part is read again for each node added
def _uri_of(entry: bytes) -> Uri | None:
    """The URI of a canonical node that may be in a part; None if `decode` has to read it."""
    known = documents.glance(entry) if not _is_deep(entry) else None
    if known is not None:
        return known.uri
    try:
        canonical.load(entry.decode(), depth=ENTRY_DEPTH)
        return documents.decode(entry).uri
    except (NotCanonical, UnicodeDecodeError, KgdError):
        return None


_INDENTED = re.compile(rb"\n(?:  |- ){5}").search


def _is_deep(entry: bytes) -> bool:
    """Whether the node may have more levels than are allowed in a part. A level is indented by at least one column."""
    if not _INDENTED(entry):
        return False
    try:
        canonical.load(entry.decode(), depth=ENTRY_DEPTH)
    except (NotCanonical, UnicodeDecodeError):
        return True
    return False
