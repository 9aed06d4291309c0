"""Memory files: keeping a node and its detail file in step, for submitted edits and edits by hand (docs/memories.md).

The node's file owns id, type and tags, and names the detail file; the front matter mirrors them and names the node. A
file belongs to a node only if each names the other, so naming a file does not give access to it. An edit of either file
is an edit of the node. A renamed file is found by its front matter. A node is created for a file written by hand.
Deleting the file does not delete the node.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from kgd.codec import documents, front_matter, paths
from kgd.codec.front_matter import Memory
from kgd.errors import Invalid, KgdError, Limit
from kgd.git.objects import LAST_MOMENT, ObjectId
from kgd.git.store import ObjectStore
from kgd.model.node import FILE, MEMORY_TYPES, Json, Node, check_label, cut_at_word, folded
from kgd.model.uri import Uri, is_owned, parse, path_of, scheme_of, slug, workspace_of
from kgd.workspace.parts import FILE_LIMIT, node_in

Files = dict[str, bytes | None]

Read = Callable[[str], bytes | None]
TOPIC = 60
"""Maximum number of characters of a node's path in the name of its memory file."""


def file_of(node: Node | None) -> str | None:
    """The path of the node's detail file, which may be missing."""
    path = node.data.get(FILE) if node else None
    return path if isinstance(path, str) and paths.is_memory_path(path) else None


def memory_of(path: str, blob: ObjectId | None, read: Callable[[ObjectId], bytes]) -> Memory | None:
    """The memory in a blob; None if there is no blob, or if it cannot be read or is not a memory."""
    try:
        return front_matter.memory_in(read(blob), path) if blob else None
    except KgdError:
        return None


def owner_of(memory: Memory | None) -> Uri | None:
    """The node that the front matter names; None if it does not name a node."""
    named = memory.front.get("id") if memory else None
    try:
        return parse(named) if isinstance(named, str) else None
    except KgdError:
        return None


def belongs(memory: Memory | None, node: Node) -> bool:
    """Whether the front matter names this node, by its URI or an alias."""
    owner = owner_of(memory)
    return owner is not None and (owner == node.uri or owner in node.aliases)


def detail_of(node: Node | None, read: Callable[[str], bytes | None]) -> tuple[str, Memory] | None:
    """Path and content of a node's readable detail file."""
    path = file_of(node)
    memory = front_matter.memory_in(read(path), path) if path else None
    return (path, memory) if path and memory and node and belongs(memory, node) else None


def read_blob(store: ObjectStore, tree: ObjectId | None, path: str) -> bytes | None:
    """The file at a path of a tree; None if absent or larger than any file of a workspace."""
    blob = store.entry(tree, path) if tree else None
    try:
        return store.read(blob, FILE_LIMIT) if blob else None
    except Limit:
        return None


def mirrored(data: bytes, memory: Memory, node: Node) -> bytes:
    """The file with its front matter updated from the node; unchanged if nothing differs.

    Raises:
        Invalid, Limit: The front matter would contain values that YAML cannot represent.
    """
    wanted: dict[str, Json] = dict(memory.front) | {"id": str(node.uri), "type": node.type}
    if set(_folded(memory.tags, node.type)) != set(node.tags):
        wanted["tags"] = _in_order(memory.tags, node)
        if not node.tags:
            del wanted["tags"]
    return data if wanted == dict(memory.front) else front_matter.rewrite(memory, wanted)


def with_front_matter(node: Node, before: Memory | None, after: Memory) -> Node:
    """The node with type and tags as changed in the front matter.

    Raises:
        Invalid: A node cannot have such a type or tag.
    """
    was = before.front.get("type") if before else None
    kind = after.front.get("type")
    if isinstance(kind, str) and kind != was and kind:
        check_label(kind, "type")
        node = replace(node, type=kind)
        refuse_detail(node)
    old, new = (set(_folded(memory.tags if memory else (), node.type)) for memory in (before, after))
    tags = (set(node.tags) - (old - new)) | (new - old)
    return replace(node, tags=tuple(tags))


def node_for(path: str, memory: Memory, owner: Uri) -> Node:
    """A node for a file that a person created; its first line becomes name and summary.

    Raises:
        KgdError: The front matter has values that a node cannot have.
    """
    kind = memory.front.get("type")
    title = cut_at_word(next((line.strip("# \t") for line in memory.text.split("\n") if line.strip("# \t")), ""))
    kind = kind if isinstance(kind, str) else ""
    return Node(owner, kind, name=title, summary=title, tags=memory.tags, data={FILE: path})


def written(node: Node, old: Memory | None, text: str, now: int) -> bytes:
    """The file with this detail of the node, replacing `old`.

    Raises:
        Invalid: The text cannot be stored in a file.
    """
    _check_text(text, f"{node.uri} detail"[:80])
    prose = "\n" + text.strip("\n") + "\n"
    if old is not None:
        data = front_matter.with_head(old.head, prose)
        return mirrored(data, front_matter.decode(data), node)
    front = {"id": str(node.uri), "type": node.type, "date": _date(node, now), "tags": list(node.tags) or None}
    return front_matter.encode({key: value for key, value in front.items() if value is not None}, prose)


def new_path(node: Node, now: int, taken: Callable[[str], bool]) -> str:
    """An unused path for the detail of a node, from date and topic."""
    stem = f"{paths.MEMORY_FOLDER}{_date(node, now)}-{topic_of(path_of(node.uri)) or node.type}"
    if taken(f"{stem}.md"):
        stem = f"{stem}-{re.sub(r'[^a-z0-9]+', '-', node.type.lower())}"
    path, number = f"{stem}.md", 2
    while taken(path):
        path, number = f"{stem}-{number}.md", number + 1
    return path


def topic_of(path: str) -> str:
    """The part of a memory file's name that is made from the path of its node."""
    return slug(path)[:TOPIC].strip("-")


def refuse_detail(node: Node) -> None:
    """Raise Invalid if nodes of this type have no detail file."""
    if node.type not in MEMORY_TYPES:
        raise no_detail(node, node.uri)


def no_detail(node: Node, at: str) -> Invalid:
    """The refusal of a detail for a node of another type."""
    return Invalid(
        f"a node of type '{node.type[:60]}' cannot have a detail; only {', '.join(sorted(MEMORY_TYPES))} can",
        at=at,
        next="Put the text into content.",
    )


def _date(node: Node, now: int) -> str:
    """The node's own date, which imports set; otherwise today."""
    created = node.data.get("created")
    if isinstance(created, str):
        try:
            return date.fromisoformat(created[:10]).isoformat()
        except ValueError:
            pass
    return datetime.fromtimestamp(min(max(now, 0), LAST_MOMENT), UTC).date().isoformat()


def _check_text(text: str, at: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Invalid("the detail contains an unpaired surrogate", at=at) from None
    if "\0" in text:
        raise Invalid("the detail contains a zero byte", at=at)


def _folded(tags: Iterable[str], kind: str) -> tuple[str, ...]:
    return folded(tags) if kind in MEMORY_TYPES else tuple(tags)


def _in_order(old: Iterable[str], node: Node) -> list[str]:
    """The node's tags: first those in the file, in the file's order, then the others."""
    kept = [tag for tag in dict.fromkeys(_folded(old, node.type)) if tag in node.tags]
    return [*kept, *(tag for tag in node.tags if tag not in kept)]


def keep_in_step(
    nodes: Iterable[tuple[Node | None, Node | None]], read: Read, *, by_hand: bool = False
) -> dict[str, bytes | None]:
    """The detail files that change with these nodes (before, after).

    A file is removed with its node or when the detail is unset, is renamed when the node names another path, and gets
    its front matter from the node.

    Args:
        read: Reads a file as the change leaves it so far.
        by_hand: Whether the nodes were edited as files; a file that its node no longer names then stays.
    """
    changed = list(nodes)
    files: dict[str, bytes | None] = {}
    kept = {path for _, after in changed if (path := file_of(after))}
    for before, after in changed:
        old, new = file_of(before), file_of(after)
        if old and old != new and old not in kept and before and belongs(front_matter.memory_in(read(old)), before):
            if new and read(new) is None:
                files |= {old: None, new: read(old)}
            elif after is None or not (new or by_hand):
                files[old] = None
    for _, after in changed:
        path = file_of(after)
        if path is None or after is None:
            continue
        data = files[path] if path in files else read(path)
        memory = front_matter.memory_in(data, path)
        if data is None or memory is None:
            continue
        former = {one.uri for one, _ in changed if one and file_of(one) == path}
        is_its_own = belongs(memory, after) or owner_of(memory) in former
        if is_its_own and (follows := mirrored(data, memory, after)) != data:
            files[path] = follows
    return files


@dataclass(frozen=True, slots=True)
class Home:
    """The workspace that a change is for. `read` and `names` give files and folders as the change leaves them, and
    `resolve` the present URI of a moved node."""

    workspace: str
    sharded: frozenset[str]
    read: Read
    names: Callable[[str], list[str]] = lambda folder: []
    resolve: Callable[[Uri], Uri] = lambda uri: uri

    def node(self, uri: Uri) -> Node | None:
        """A node of this workspace that has a separate file; None if the node is absent or cannot be read."""
        try:
            is_here = is_owned(uri) and workspace_of(uri) == self.workspace
            return node_in(path := self.path(uri), self.read(path)) if is_here else None
        except KgdError:
            return None

    def owner(self, uri: Uri) -> Node | None:
        """The node that a front matter names, by its URI or an alias."""
        if (node := self.node(uri)) is not None:
            return node
        moved = self.node(self.resolve(uri))
        return moved if moved is not None and uri in moved.aliases else None

    def path(self, uri: Uri) -> str:
        return paths.path_of(uri, self.sharded)

    def written(self, node: Node) -> Files:
        path = self.path(node.uri)
        return {path: documents.rewrite(self.read(path), node)}


def follow_memory(around: Home, path: str, base: bytes | None, data: bytes | None) -> tuple[Files, Uri | None]:
    """The other files that change with an edit to a detail file, and the node of the detail file.

    Args:
        base: The version that the person started from.
        data: The current bytes.

    Raises:
        KgdError: The node cannot have the values in the front matter.
    """
    before, after = front_matter.memory_in(base, path), front_matter.memory_in(data, path)
    owner = owner_of(after or before)
    if owner is None or workspace_of(owner) != around.workspace:
        return {}, None
    node = around.owner(owner)
    owner = node.uri if node is not None else owner
    if after is None:
        return (_after_deletion(around, node, path) if data is None and node else {}), owner
    if node is None:
        return (_node_by_hand(around, path, after, owner) if base is None else {}), owner
    named = file_of(node)
    if named != path:
        if named is not None and detail_of(node, around.read) is not None:
            return {}, owner  # this file is a copy: the node keeps the file that it names
        node, before = replace(node, data={**node.data, FILE: path}), None
    node = with_front_matter(node, before, after)
    assert data is not None
    return {**around.written(node), path: mirrored(data, after, node)}, owner


def follow_node(around: Home, before: Node | None, after: Node | None, beside: Collection[Uri]) -> Files:
    """The other files that change with an edit to a node's file. `beside` are nodes edited together with it.

    A node renamed by hand appears as one removed and one new node; its detail file goes with the new node.
    """
    present = after or before
    if present is None:
        return {}
    path = file_of(before)
    data = around.read(path) if path else None
    memory = front_matter.memory_in(data)
    if after is None and path and data is not None and memory:
        for uri in sorted(beside):
            other = around.node(uri)
            if other and uri != present.uri and file_of(other) == path:
                return {path: mirrored(data, memory, other)}
    return keep_in_step([(before, after)], around.read, by_hand=True)


def follow_commits(
    around: Home, changed: Mapping[str, tuple[bytes | None, bytes | None]], apply: Callable[[Files], None]
) -> set[Uri]:
    """Like `follow_memory` and `follow_node`, for commits made with plain git. `changed` has files by path, before and
    after. Returns the affected nodes."""
    uris: set[Uri] = set()
    for path, (before, after) in sorted(changed.items()):
        try:
            if paths.is_memory_path(path):
                files, uri = follow_memory(around, path, before, after)
            else:
                old, new = (documents.decode(data, at=path) if data else None for data in (before, after))
                uri = new.uri if new else None
                files = follow_node(around, old, new, uris)
        except KgdError:
            continue  # reported as an unreadable file
        files = {at: data for at, data in files.items() if around.read(at) != data}
        if files:
            apply(files)
            uris |= {uri} if uri else set()
    return uris


def _after_deletion(around: Home, node: Node, path: str) -> Files:
    """Handle the deletion of a file: find it under another name by its front matter, or unset the detail."""
    if file_of(node) != path:
        return {}
    for name in around.names(paths.MEMORY_FOLDER.rstrip("/")):
        other = f"{paths.MEMORY_FOLDER}{name}"
        if other != path and paths.is_memory_path(other):
            memory = front_matter.memory_in(around.read(other), other)
            if memory and belongs(memory, node):
                return around.written(replace(node, data={**node.data, FILE: other}))
    return around.written(replace(node, data={key: value for key, value in node.data.items() if key != FILE}))


def _node_by_hand(around: Home, path: str, memory: Memory, owner: Uri) -> Files:
    kind = memory.front.get("type")
    if scheme_of(owner) not in MEMORY_TYPES and kind not in MEMORY_TYPES:
        return {}
    if around.read(around.path(owner)) is not None:  # the node exists but cannot be read
        return {}
    return {around.path(owner): documents.encode(node_for(path, memory, owner))}
