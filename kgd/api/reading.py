"""Answers of operations as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kgd.api.values import (
    ChunkResult,
    Commit,
    Context,
    ContextItem,
    Cut,
    Edge,
    GraphResult,
    Ingested,
    Message,
    Node,
    NodePath,
    Reached,
    Source,
    Step,
    Written,
)

Answer = Mapping[str, Any]


def node(answer: Answer) -> Node:
    created, updated = answer.get("created", {}), answer.get("updated", {})
    source, detail = answer.get("source"), answer.get("detail")
    return Node(
        answer["uri"],
        answer["type"],
        answer["name"],
        answer.get("summary", ""),
        answer.get("content"),
        tuple(answer.get("tags", ())),
        answer.get("data", {}),
        Source(source["type"], source["id"]) if source else None,
        tuple(answer.get("aliases", ())),
        detail["text"] if detail else None,
        answer["version"],
        created.get("at", ""),
        created.get("by", ""),
        updated.get("at", ""),
        updated.get("by", ""),
        answer["origin"]["trust"],
        answer.get("others", {}),
    )


def edge(answer: Answer) -> Edge:
    return Edge(
        answer["source"],
        answer["target"],
        answer["type"],
        answer["weight"],
        answer.get("data", {}),
        answer.get("broken", False),
        answer.get("derived", False),
    )


def result(answer: Answer) -> GraphResult:
    paths = (
        NodePath(p["uri"], tuple(p["uris"]), p["score"], tuple(p["why"]), p["snippet"], p.get("similarity"))
        for p in answer["paths"]
    )
    return GraphResult(tuple(map(node, answer["nodes"])), tuple(map(edge, answer["edges"])), tuple(paths))


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
    return Reached(
        answer["uri"],
        answer["type"],
        answer["name"],
        answer["cost"],
        answer.get("summary", ""),
        path,
        answer.get("stored", True),
    )


def cut(answer: Answer) -> Cut:
    return Cut(answer["limit"], answer["count"], answer.get("at", ""))


def context(answer: Answer) -> Context:
    items = (
        ContextItem(i["uri"], i["kind"], i["name"], i["why"], i.get("summary", ""), i.get("text", ""), "more" in i)
        for i in answer["items"]
    )
    return Context(tuple(items), tuple(answer["unmatched_paths"]), tuple(answer["changes"]))


def commit(answer: Answer) -> Commit:
    return Commit(
        answer["commit"],
        answer["at"],
        answer["author"],
        answer["message"],
        tuple(answer["nodes"]),
        answer.get("client", ""),
        answer.get("operation", ""),
        tuple(answer.get("diff", ())),
    )


def written(answer: Answer) -> Written:
    return Written(
        answer["commit"],
        {one["uri"]: one["version"] for one in answer["nodes"]},
        tuple(answer["created"]),
        tuple(answer.get("deleted", ())),
        tuple(answer["warnings"]),
        answer.get("repeated", False),
        answer.get("dry_run", False),
    )


def ingested(answer: Answer) -> Ingested:
    return Ingested(
        answer["kind"],
        answer["source"],
        dict(answer["counts"]),
        tuple(answer.get("nodes", ())),
        tuple(answer.get("trouble", ())),
        answer.get("job", ""),
        answer.get("state", "done") == "done",
        answer.get("dry_run", False),
    )


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
