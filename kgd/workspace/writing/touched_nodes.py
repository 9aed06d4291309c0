"""The nodes that a change touches, for authorization.

Files of a workspace belong to nodes: a node's file, a conflict record or a changelog entry to its node; a part of a
document or thread to its changed nodes; a memory to all nodes that name it; a variant that a merge kept below ``kept/``
to the nodes of the original file. Only an administrator may change any other file (``kgd.yaml``, ``.gitattributes``, a
file that kgd does not know). A new or removed alias touches the alias's URI, because this is the other end of a move.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from kgd.codec import bulk, documents, paths
from kgd.errors import KgdError
from kgd.git.objects import FOLDER, ObjectId, object_id
from kgd.git.staging import Staging
from kgd.git.store import ObjectStore
from kgd.model.access import Policy, Principal, Verb, authorize, authorize_settings
from kgd.model.fields import split
from kgd.model.node import Node
from kgd.model.uri import Uri, decode_segment, is_settings_uri
from kgd.workspace import memory_files, parts

File = tuple[str, ObjectId | None, ObjectId | None]
"""A changed path with its blobs before and after; None means absent."""
Read = Callable[[ObjectId], bytes]
Files = Callable[[], Iterable[tuple[str, ObjectId]]]
"""All files (path, blob) of the tree before the change; called only if a memory changed."""


Permit = Callable[["Touched", Policy], None]
"""Called with the touched nodes and the policy at the tip, right before staging; raises to refuse the change."""


@dataclass(frozen=True, slots=True)
class Touched:
    """Touched nodes, and paths of files that do not belong to a node."""

    uris: frozenset[Uri] = frozenset()
    settings: frozenset[str] = frozenset()

    def __or__(self, other: Touched) -> Touched:
        return Touched(self.uris | other.uris, self.settings | other.settings)


def authorize_all(principal: Principal | None, policy: Policy, verb: Verb, touched: Touched) -> None:
    """Check that the principal has permission for everything that the change touches.

    Raises:
        Forbidden: Permission is missing. The error names the first forbidden node or file, in the order of their names.
    """
    for path in sorted(touched.settings):
        authorize_settings(principal, policy, path)
    for uri in sorted(touched.uris):
        authorize(principal, policy, verb, uri)


def between(
    store: ObjectStore, old: ObjectId | None, new: ObjectId, workspace: str, sharded: frozenset[str]
) -> Touched:
    """The nodes that differ between two trees. The cost depends on the number of changed files, except for memories.

    Raises:
        Damaged, Limit: A tree cannot be walked; see `ObjectStore.diff`.
    """

    return of_files(store.diff(old, new), store, old, workspace, sharded)


def of_files(
    files: Iterable[File], store: ObjectStore, old: ObjectId | None, workspace: str, sharded: frozenset[str]
) -> Touched:
    """The nodes that a change of these files in the tree `old` touches; see `between`."""

    def all_files() -> Iterable[tuple[str, ObjectId]]:
        return ((file.path, file.id) for file in store.files(old)) if old else ()

    return of_changes(files, store.read, all_files, workspace, sharded)


def of_changes(files: Iterable[File], read: Read, all_files: Files, workspace: str, sharded: frozenset[str]) -> Touched:
    """The nodes that a change of these files touches.

    For an unreadable file, the node is derived from the path; if that is not possible, the change needs an
    administrator.
    """
    changed = list(files)
    look = _Look(read, workspace, sharded)
    touched = Touched()
    memories = {path for path, _, _ in changed if path.startswith("memories/")}
    touched |= look.parts([file for file in changed if file[0].startswith("bulk/")])
    for path, old, new in changed:
        if path.startswith("bulk/"):
            continue
        if path in memories:
            touched |= Touched(look.claimed(path, old) | look.claimed(path, new))
        else:
            touched |= look.at(path, old, new)
    memories |= look.disputed
    versions = {path: (old, new) for path, old, new in changed if path in memories}
    for path, namers in look.namers(memories, changed, all_files).items() if memories else ():
        owners = look.owners(path, versions.get(path, ()), namers)
        touched |= Touched(owners) if owners else Touched(settings=frozenset((path,)))
    return touched


def touched_by(
    staging: Staging,
    files: Mapping[str, bytes | None],
    workspace: str,
    sharded: frozenset[str],
    naming: Callable[[], Collection[str]] | None = None,
) -> Touched:
    """The nodes touched by writing these files (None: removing them) to the staging area, before that is done.

    Args:
        naming: Returns paths of the nodes that may name a memory; without it, all nodes are read when a memory changes.
    """
    known: dict[ObjectId, bytes] = {}

    def id_of(data: bytes | None) -> ObjectId | None:
        if data is None:
            return None
        known[id := object_id("blob", data)] = data
        return id

    changed = [(path, id_of(staging.read(path)), id_of(data)) for path, data in files.items()]

    def nodes() -> Iterator[tuple[str, ObjectId]]:
        listed = (
            _nodes_in(staging, "nodes")
            if naming is None
            else ((path, staging.blob_at(path)) for path in sorted(naming()))
        )
        for path, blob in listed:
            if blob is not None:
                yield path, blob

    def read(blob: ObjectId) -> bytes:
        return known[blob] if blob in known else staging.object(blob)

    return of_changes(changed, read, nodes, workspace, sharded)


def _nodes_in(staging: Staging, folder: str) -> Iterator[tuple[str, ObjectId]]:
    for name in staging.names(folder):
        path = f"{folder}/{name}"
        found = staging.lookup(path)
        if found and found[0] == FOLDER:
            yield from _nodes_in(staging, path)
        elif found:
            yield path, found[1]


def of_nodes(before: Node | None, after: Node | None) -> frozenset[Uri]:
    """The nodes that a change of one node touches: the node, and its new and removed aliases."""
    ends = {node.uri for node in (before, after) if node is not None}
    aliases = set(before.aliases if before else ()) ^ set(after.aliases if after else ())
    return frozenset(ends | aliases)


_VARIANT = re.compile(r"(.+)\.variant-[0-9a-f]{8}(\.[^./]*)?\Z").match
_SIDE = re.compile(r"(.+)-[0-9a-f]{8}\.txt\Z").match


def _kept_beside(path: str) -> str:
    """The original of a file that a merge kept (see `merging.files`); the path itself if that cannot be derived from
    the name."""
    below = path.removeprefix("kept/")
    if below.startswith(("nodes/", "bulk/", "log/")):
        found = _VARIANT(below)
        return f"{found[1]}{found[2] or ''}" if found else path
    found = _SIDE(below)
    return f"conflicts/{found[1]}.yaml" if found else path


@dataclass(slots=True)
class _Look:
    read: Read
    workspace: str
    sharded: frozenset[str]
    disputed: set[str] = field(default_factory=set)
    """Memories that new conflict records are about, since such a record influences how a merge resolves the file."""

    def at(self, path: str, old: ObjectId | None, new: ObjectId | None) -> Touched:
        top = path.partition("/")[0]
        if top == "kept" and (beside := _kept_beside(path)) != path:
            found = self.at(beside, None, None)  # only by name, since the content is arbitrary
            return Touched(settings=frozenset((path,))) if found.settings else found
        if top == "nodes":
            uris = self._node(path, old, new)
        elif top == "conflicts":
            uris = self._conflict(path, old, new)
        elif top == "log":
            uris = self._parent(path, self.sharded, lambda uri, name: paths.log_path(uri, name, self.sharded))
        elif top == "bulk":
            uris = self._whole(path)
        else:
            uris = frozenset()
        if not uris or any(map(is_settings_uri, uris)):
            return Touched(frozenset(u for u in uris if not is_settings_uri(u)), frozenset((path,)))
        return Touched(uris)

    def owners(self, path: str, blobs: Iterable[ObjectId | None], namers: Collection[Node]) -> frozenset[Uri]:
        """The nodes that own a memory, now or before; if no node owns it, all nodes that name it.

        A node that names another node's memory has no rights to it, so it cannot block the owner's writes.
        """
        versions = [memory_files.memory_of(path, blob, self.read) for blob in blobs]
        own = {node.uri for node in namers for memory in versions if memory_files.belongs(memory, node)}
        return frozenset(own or {node.uri for node in namers})

    def namers(self, memories: set[str], changed: list[File], all_files: Files) -> Mapping[str, list[Node]]:
        """The nodes that name these memories before or after the change, by memory. Reads all node files, and decodes
        each file that may name a memory.
        """
        found: dict[str, list[Node]] = {path: [] for path in memories}
        # Without an escape, the longest run without spaces or quotes appears literally in the file.
        marks = [max(re.split(r"[\s']", path), key=len).encode("utf-8", "surrogateescape") for path in memories]
        after = ((path, new) for path, _, new in changed if new is not None)
        for path, blob in (*all_files(), *after):
            if not paths.is_node_path(path):
                continue
            data = self.read(blob)
            if b"\\" in data or any(mark in data for mark in marks):
                node = parts.node_of(path, blob, self.read)
                named = node.data.get("file") if node else None
                if node and isinstance(named, str) and named in found:
                    found[named].append(node)
        return found

    def claimed(self, path: str, blob: ObjectId | None) -> frozenset[Uri]:
        """The node that a memory names as its owner, under which a merge records conflicts about the file."""
        owner = memory_files.owner_of(memory_files.memory_of(path, blob, self.read))
        return frozenset((owner,)) if owner else frozenset()

    def _node(self, path: str, old: ObjectId | None, new: ObjectId | None) -> frozenset[Uri]:
        try:
            uri = paths.uri_of(path, self.workspace, self.sharded)
        except KgdError:
            return frozenset()
        before, after = (parts.node_of(path, blob, self.read) for blob in (old, new))
        touched = of_nodes(before, after)
        if uri is not None:
            return touched | {uri}
        # The path contains a hash, so both versions of the file must be that node's.
        for blob, node in ((old, before), (new, after)):
            if blob is not None and (node is None or paths.path_of(node.uri, self.sharded) != path):
                return frozenset()
        return touched

    def _conflict(self, path: str, old: ObjectId | None, new: ObjectId | None) -> frozenset[Uri]:
        """The node of the folder, and each node that the record mentions, so that a record cannot evade a check."""
        by_path = self._parent(path, frozenset(), lambda uri, name: paths.conflict_path(uri, name, self.sharded))
        found = set(by_path)
        for blob in (old, new):
            try:
                conflict = documents.decode_conflict(self.read(blob), at=path) if blob else None
            except KgdError:
                if by_path:
                    continue
                return frozenset()
            if conflict:
                if not by_path and paths.conflict_path(conflict.uri, _stem(path), self.sharded) != path:
                    return frozenset()
                found.add(conflict.uri)
            if conflict and blob is new:
                found |= conflict.mentioned_uris()
                self.disputed |= {
                    f"{first}/{rest[0]}" for first, *rest in map(split, conflict.fields) if first == "memories" and rest
                }
        return frozenset(found)

    def parts(self, changed: list[File]) -> Touched:
        """The changed nodes in parts; if the change is not in any node, the whole thread or document."""
        touched, readable = Touched(), list[File]()
        for path, old, new in changed:
            whole = self._whole(path)
            if not whole:
                touched |= Touched(settings=frozenset((path,)))
                continue
            try:
                sources = {parts.decoded(path, blob, self.read).entries.source for blob in (old, new) if blob}
            except KgdError:
                touched |= Touched(whole)
                for blob in (old, new):
                    with suppress(KgdError):
                        touched |= Touched(frozenset(bulk.split(self.read(blob), at=path).nodes if blob else ()))
                continue
            readable.append((path, old, new))
            touched |= Touched(whole) if len(sources) > 1 else Touched()
        found = parts.difference(readable, self.read)
        nodes, seen = set[Uri](), set[str]()
        for uri in found.uris():
            before, after = (each.get(uri) for each in (found.old, found.new))
            nodes |= of_nodes(*(documents.decode(at.data, at=at.path) if at else None for at in (before, after)))
            seen |= {inside.path for inside in (before, after) if inside}
        for path, _, _ in readable:
            folder = path.rpartition("/")[0]
            nodes |= self._whole(path) if not any(each.startswith(f"{folder}/") for each in seen) else frozenset()
        return touched | Touched(frozenset(nodes))

    def _whole(self, path: str) -> frozenset[Uri]:
        """The thread or document of a part, if it can be derived from the path."""
        scheme, _, rest = path.removeprefix("bulk/").partition("/")
        parent = paths.PARTS_OF.get(scheme)
        if parent is None:
            return frozenset()
        return self._parent(
            f"bulk/{parent}/{rest}",
            frozenset((parent,)),
            lambda uri, name: paths.log_path(uri, name, self.sharded).replace("log/", "bulk/", 1),
        )

    def _parent(self, path: str, sharded: frozenset[str], path_for: Callable[[Uri, str], str]) -> frozenset[Uri]:
        """The node of the file's folder, if its URI can be derived from the folder's name and `path_for` maps this URI
        back to `path`.
        """
        folder, _, name = path.rpartition("/")
        parts = folder.split("/")
        if len(parts) < 3 or not name.endswith(".yaml"):
            return frozenset()
        if parts[0] != "conflicts":
            sharded = sharded | {parts[1]}
        try:
            last = parts[-1]
            if last != "%5F":
                last = paths.escape_name(decode_segment(last), folder=False)
            uri = paths.uri_of(
                "/".join(["nodes", *parts[1:-1], last]) + ".yaml", self.workspace, self.sharded | sharded
            )
            if uri is not None and path_for(uri, _stem(path)) == path:
                return frozenset((uri,))
        except (KgdError, UnicodeError, IndexError):
            pass
        return frozenset()


def _stem(path: str) -> str:
    return path.rpartition("/")[2].removesuffix(".yaml")
