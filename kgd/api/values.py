"""This file is where the values of the library are defined: frozen, comparable, and plain data by `as_dict`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kgd.model.node import edge_id
from kgd.model.uri import namespace_of

Data = dict[str, Any]


class Value:
    """What all of them can do."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON takes it, values inside it too."""
        return dataclasses.asdict(self)  # type: ignore[call-overload, no-any-return]


@dataclass(frozen=True, slots=True)
class Source(Value):
    """Where a node's content was taken from; both are any text, and several nodes may share one."""

    type: str
    id: str


@dataclass(frozen=True, slots=True)
class Node(Value):
    """A node as it was when it was read. Changing `data` changes nothing that is stored.

    Attributes:
        content: The full text; None where it was not asked for, which is not the same as an empty one.
        detail: The Markdown file behind a memory, where it has one and content was asked for.
        version: How many commits changed it; 0 for what is only served from the code tree.
        created_at: As its first commit claims it, RFC 3339 in UTC; `updated_at` as its last one does.
        trust: ``local``, ``team`` where others write to the workspace too, ``remote`` where only others do.
    """

    uri: str
    type: str
    name: str
    summary: str = ""
    content: str | None = None
    tags: tuple[str, ...] = ()
    data: Data = field(default_factory=dict, hash=False)
    source: Source | None = None
    aliases: tuple[str, ...] = ()
    detail: str | None = None
    version: int = 0
    created_at: str = ""
    created_by: str = ""
    updated_at: str = ""
    updated_by: str = ""
    trust: str = "local"

    @property
    def namespace(self) -> str:
        """The path without its last segment: ``services`` of ``concept://shop/services/auth``."""
        return namespace_of(self.uri)


@dataclass(frozen=True, slots=True)
class NewNode(Value):
    """A node to be made: by `type` and `name`, which get a URI that nothing has, or under a `uri` of your choice.

    `detail` is the Markdown behind a decision, pattern, gotcha, insight or task, which gets a file of its own.
    """

    type: str = ""
    name: str = ""
    namespace: str = ""
    uri: str | None = None
    summary: str = ""
    content: str = ""
    tags: Sequence[str] = ()
    data: Data = field(default_factory=dict, hash=False)
    source: Source | tuple[str, str] | None = None
    aliases: Sequence[str] = ()
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Edge(Value):
    """A directed relation. There is one at most of a type between two nodes.

    Attributes:
        weight: What it costs to go along it, 0..1; 0 is "always together". Strength belongs into `data`.
        broken: Whether there is no node under the target's URI.
        derived: Whether it is stored nowhere, but follows from what the texts and the code say.
    """

    source: str
    target: str
    type: str
    weight: float = 1.0
    data: Data = field(default_factory=dict, hash=False)
    broken: bool = False
    derived: bool = False

    @property
    def id(self) -> str:
        """A function of source, target and type alone, the same on every machine."""
        return edge_id(self.source, self.target, self.type)

    def as_dict(self) -> dict[str, Any]:
        return {"id": self.id, **dataclasses.asdict(self)}


@dataclass(frozen=True, slots=True)
class NewEdge(Value):
    """An edge to be made. `weight` and `data` that are None stay as they are where the edge is there already."""

    source: str
    target: str
    type: str
    weight: float | None = None
    data: Data | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class NodePath(Value):
    """How a node was found.

    Attributes:
        uris: From the seed, which the words or the meaning led to, along edges to the node itself.
        score: 0..1, of words, meaning and edges together.
        similarity: Cosine of the vectors; None without them.
    """

    uri: str
    uris: tuple[str, ...]
    score: float
    why: tuple[str, ...]
    snippet: str = ""
    similarity: float | None = None

    @property
    def seed(self) -> str:
        return self.uris[0]


@dataclass(frozen=True, slots=True)
class GraphResult(Value):
    """What `retrieve` found, the best first; `paths` has one entry for each of the nodes, in their order."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    paths: tuple[NodePath, ...]


@dataclass(frozen=True, slots=True)
class ChunkResult(Value):
    """A piece of a document that answers a question; `document` is the URI of what it is a piece of."""

    uri: str
    name: str
    content: str
    document: str
    score: float
    similarity: float | None = None
    data: Data = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Step(Value):
    """One relation of a walk's path, leaving `uri`; `backwards` where it was gone against its arrow."""

    uri: str
    type: str
    backwards: bool = False


@dataclass(frozen=True, slots=True)
class Reached(Value):
    """A node of a walk, with what it costs to get there. Its content is read with `get_node`."""

    uri: str
    type: str
    name: str
    cost: float
    summary: str = ""
    path: tuple[Step, ...] = ()
    stored: bool = True


@dataclass(frozen=True, slots=True)
class Cut(Value):
    """Something that a limit left out: at least `count` of it."""

    limit: str
    count: int
    at: str = ""


@dataclass(frozen=True, slots=True)
class Walk(Value):
    """What `traverse` reached, the cheapest first; `broken` are edges that lead to no node."""

    nodes: tuple[Reached, ...]
    edges: tuple[Edge, ...]
    cut: tuple[Cut, ...] = ()
    broken: tuple[Edge, ...] = ()


@dataclass(frozen=True, slots=True)
class ContextItem(Value):
    """One thing to know: `summary`, or the beginning of the text, or both; `more` says that there is more of it."""

    uri: str
    kind: str
    name: str
    why: str
    summary: str = ""
    text: str = ""
    more: bool = False


@dataclass(frozen=True, slots=True)
class Context(Value):
    """What is known about a task, a question or paths, in reading order.

    `unmatched_paths` are those that nobody has described; `changes` what happened to the paths lately, as plain data.
    """

    items: tuple[ContextItem, ...]
    unmatched_paths: tuple[str, ...] = ()
    changes: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)

    def __str__(self) -> str:
        """All of it as text that a person or a model reads."""
        return "\n\n".join(f"{item.name} ({item.uri})\n{item.summary or item.text}".strip() for item in self.items)


@dataclass(frozen=True, slots=True)
class Commit(Value):
    """One change of the workspace. `nodes` are the URIs it changed; `diff` is plain data, where it was asked for."""

    commit: str
    at: str
    author: str
    message: str
    nodes: tuple[str, ...] = ()
    client: str = ""
    operation: str = ""
    diff: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)


@dataclass(frozen=True, slots=True)
class Written(Value):
    """What became of a set of changes.

    Attributes:
        commit: None where nothing changed, or nothing was to be written.
        versions: URI to version of each node that it wrote.
        repeated: Whether the request id was seen before: this is the first result, and nothing was done now.
    """

    commit: str | None
    versions: dict[str, int] = field(default_factory=dict, hash=False)
    created: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    repeated: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Ingested(Value):
    """What became of something that was taken in.

    Attributes:
        counts: How many nodes of which kind are new, changed and gone, such as ``chunks_new``.
        nodes: The documents and threads, at most 100 of them.
        trouble: What could not be read, one line each; the rest was taken in.
        job: The id of a job that took it in, or still does: then `is_done` is false.
    """

    kind: str
    source: str
    counts: dict[str, int] = field(default_factory=dict, hash=False)
    nodes: tuple[str, ...] = ()
    trouble: tuple[str, ...] = ()
    job: str = ""
    is_done: bool = True
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Message(Value):
    """One message of a thread; `at` is when it was said, as its name says it."""

    uri: str
    content: str
    sender_id: str = ""
    sender_type: str = ""
    at: str = ""
    tool_calls: tuple[Data, ...] = field(default=(), hash=False)
    data: Data = field(default_factory=dict, hash=False)
