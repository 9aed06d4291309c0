"""Fields of a node: plain values, and one field read or set by its path.

A *field path* names a place in a node, as in conflicts and diffs: ``name``, ``data/owner``,
``relations/depends_on/concept:~1~1ws~1x/weight``. Parts are joined by ``/``, with ``~`` and ``/`` inside a part
written ``~0`` and ``~1`` (RFC 6901 without the leading slash).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kgd.errors import Invalid
from kgd.model.node import Json, Node, Relation, Source, default_type
from kgd.model.uri import Uri

CITES = "cites"
VALID = "valid"
"""Key of a node's data: the cited code."""
SCALARS = ("type", "name", "summary", "content")
FIELDS = ("uri", "type", "name", "summary", "aliases", "tags", "content", "source", "relations", "data")
"""All stored fields, in the order of the canonical file."""


def plain(node: Node) -> dict[str, Json]:
    """The node as JSON-like values in canonical field order, defaults omitted."""
    values = {
        "uri": str(node.uri),
        "type": node.type if node.type != default_type(node.uri) else "",
        "name": node.name,
        "summary": node.summary,
        "aliases": [str(alias) for alias in node.aliases],
        "tags": list(node.tags),
        "content": node.content,
        "source": plain_source(node.source),
        "relations": [plain_relation(relation) for relation in node.relations],
        "data": dict(node.data),
    }
    return {name: value for name, value in values.items() if value}


def plain_source(source: Source | None) -> Json:
    return {"type": source.type, "id": source.id} if source else None


def plain_relation(relation: Relation) -> dict[str, Json]:
    out: dict[str, Json] = {"type": relation.type, "target": str(relation.target)}
    if relation.weight != 1.0:
        out["weight"] = plain_weight(relation.weight)
    if relation.data:
        out["data"] = dict(relation.data)
    return out


def plain_weight(weight: float) -> int | float:
    """0 and 1 become whole numbers, so that a hand-written `weight: 0` is canonical."""
    return int(weight) if weight in (0.0, 1.0) else weight


def from_plain(values: Mapping[str, Any]) -> Node:
    """The inverse of `plain`. The input must have passed the codec's schema."""
    source = values.get("source")
    return Node(
        uri=Uri(values["uri"]),
        type=values.get("type", ""),
        name=values.get("name", ""),
        summary=values.get("summary", ""),
        content=values.get("content", ""),
        tags=tuple(values.get("tags", ())),
        data=values.get("data", {}),
        source=Source(source["type"], source["id"]) if source else None,
        relations=tuple(relation_from_plain(r) for r in values.get("relations", ())),
        aliases=tuple(Uri(alias) for alias in values.get("aliases", ())),
    )


def relation_from_plain(values: Mapping[str, Any]) -> Relation:
    return Relation(values["type"], Uri(values["target"]), values.get("weight", 1.0), values.get("data", {}))


def join(*parts: str) -> str:
    return "/".join(part.replace("~", "~0").replace("/", "~1") for part in parts)


def split(path: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")]


def field_of(node: Node | None, path: str) -> Json:
    """The plain value of one field, as in conflicts; None if it is absent.

    Raises:
        Invalid: There is no such field.
    """
    head, *rest = split(path)
    if node is None:
        return None
    if head in ("uri", *SCALARS) and not rest:
        return getattr(node, head) or None
    if head == "source" and not rest:
        return plain_source(node.source)
    if head in ("tags", "aliases") and not rest:
        return list(getattr(node, head)) or None
    if head == "data" and rest:
        return value_at(node.data, rest)
    if head == "relations" and len(rest) >= 2:
        relation = node.relation(rest[0], Uri(rest[1]))
        values = plain_relation(relation) if relation else {}
        if len(rest) == 2:
            return {key: values[key] for key in ("weight", "data") if key in values} if relation else None
        if relation and rest[2:] == ["weight"]:
            return plain_weight(relation.weight)
        if rest[2] == "data" and len(rest) > 3:
            return value_at(values.get("data", {}), rest[3:])
        if relation is None:
            return None
    raise Invalid(f"'{path[:80]}' is not a field of a node", at="fields")


def value_at(values: Json, path: list[str]) -> Json:
    """The value below these keys; None if there is none."""
    for key in path:
        values = values.get(key) if isinstance(values, Mapping) else None
    return values


def with_field(node: Node, path: str, value: Json) -> Node:
    """The node with one field set to a plain value; None clears it.

    Raises:
        Invalid: There is no such field, or the value does not fit it.
    """
    head, *rest = split(path)
    try:
        if head in SCALARS and not rest:
            changes: dict[str, Any] = {head: _text(value)}
            return replace(node, **changes)
        if head == "source" and not rest:
            return replace(node, source=Source(str(value["type"]), str(value["id"])) if value else None)
        if head == "tags" and not rest:
            return replace(node, tags=tuple(value or ()))
        if head == "aliases" and not rest:
            return replace(node, aliases=tuple(value or ()))
        if head == "data" and rest:
            return replace(node, data=with_value(node.data, rest, value))
        if head == "relations" and len(rest) >= 2:
            return _with_relation_field(node, rest[0], Uri(rest[1]), rest[2:], value)
    except (TypeError, KeyError, AttributeError):
        raise Invalid(f"the value does not fit the field '{path[:80]}'", at=path[:80]) from None
    raise Invalid(f"'{path[:80]}' is not a field of a node", at="fields")


def _text(value: Json) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError
    return value


def with_value(values: Mapping[str, Json], path: list[str], value: Json) -> dict[str, Json]:
    """The mapping with one value below these keys; None removes it."""
    head, *rest = path
    out = dict(values)
    if rest:
        inner = out.get(head)
        out[head] = with_value(inner if isinstance(inner, Mapping) else {}, rest, value)
    elif value is None:
        out.pop(head, None)
    else:
        out[head] = value
    return out


def _with_relation_field(node: Node, type: str, target: Uri, rest: list[str], value: Json) -> Node:
    present = node.relation(type, target)
    if not rest:
        others = tuple(r for r in node.relations if r.key != (type, target))
        if value is None:
            return replace(node, relations=others)
        return replace(node, relations=(*others, relation_from_plain({"type": type, "target": target, **value})))
    relation = present or Relation(type, target)
    if rest[0] == "weight":
        return node.with_relation(replace(relation, weight=1.0 if value is None else value))
    if rest[0] == "data" and len(rest) > 1:
        return node.with_relation(replace(relation, data=with_value(relation.data, rest[1:], value)))
    raise Invalid(f"'{'/'.join(rest)[:80]}' is not a field of a relation", at="fields")
