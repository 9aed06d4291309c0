"""This file is where an edit that a person made of a node's file, or of the file with its detail, reaches the other.

Whoever edits either edits the node: tags changed in a memory's front matter are the node's tags in the same commit, and
the other way round. A file that got another name is found by its front matter, one that was written by hand gets its
node, and of one that was deleted the node remains.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from kgd.codec import documents, memories, paths
from kgd.codec.memories import FOLDER, Memory
from kgd.errors import KgdError
from kgd.model.node import FILE, MEMORY_TYPES, Node
from kgd.model.uri import Uri, is_owned, parse, scheme_of, workspace_of
from kgd.workspace import memory_files

Files = dict[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Around:
    """What there is besides the file that was edited, as the commit leaves it so far."""

    read: Callable[[str], bytes | None]
    names: Callable[[str], list[str]]
    workspace: str
    sharded: frozenset[str]

    def node(self, uri: Uri) -> Node | None:
        """The node of this workspace; None for one that is not there or cannot be read."""
        try:
            if not is_owned(uri) or workspace_of(uri) != self.workspace:
                return None
            path = self.path(uri)
            data = self.read(path)
            return documents.decode(data, at=path) if data is not None else None
        except KgdError:
            return None

    def path(self, uri: Uri) -> str:
        return paths.path_of(uri, self.sharded)

    def written(self, node: Node) -> Files:
        path = self.path(node.uri)
        return {path: documents.rewrite(self.read(path), node)}


def follow_memory(around: Around, path: str, base: bytes | None, data: bytes | None) -> tuple[Files, Uri | None]:
    """Further files that an edit of a memory comes to, and the node that it is about.

    Args:
        base: What the person started from; what differs from that is what they meant.
        data: What the file holds now.

    Raises:
        KgdError: The node cannot be what the front matter says.
    """
    before, after = memories.read(base, path), memories.read(data, path)
    owner = _owner(around, after or before)
    if owner is None:
        return {}, None
    node = around.node(owner)
    if after is None:
        return (_left(around, node, path) if data is None and node else {}), owner
    if node is None:
        return (_made(around, path, after, owner) if base is None else {}), owner
    named = memory_files.file_of(node)
    if named != path:
        if named is not None and memory_files.detail_of(node, around.read) is not None:
            return {}, owner  # a copy: the node keeps the file that it names
        node, before = replace(node, data={**node.data, FILE: path}), None
    node = memory_files.told_by_front(node, before, after)
    assert data is not None
    return {**around.written(node), path: memory_files.mirrored(data, after, node)}, owner


def follow_node(around: Around, before: Node | None, after: Node | None, beside: Collection[Uri]) -> Files:
    """Further files that an edit of a node comes to. `beside` are nodes that the same person edited with it.

    A node that was given another URI by hand is one that came and one that went, and its file goes with it.
    """
    present = after or before
    if present is None:
        return {}
    path = memory_files.file_of(before)
    data = around.read(path) if path else None
    memory = memories.read(data)
    if after is None and path and data is not None and memory:
        for uri in sorted(beside):
            other = around.node(uri)
            if other and uri != present.uri and memory_files.file_of(other) == path:
                return {path: memory_files.mirrored(data, memory, other)}
    return memory_files.keep_in_step([(before, after)], around.read, by_hand=True)


def follow_commits(
    around: Around, changed: Mapping[str, tuple[bytes | None, bytes | None]], apply: Callable[[Files], None]
) -> set[Uri]:
    """The same for what somebody committed with plain git: files by path, before and after. The nodes it is about."""
    uris: set[Uri] = set()
    for path, (before, after) in sorted(changed.items()):
        try:
            if memories.is_path(path):
                files, uri = follow_memory(around, path, before, after)
            else:
                old, new = (documents.decode(data, at=path) if data else None for data in (before, after))
                uri = new.uri if new else None
                files = follow_node(around, old, new, uris)
        except KgdError:
            continue  # such a file is named as one that cannot be read
        files = {at: data for at, data in files.items() if around.read(at) != data}
        if files:
            apply(files)
            uris |= {uri} if uri else set()
    return uris


def _owner(around: Around, memory: Memory | None) -> Uri | None:
    named = memory_files.owner_of(memory)
    try:
        return parse(named) if named and workspace_of(parse(named)) == around.workspace else None
    except KgdError:
        return None


def _left(around: Around, node: Node, path: str) -> Files:
    """After its file was deleted: another one whose front matter names the node is the same under another name."""
    if memory_files.file_of(node) != path:
        return {}
    for name in around.names(FOLDER.rstrip("/")):
        other = f"{FOLDER}{name}"
        if other != path and memories.is_path(other):
            memory = memories.read(around.read(other), other)
            if memory and memory_files.belongs(memory, node):
                return around.written(replace(node, data={**node.data, FILE: other}))
    return around.written(replace(node, data={key: value for key, value in node.data.items() if key != FILE}))


def _made(around: Around, path: str, memory: Memory, owner: Uri) -> Files:
    kind = memory.front.get("type")
    if scheme_of(owner) not in MEMORY_TYPES and kind not in MEMORY_TYPES:
        return {}
    if around.read(around.path(owner)) is not None:  # it is there, and cannot be read
        return {}
    return {around.path(owner): documents.encode(memory_files.node_for(path, memory, owner))}
