"""Answers of operations as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from kgd.api.values import (
    ChunkResult,
    Context,
    ContextItem,
    Edge,
    GraphResult,
    Ingested,
    Message,
    Node,
    NodePath,
    Reached,
    Source,
    Step,
    Value,
    Written,
)

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
