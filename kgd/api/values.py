"""Values of the library, frozen and comparable, from the answers of operations; `as_dict` returns plain data."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from kgd.model.node import edge_id, empty, with_plain_fields
from kgd.model.uri import namespace_of

Data = dict[str, Any]


class Value:
    """The base of all values."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """The value as plain data for JSON."""
        return dataclasses.asdict(self)  # type: ignore[call-overload, no-any-return]


@dataclass(frozen=True, slots=True)
class Source(Value):
    """The origin of a node's content; both fields can be any text, and several nodes may share a source."""

    type: str
    id: str


@dataclass(frozen=True, slots=True)
@with_plain_fields(empty)
class Node(Value):
    """A node at the time it was read. Changing `data` does not change the stored node.

    Attributes:
        content: The full text; None if it was not read.
        detail: The Markdown detail of a memory, if the memory has one and the content was read.
        version: The number of commits that changed the node; 0 for a node of the code tree that is not stored.
        created_at: Time of the node's first commit, RFC 3339 in UTC; `updated_at` is the time of the last
            commit that is not a verification.
        trust: ``local``; ``team`` if others also write to the workspace; ``remote`` if only others do.
        others: Keys of its file that this version of kgd does not know.
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
    others: Data = field(default_factory=dict, hash=False)

    @property
    def namespace(self) -> str:
        """The path without its last segment: ``services`` in ``concept://shop/services/auth``."""
        return namespace_of(self.uri)


@dataclass(frozen=True, slots=True)
@with_plain_fields(empty)
class NewNode(Value):
    """A node to create: under a new URI made from `type` and `name`, or under an unused `uri`.

    `detail` is the Markdown detail of a decision, pattern, gotcha, insight or task, kept as a separate file.
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
    """A directed relation. Two nodes have at most one edge of each type in each direction.

    Attributes:
        weight: Its cost, 0..1; 0 is "always together". Strength belongs in `data`.
        broken: Whether the target does not exist.
        derived: Whether it follows from texts or code and is not stored.
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
        """Computed from source, target and type; the same on every machine."""
        return edge_id(self.source, self.target, self.type)

    def as_dict(self) -> dict[str, Any]:
        return {"id": self.id, **dataclasses.asdict(self)}


@dataclass(frozen=True, slots=True)
class NewEdge(Value):
    """An edge to create. None leaves `weight` or `data` of an existing edge unchanged."""

    source: str
    target: str
    type: str
    weight: float | None = None
    data: Data | None = field(default=None, hash=False)


@dataclass(frozen=True, slots=True)
class NodePath(Value):
    """The path to a hit.

    Attributes:
        uris: The path from the seed (a hit by words or meaning) along edges to the node.
        score: 0..1, from words, meaning and edges.
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
    """The hits of `retrieve`, best first; `paths` has one entry for each node, in the same order."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    paths: tuple[NodePath, ...]


@dataclass(frozen=True, slots=True)
class ChunkResult(Value):
    """A chunk of the document with the URI `document`."""

    uri: str
    name: str
    content: str
    document: str
    score: float
    similarity: float | None = None
    data: Data = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Step(Value):
    """One relation of a path, leaving `uri`; `backwards` if it was followed against its direction."""

    uri: str
    type: str
    backwards: bool = False


@dataclass(frozen=True, slots=True)
class Reached(Value):
    """A node of a walk with the cost of its path. Read its content with `get_node`."""

    uri: str
    type: str
    name: str
    cost: float
    summary: str = ""
    path: tuple[Step, ...] = ()
    stored: bool = True


@dataclass(frozen=True, slots=True)
class Cut(Value):
    """A limit that left out at least `count` nodes or edges."""

    limit: str
    count: int
    at: str = ""


@dataclass(frozen=True, slots=True)
class Walk(Value):
    """The nodes that `traverse` reached, cheapest first; the targets of `broken` edges do not exist."""

    nodes: tuple[Reached, ...]
    edges: tuple[Edge, ...]
    cut: tuple[Cut, ...] = ()
    broken: tuple[Edge, ...] = ()


@dataclass(frozen=True, slots=True)
class ContextItem(Value):
    """One item of knowledge: `summary`, the start of the text, or both; `more` if the text continues."""

    uri: str
    kind: str
    name: str
    why: str
    summary: str = ""
    text: str = ""
    more: bool = False


@dataclass(frozen=True, slots=True)
class Context(Value):
    """Knowledge about a task, a question or paths, in reading order.

    `unmatched_paths` have no description; `changes` are recent changes to the paths, as plain data.
    """

    items: tuple[ContextItem, ...]
    unmatched_paths: tuple[str, ...] = ()
    changes: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)

    def __str__(self) -> str:
        """The items as one text."""
        return "\n\n".join(f"{item.name} ({item.uri})\n{item.summary or item.text}".strip() for item in self.items)


@dataclass(frozen=True, slots=True)
class Commit(Value):
    """One commit of the workspace. `nodes` are the changed URIs; `diff` is plain data, if requested."""

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
    """The result of a set of changes.

    Attributes:
        commit: None if nothing changed, or for a dry run.
        versions: URI to version of each written node.
        repeated: Whether the request id was used before. If so, this is the first result, and nothing new was written.
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
    """The result of an ingest.

    Attributes:
        counts: Numbers of new, changed and removed nodes by kind, such as ``chunks_new``.
        nodes: The documents and threads, at most 100 of them.
        trouble: One line for each file that could not be read; the other files were ingested.
        job: The id of its job. `is_done` is false while the job runs.
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
    """One message of a thread; `at` is its time, taken from its name."""

    uri: str
    content: str
    sender_id: str = ""
    sender_type: str = ""
    at: str = ""
    tool_calls: tuple[Data, ...] = field(default=(), hash=False)
    data: Data = field(default_factory=dict, hash=False)


Answer = Mapping[str, Any]
V = TypeVar("V", bound=Value)


def value_of(Kind: type[V], answer: Answer, **given: Any) -> V:
    """The value, with its fields from the answer and the given fields; lists become tuples."""
    found = {one.name: answer[one.name] for one in fields(Kind) if one.name in answer}  # type: ignore[arg-type]
    return Kind(**{name: tuple(value) if isinstance(value, list) else value for name, value in found.items()} | given)


def node(answer: Answer) -> Node:
    created, updated = answer.get("created", {}), answer.get("updated", {})
    source, detail = answer.get("source"), answer.get("detail")
    return value_of(
        Node,
        answer,
        source=Source(source["type"], source["id"]) if source else None,
        detail=detail["text"] if detail else None,
        created_at=created.get("at", ""),
        created_by=created.get("by", ""),
        updated_at=updated.get("at", ""),
        updated_by=updated.get("by", ""),
        trust=answer["origin"]["trust"],
    )


def result(answer: Answer) -> GraphResult:
    paths = tuple(value_of(NodePath, one) for one in answer["paths"])
    return GraphResult(tuple(map(node, answer["nodes"])), tuple(value_of(Edge, one) for one in answer["edges"]), paths)


def chunk(found: Node, path: NodePath) -> ChunkResult:
    scheme, _, rest = found.uri.partition("://")
    document = f"document://{rest.rpartition('/')[0]}" if scheme == "chunk" else found.uri
    return ChunkResult(
        found.uri, found.name, found.content or "", document, path.score, path.similarity, dict(found.data)
    )


def reached(answer: Answer, paths: Mapping[str, tuple[Step, ...]]) -> Reached:
    """A node of a walk. `paths` has the paths of all earlier nodes."""
    path: tuple[Step, ...] = ()
    if via := answer.get("via"):
        steps = [*via.get("through", ()), via]
        path = paths.get(steps[0]["from"], ()) + tuple(
            Step(step["from"], step["type"], step.get("direction") == "in") for step in steps
        )
    return value_of(Reached, answer, path=path)


def walked(answers: Iterable[Answer], paths: dict[str, tuple[Step, ...]]) -> list[Reached]:
    """The nodes of a walk, in its order. `paths` has the paths of the nodes before them; the new paths are added."""
    found = list[Reached]()
    for one in answers:
        found.append(reached(one, paths))
        paths[one["uri"]] = found[-1].path
    return found


def context(answer: Answer) -> Context:
    items = tuple(value_of(ContextItem, one, more="more" in one) for one in answer["items"])
    return Context(items, tuple(answer["unmatched_paths"]), tuple(answer["changes"]))


def written(answer: Answer) -> Written:
    return value_of(Written, answer, versions={one["uri"]: one["version"] for one in answer["nodes"]})


def ingested(answer: Answer) -> Ingested:
    return value_of(Ingested, answer, is_done=answer.get("state", "done") == "done")


def message(found: Node) -> Message:
    """The message in a node. Fields of the wrong type are left out."""
    data = found.data
    kind, sender = (data.get(key) if isinstance(data.get(key), str) else "" for key in ("senderType", "senderId"))
    calls = data.get("toolCalls")
    at = found.name.partition(":")[2]
    return Message(
        found.uri,
        found.content or "",
        sender or "",
        kind or "",
        at,
        tuple(call for call in calls if isinstance(call, dict)) if isinstance(calls, list) else (),
        data,
    )
