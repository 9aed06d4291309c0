"""This file is where it is worked out what a commit that is not made would do: for a dry run, from its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from kgd.codec import bulk, documents, paths
from kgd.errors import KgdError
from kgd.model.node import NODE_BYTES, Node
from kgd.model.uri import Uri
from kgd.workspace.outcome import FileChange, NodeChange, Would

NODES_TOLD = 200

Data = bytes | None
"""None is absence."""


def foretold(message: str, author: str, files: Mapping[str, Data], read: Callable[[str], Data]) -> Would:
    """What a commit with this message would do.

    Args:
        files: What it would write or remove, by path.
        read: What is at a path now.
    """
    nodes: list[NodeChange] = []
    others: list[FileChange] = []
    left = 0
    for path, data in sorted(files.items()):
        if path.startswith("conflicts/"):
            continue
        if not (paths.is_node_path(path) or bulk.is_path(path)):
            others.append(FileChange(path, _text(read(path)), _text(data)))
            continue
        for uri, before, after in _entries(path, read(path), data):
            if len(nodes) >= NODES_TOLD:
                left += 1
            else:
                nodes.append(NodeChange(uri, _node(path, before), _node(path, after)))
    return Would(message, author, tuple(nodes), tuple(others), left, not files)


def _entries(path: str, before: Data, after: Data) -> Iterator[tuple[Uri, Data, Data]]:
    """The nodes that differ, with their bytes: of a node's file one, of a part those of it."""
    if not bulk.is_path(path):
        node = _node(path, after) or _node(path, before)
        if node is not None:
            yield node.uri, before, after
        return
    was, now = _inside(path, before), _inside(path, after)
    for uri in sorted({*was, *now}):
        if was.get(uri) != now.get(uri):
            yield uri, was.get(uri), now.get(uri)


def _inside(path: str, data: Data) -> Mapping[Uri, bytes]:
    try:
        return bulk.read(data, path).nodes if data is not None else {}
    except KgdError:
        return {}


def _node(path: str, data: Data) -> Node | None:
    try:
        return documents.decode(data, at=path) if data is not None else None
    except KgdError:
        return None


def _text(data: Data) -> str | None:
    return data[:NODE_BYTES].decode("utf-8", "backslashreplace") if data is not None else None
