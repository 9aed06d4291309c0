"""This file is where a part of a document or a thread is read and written: many nodes that machines made in one file.

    source: "9f86d081"      the hash of what the nodes were made from; left out where there is none
    nodes:
    - uri: chunk://ws/handbook/1
      content: ...

Sorted by URI; each node as in a file of its own, two columns further in. So a canonical part is taken apart by its
lines, and what is in it is read and judged as files of nodes are: of a part that changes, only the nodes that changed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from kgd.codec import canonical, documents, lean, memories, paths
from kgd.codec.canonical import NotCanonical, Ordered
from kgd.errors import Invalid, KgdError, Limit
from kgd.model.node import NODE_BYTES, Json, Node
from kgd.model.uri import Uri, build, is_owned, scheme_of, segments_of, workspace_of

PART_BYTES = 128 * 1024
PART_EVENTS = 10_000
"""Half of what the guard admits, so that two parts that were filled on two sides still are one readable file."""
PARTS_OF = {"message": "thread", "chunk": "document"}
"""Of which scheme the node is that a bulk part belongs to."""
ENTRY_DEPTH = canonical.DEPTH - 2
"""Levels that a node may have: it lies in a list in a mapping."""


NEVER_CUT = paths.NAME_BYTES // 3
"""Bytes of a URI, each of which may take three in a path, so that none of its names has to be cut."""


@dataclass(frozen=True, slots=True)
class Part:
    nodes: tuple[Node, ...]
    source: str = ""


@dataclass(frozen=True, slots=True)
class Entries:
    """A part taken apart: per node, by URI in ascending order, the bytes that a file of its own would have."""

    nodes: Mapping[Uri, bytes] = field(default_factory=dict)
    source: str = ""

    @property
    def parent(self) -> str:
        """What all URIs of it begin with, up to the last slash; empty where there is no node in it."""
        return next(iter(self.nodes), "").rpartition("/")[0]


def folder_of(uri: Uri) -> str | None:
    """The folder of the parts in which nodes of this URI are; None for a node that has a file of its own.

    That is every node but messages of a thread and chunks of a document, and those whose name a path has to cut.
    """
    scheme, _, rest = uri.partition("://")
    if scheme not in PARTS_OF or rest.count("/") < 2:
        return None
    if "~" in (path := paths.path_of(uri)) and paths.is_cut(path):
        return None
    return _folder_of_parent(uri.rpartition("/")[0])


@lru_cache(maxsize=4096)
def _folder_of_parent(start: str) -> str | None:
    scheme, uri = scheme_of(Uri(start)), Uri(start)
    parent = PARTS_OF[scheme]
    folder = paths.log_path(build(parent, workspace_of(uri) or "", segments_of(uri)), "x").rpartition("/")[0]
    return folder.replace(f"log/{parent}/", f"bulk/{scheme}/", 1)


def is_path(path: str) -> bool:
    """Whether a part may be at this path, judged by its names."""
    top, _, below = path.partition("/")
    return top == "bulk" and below.partition("/")[0] in PARTS_OF and path.endswith(".yaml")


def may_hold(node: Node, data: bytes) -> bool:
    """Whether a part takes the node, of which these are the canonical bytes, at all.

    Not one that fills a part alone, is nested too deeply for it, or names a memory: who looks for those reads `nodes/`.
    """
    if memories.is_path(node.data.get("file")) or size_of(data) > PART_BYTES // 2:
        return False
    return not _is_deep(data) and events_of(data) <= PART_EVENTS // 2


def decode(data: bytes, *, at: str = "") -> Part:
    """The part in a file that anybody may have written.

    Raises:
        Invalid, Refused, Limit: As for a node; or one URI is given twice.
    """
    values = documents.read_mapping(data, at)
    listed = values.get("nodes") or []
    if (
        not isinstance(listed, list)
        or not isinstance(values.get("source", ""), str)
        or values.keys() - {"nodes", "source"}
    ):
        raise Invalid("a part has 'nodes', a list, and 'source', a text", at=f"{at}:1")
    nodes = tuple(sorted((documents.node_of(value, at) for value in listed), key=lambda node: node.uri))
    for one, two in pairwise(nodes):
        if one.uri == two.uri:
            raise Invalid(f"the node {one.uri} is given twice", at=f"{at}:1")
    return Part(nodes, values.get("source", ""))


def split(data: bytes, *, at: str = "") -> Entries:
    """The nodes of a part as bytes of files of their own; those of a canonical part as they stand.

    Raises:
        Invalid, Refused, Limit: As `decode`.
    """
    quick = _quick(data)
    if quick is not None:
        return quick
    part = decode(data, at=at)
    return Entries({node.uri: documents.encode(node) for node in part.nodes}, part.source)


def cut(data: bytes, uri: Uri) -> bytes | None:
    """What looks like one node of a canonical part, without a look at the others; its blob tells whether it is that."""
    start = data.find(b"\n- uri: %s\n" % uri.encode())
    if start < 0:
        return None
    end = data.find(b"\n- ", start + 1)
    return data[start + 3 : end + 1 if end >= 0 else len(data)].replace(b"\n  ", b"\n")


def read(data: bytes, path: str, workspace: str | None = None) -> Entries:
    """As `split`, of a part that is where its nodes belong.

    Raises:
        Invalid, Refused, Limit: As `decode`; or it holds nodes of something else, or of another workspace.
    """
    found = split(data, at=path)
    folder, start = path.rpartition("/")[0], found.parent + "/"
    for number, uri in enumerate(found.nodes):
        is_beside = uri.startswith(start) and "/" not in uri[len(start) :]
        is_short = len(uri) <= NEVER_CUT and uri.isascii()
        if not (number and is_beside and is_short) and folder_of(uri) != folder:
            raise Invalid(f"this part holds {uri}, which belongs elsewhere", at=f"{path}:1")
        if not uri.startswith(start):
            raise Invalid("this part holds nodes of several workspaces", at=f"{path}:1")
    if workspace is not None and found.nodes and workspace_of(Uri(start + "x")) != workspace:
        raise Invalid("this part holds nodes of another workspace", at=f"{path}:1")
    return found


def belongs(uri: Uri, path: str) -> bool:
    """Whether a node of this URI has its place in this part: a message of the thread, a chunk of the document."""
    return is_owned(uri) and is_path(path) and folder_of(uri) == path.rpartition("/")[0]


def encode(part: Part, *, at: str = "") -> bytes:
    """The canonical bytes of a part. A merge may fill it to the double of `PART_BYTES`.

    Raises:
        Invalid, Limit: As for a node.
    """
    values: dict[str, Json] = {"source": part.source} if part.source else {}
    values["nodes"] = [Ordered(documents.shape_of(node)) for node in sorted(part.nodes, key=lambda node: node.uri)]
    data = canonical.dump(values).encode()
    if len(data) > NODE_BYTES or canonical.count_events(values) > canonical.MAX_EVENTS:
        raise Limit("a part is too large for one file", at=at, next="Split it into several parts.")
    return data


def joined(entries: Entries) -> bytes:
    """The bytes of a part of these; of canonical ones what `encode` gives. How many there may be is the caller's."""
    head = canonical.dump({"source": entries.source} if entries.source else {}).encode()
    if not entries.nodes:
        return head + b"nodes: []\n"
    indented = (b"- " + _LINE(b"\n  ", entries.nodes[uri]) for uri in sorted(entries.nodes))
    return head + b"nodes:\n" + b"".join(indented)


def size_of(entry: bytes) -> int:
    """Bytes that a node takes in a part, at most."""
    return len(entry) + 2 * entry.count(b"\n")


def events_of(entry: bytes) -> int:
    """Events that a node makes in a part; more where that costs less to tell and is not many."""
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
    """A part of canonical nodes in order, within all limits; None where only `decode` can tell."""
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


@lru_cache(maxsize=4096)  # a part that grows is read again with each node that comes to it
def glance(entry: bytes) -> lean.Lean | None:
    """What the graph keeps of a node in a part, as `lean.glance`."""
    return lean.glance(entry)


@lru_cache(maxsize=4096)
def _uri_of(entry: bytes) -> Uri | None:
    """The URI of a canonical node that may be in a part; None where `decode` has to look."""
    known = glance(entry) if not _is_deep(entry) else None
    if known is not None:
        return known.uri
    try:
        canonical.load(entry.decode(), depth=ENTRY_DEPTH)
        return documents.decode(entry).uri
    except (NotCanonical, UnicodeDecodeError, KgdError):
        return None


_INDENTED = re.compile(rb"\n(?:  |- ){5}").search


def _is_deep(entry: bytes) -> bool:
    """Whether it has more levels than a node in a part may have. A level takes a column at least."""
    if not _INDENTED(entry):
        return False
    try:
        canonical.load(entry.decode(), depth=ENTRY_DEPTH)
    except (NotCanonical, UnicodeDecodeError):
        return True
    return False
