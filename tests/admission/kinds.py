"""Each kind of edit twice: as a submitted edit, and as the files that a person would write instead."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Protocol

from kgd.codec import documents, front_matter, paths
from kgd.model.change import Append, Delete, Edit, Log, LogEntry, Move, Relate, Unrelate, Untag
from kgd.model.fields import plain, plain_relation
from kgd.model.node import Json, Relation
from kgd.model.uri import Uri
from kgd.workspace.memory_files import belongs, file_of
from kgd.workspace.workspace import Workspace

Files = Mapping[str, bytes | None]


class Kind(Protocol):
    """One change. `uris` are the nodes that it leaves different, and no other kind of the same change names them."""

    @property
    def uris(self) -> tuple[Uri, ...]: ...
    def edits(self, ws: Workspace) -> tuple[Edit, ...]: ...
    def files(self, ws: Workspace) -> Files: ...


@dataclass(frozen=True)
class Together:
    """Several changes of different nodes in one commit."""

    kinds: tuple[Kind, ...]

    @property
    def uris(self) -> tuple[Uri, ...]:
        return tuple(uri for one in self.kinds for uri in one.uris)

    def edits(self, ws: Workspace) -> tuple[Edit, ...]:
        return tuple(edit for one in self.kinds for edit in one.edits(ws))

    def files(self, ws: Workspace) -> Files:
        return reduce(lambda files, one: {**files, **one.files(ws)}, self.kinds, {})


@dataclass(frozen=True)
class OfNode:
    uri: Uri

    @property
    def uris(self) -> tuple[Uri, ...]:
        return (self.uri,)

    def _as(self, ws: Workspace, **fields: Json) -> Files:
        """The file with other values of these fields."""
        node = ws.node(self.uri)
        return {paths.path_of(self.uri, ws.sharded): written((plain(node) if node else {"uri": self.uri}) | fields)}


def written(values: Mapping[str, Json]) -> bytes:
    """JSON is YAML, and may hold a node that is invalid in any way."""
    return json.dumps(values).encode()


@dataclass(frozen=True)
class Deleted(OfNode):
    def edits(self, ws: Workspace) -> tuple[Edit, ...]:
        return (Delete(self.uri),)

    def files(self, ws: Workspace) -> Files:
        files: dict[str, bytes | None] = {paths.path_of(self.uri, ws.sharded): None}
        files |= {path: None for path, _ in entries_of(ws, self.uri)}
        return files | {path: None for path, _ in memory_of(ws, self.uri)}


@dataclass(frozen=True)
class Moved(OfNode):
    to: Uri

    @property
    def uris(self) -> tuple[Uri, ...]:
        return (self.uri, self.to)

    def edits(self, ws: Workspace) -> tuple[Edit, ...]:
        return (Move(self.uri, self.to),)

    def files(self, ws: Workspace) -> Files:
        node = ws.node(self.uri)
        assert node is not None
        aliases = sorted({*node.aliases, self.uri} - {self.to})
        files: dict[str, bytes | None] = {paths.path_of(self.uri, ws.sharded): None}
        files[paths.path_of(self.to, ws.sharded)] = written(plain(node) | {"uri": self.to, "aliases": aliases})
        for path, data in entries_of(ws, self.uri):
            entry = replace(documents.decode_entry(data), parent=self.to)
            files |= {path: None, paths.log_path(self.to, entry.id): documents.encode_entry(entry)}
        for path, data in memory_of(ws, self.uri):
            files[path] = data.replace(f"id: {self.uri}\n".encode(), f"id: {self.to}\n".encode(), 1)
        return files


@dataclass(frozen=True)
class Related(OfNode):
    relation: Mapping[str, Json]

    def edits(self, ws: Workspace) -> tuple[Edit, ...]:
        return (Relate(self.uri, Relation(**self.relation), frozenset(self.relation)),)

    def files(self, ws: Workspace) -> Files:
        relations = {(one["type"], one["target"]): one for one in relations_of(ws, self.uri)}
        key = self.relation["type"], self.relation["target"]
        return self._as(ws, relations=[*({**relations, key: {**relations.get(key, {}), **self.relation}}).values()])


@dataclass(frozen=True)
class Unrelated(OfNode):
    target: Uri
    type: str

    def edits(self, ws: Workspace) -> tuple[Edit, ...]:
        return (Unrelate(self.uri, self.target, self.type),)

    def files(self, ws: Workspace) -> Files:
        key = self.type, self.target
        return self._as(
            ws, relations=[one for one in relations_of(ws, self.uri) if (one["type"], one["target"]) != key]
        )


@dataclass(frozen=True)
class Untagged(OfNode):
    tags: tuple[str, ...]

    def edits(self, ws: Workspace) -> tuple[Edit, ...]:
        return (Untag(self.uri, self.tags),)

    def files(self, ws: Workspace) -> Files:
        node = ws.node(self.uri)
        return self._as(ws, tags=[tag for tag in node.tags if tag not in self.tags] if node else [])


@dataclass(frozen=True)
class Appended(OfNode):
    text: str

    def edits(self, ws: Workspace) -> tuple[Edit, ...]:
        return (Append(self.uri, self.text),)

    def files(self, ws: Workspace) -> Files:
        node = ws.node(self.uri)
        before = f"{node.content}\n\n".lstrip("\n") if node and not node.content.endswith("\n") else ""
        before = before or (f"{node.content}\n" if node and node.content else "")
        return self._as(ws, content=f"{before}{self.text}\n")


@dataclass(frozen=True)
class Logged:
    """An entry of a changelog, which leaves its node unchanged."""

    entry: LogEntry
    uris: tuple[Uri, ...] = field(default=())

    def edits(self, ws: Workspace) -> tuple[Edit, ...]:
        return (Log(self.entry),)

    def files(self, ws: Workspace) -> Files:
        return {paths.log_path(self.entry.parent, self.entry.id): documents.encode_entry(self.entry)}


def relations_of(ws: Workspace, uri: Uri) -> list[dict[str, Json]]:
    node = ws.node(uri)
    return [plain_relation(one) for one in node.relations] if node else []


def files_below(ws: Workspace, folder: str) -> list[tuple[str, bytes]]:
    found = ws.store.files(ws.store.tree_of(bytes.fromhex(ws.tip)))
    return [(file.path, ws.store.read(file.id)) for file in found if file.path.startswith(f"{folder}/")]


def entries_of(ws: Workspace, uri: Uri) -> list[tuple[str, bytes]]:
    return files_below(ws, paths.log_path(uri, "x").rpartition("/")[0])


def memory_of(ws: Workspace, uri: Uri) -> list[tuple[str, bytes]]:
    """The node's own memory file, if it has one."""
    node = ws.node(uri)
    found = files_below(ws, "memories")
    return [one for one in found if node and one[0] == file_of(node) and belongs(front_matter.memory_in(one[1]), node)]
