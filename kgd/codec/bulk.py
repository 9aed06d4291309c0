"""This file is where a part of a document or a thread is read and written: many nodes that machines made in one file.

    source: 9f86d081        the hash of what the nodes were made from; left out where there is none
    nodes:
    - uri: chunk://ws/handbook/1
      content: ...

Sorted by URI; each node as in a file of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from kgd.codec import canonical, documents, paths
from kgd.codec.canonical import Ordered
from kgd.errors import Invalid, Limit
from kgd.model.node import Json, Node
from kgd.model.uri import Uri, build, is_owned, scheme_of, segments_of, workspace_of

PART_BYTES = 128 * 1024
PARTS_OF = {"message": "thread", "chunk": "document"}
"""Of which scheme the node is that a bulk part belongs to."""
PART_EVENTS = 10_000
"""Half of what the guard admits, so that two parts that were filled on two sides still are one readable file."""


@dataclass(frozen=True, slots=True)
class Part:
    nodes: tuple[Node, ...]
    source: str = ""


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


def belongs(uri: Uri, path: str) -> bool:
    """Whether a node of this URI has its place in this part: a message of the thread, a chunk of the document."""
    scheme, segments = scheme_of(uri), segments_of(uri) if is_owned(uri) else []
    parent = PARTS_OF.get(scheme)
    if parent is None or len(segments) < 2:
        return False
    whole = build(parent, workspace_of(uri) or "", segments[:-1])
    name = path.rpartition("/")[2].removesuffix(".yaml")
    return path == paths.log_path(whole, name).replace(f"log/{parent}/", f"bulk/{scheme}/", 1)


def encode(part: Part, *, at: str = "") -> bytes:
    """The canonical bytes of a part. A merge may fill it to the double of `PART_BYTES`.

    Raises:
        Invalid, Limit: As for a node.
    """
    values: dict[str, Json] = {"source": part.source} if part.source else {}
    values["nodes"] = [Ordered(documents.shape_of(node)) for node in _sorted(part.nodes)]
    data = canonical.dump(values).encode()
    if len(data) > canonical.MAX_BYTES or canonical.count_events(values) > canonical.MAX_EVENTS:
        raise Limit("a part is too large for one file", at=at, next="Split it into several parts.")
    return data


def _sorted(nodes: Iterable[Node]) -> list[Node]:
    return sorted(nodes, key=lambda node: node.uri)
