"""Fields of a node: plain values, and one field read or set by its path.

A *field path* names a place in a node, as in conflicts and diffs: ``name``, ``data/owner``,
``relations/depends_on/concept:~1~1ws~1x/weight``. Parts are joined by ``/``, with ``~`` and ``/`` inside a part
written ``~0`` and ``~1`` (RFC 6901 without the leading slash).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from kgd.errors import Invalid
from kgd.model.node import (
    FIELDS,
    RELATION_FIELDS,
    RESERVED,
    RESERVED_PREFIX,
    SOURCE_FIELDS,
    Json,
    Node,
    Relation,
    Source,
    default_type,
)
from kgd.model.uri import Uri

CITES = "cites"
VALID = "valid"
"""Key of a node's data: the cited code."""
SCALARS = ("type", "name", "summary", "content")
LIKE_A_FIELD = 0.8
"""Similarity from which an unknown key is taken for a misspelt field. Swapped letters count too (`nmae`); a word of its
own such as `date` does not."""


def plain(node: Node) -> dict[str, Json]:
    """The node as JSON-like values in canonical field order, defaults omitted; unknown keys follow, sorted."""
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
    return {name: value for name, value in values.items() if value} | in_order(node.others)


def in_order(others: Mapping[str, Json]) -> dict[str, Json]:
    return {key: others[key] for key in sorted(others)}


def others_in(values: Mapping[str, Json], known: Collection[str]) -> dict[str, Json]:
    """The unknown keys of a mapping."""
    return {key: value for key, value in values.items() if key not in known}


def is_other(name: str) -> bool:
    """Whether a field path names an unknown key of a node."""
    if "/" in name:
        return False
    (key,) = split(name)
    return key not in FIELDS and key not in RESERVED and not key.startswith(RESERVED_PREFIX)


def plain_source(source: Source | None) -> Json:
    return {"type": source.type, "id": source.id} | in_order(source.others) if source else None


def source_from_plain(values: Json) -> Source | None:
    """The inverse of `plain_source`."""
    return Source(values["type"], values["id"], others_in(values, SOURCE_FIELDS)) if values else None


def plain_relation(relation: Relation) -> dict[str, Json]:
    out: dict[str, Json] = {"type": relation.type, "target": str(relation.target)}
    if relation.weight != 1.0:
        out["weight"] = plain_weight(relation.weight)
    if relation.data:
        out["data"] = dict(relation.data)
    return out | in_order(relation.others)


def plain_weight(weight: float) -> int | float:
    """0 and 1 become whole numbers, so that a hand-written `weight: 0` is canonical."""
    return int(weight) if weight in (0.0, 1.0) else weight


def from_plain(values: Mapping[str, Any]) -> Node:
    """The inverse of `plain`. The input must have passed the codec's schema."""
    return Node(
        uri=Uri(values["uri"]),
        type=values.get("type", ""),
        name=values.get("name", ""),
        summary=values.get("summary", ""),
        content=values.get("content", ""),
        tags=tuple(values.get("tags", ())),
        data=values.get("data", {}),
        source=source_from_plain(values.get("source")),
        relations=tuple(relation_from_plain(r) for r in values.get("relations", ())),
        aliases=tuple(Uri(alias) for alias in values.get("aliases", ())),
        others=others_in(values, FIELDS),
    )


def relation_from_plain(values: Mapping[str, Any]) -> Relation:
    weight, others = values.get("weight", 1.0), others_in(values, RELATION_FIELDS)
    return Relation(values["type"], Uri(values["target"]), weight, values.get("data", {}), others)


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
            return {key: values[key] for key in values if key not in ("type", "target")} if relation else None
        if relation and rest[2:] == ["weight"]:
            return plain_weight(relation.weight)
        if rest[2] == "data" and len(rest) > 3:
            return value_at(values.get("data", {}), rest[3:])
        if relation is None:
            return None
        if len(rest) == 3 and rest[2] not in RELATION_FIELDS:
            return relation.others.get(rest[2])
    if is_other(path):
        return node.others.get(head)
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
            return replace(node, source=_source(value))
        if head == "tags" and not rest:
            return replace(node, tags=tuple(value or ()))
        if head == "aliases" and not rest:
            return replace(node, aliases=tuple(value or ()))
        if head == "data" and rest:
            return replace(node, data=with_value(node.data, rest, value))
        if head == "relations" and len(rest) >= 2:
            return _with_relation_field(node, rest[0], Uri(rest[1]), rest[2:], value)
        if is_other(path):
            return replace(node, others=with_value(node.others, [head], value))
    except (TypeError, KeyError, AttributeError):
        raise Invalid(f"the value does not fit the field '{path[:80]}'", at=path[:80]) from None
    raise Invalid(f"'{path[:80]}' is not a field of a node", at="fields")


def _source(value: Json) -> Source | None:
    found = source_from_plain(value)
    return replace(found, type=str(found.type), id=str(found.id)) if found else None


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
    if len(rest) == 1 and rest[0] not in RELATION_FIELDS:
        return node.with_relation(replace(relation, others=with_value(relation.others, rest, value)))
    raise Invalid(f"'{'/'.join(rest)[:80]}' is not a field of a relation", at="fields")


def misspelt(node: Node) -> Iterator[str]:
    """A sentence for each unknown key that is probably a misspelt field."""
    yield from misspelt_keys(node.others, FIELDS)
    yield from misspelt_keys(node.source.others if node.source else {}, SOURCE_FIELDS)
    for relation in node.relations:
        yield from misspelt_keys(relation.others, RELATION_FIELDS)


def misspelt_keys(others: Mapping[str, Json], known: Collection[str]) -> Iterator[str]:
    """The same for the unknown keys of one mapping."""
    for key in others:
        from difflib import get_close_matches  # only needed to be helpful

        close = get_close_matches(key.lower(), known, 1, LIKE_A_FIELD)
        if close := close or [name for name in known if sorted(name) == sorted(key.lower())]:
            yield f"the key '{key[:60]}' has no meaning; did you mean '{close[0]}'?"
