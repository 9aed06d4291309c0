"""Fields of a node: their plain values, and reading or setting a field by its path.

A *field path* names a place in a node, as in conflicts and diffs: ``name``, ``data/owner``,
``relations/depends_on/concept:~1~1ws~1x/weight``. Parts are joined by ``/``, with ``~`` and ``/`` inside a part
written ``~0`` and ``~1`` (RFC 6901 without the leading slash).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from kgd.errors import MALFORMED, Invalid
from kgd.model.node import (
    FIELDS,
    NODE_FIELDS,
    RELATION_FIELDS,
    RESERVED,
    RESERVED_PREFIX,
    SCALARS,
    SETS,
    SOURCE_FIELDS,
    Json,
    Node,
    Relation,
    Shape,
    Source,
    default_type,
)
from kgd.model.uri import Uri, parse

CITES = "cites"
VALID = "valid"
"""Keys of a node's data: the code that it cites, and the period in which it holds."""

LIKE_A_FIELD = 0.8
"""Similarity from which an unknown key is taken for a misspelt field, such as `nmae` with swapped letters, but not a
different word such as `date`."""


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
    return Source(str(values["type"]), str(values["id"]), others_in(values, SOURCE_FIELDS)) if values else None


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


def relation_from_plain(values: Mapping[str, Any]) -> Relation:
    weight, others = values.get("weight", 1.0), others_in(values, RELATION_FIELDS)
    return Relation(values["type"], parse(values["target"]), weight, values.get("data", {}), others)


def _text(value: Json) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError
    return value


def _texts(values: Json) -> tuple[str, ...]:
    if values is not None and not isinstance(values, list | tuple):
        raise TypeError
    return tuple(map(_text, values or ()))


_SHAPES: Mapping[Shape, tuple[Callable[[Any], Json], Callable[[Json], Any]]] = {
    Shape.URI: (str, parse),
    Shape.LABEL: (str, _text),
    Shape.LINE: (str, _text),
    Shape.TEXT: (str, _text),
    Shape.NAMES: (list, _texts),
    Shape.URIS: (list, lambda values: tuple(map(parse, _texts(values)))),
    Shape.SOURCE: (plain_source, source_from_plain),
    Shape.RELATIONS: (
        lambda relations: [*map(plain_relation, relations)],
        lambda values: tuple(map(relation_from_plain, values or ())),
    ),
    Shape.DATA: (dict, lambda values: dict(values or {})),
}
FORMS = {row.name: _SHAPES[row.shape] for row in NODE_FIELDS}
"""For each shape, the functions from a field's value to its plain value, and back."""
_WHOLE = frozenset(FORMS) - {"relations", "data"}
"""Fields that a field path names as a whole."""


def plain(node: Node) -> dict[str, Json]:
    """The node as JSON-like values in canonical field order, defaults omitted; unknown keys follow, sorted."""
    values = {name: write(value) for name, (write, _) in FORMS.items() if (value := getattr(node, name))}
    if node.type == default_type(node.uri):
        del values["type"]
    return values | in_order(node.others)


def from_plain(values: Mapping[str, Any]) -> Node:
    """The inverse of `plain`.

    Raises:
        Invalid, Limit: The values are not the fields of a node.
    """
    try:
        given = {name: read(values[name]) for name, (_, read) in FORMS.items() if name in values}
        return Node(**given, others=others_in(values, FIELDS))
    except MALFORMED:
        raise Invalid("these are not the fields of a node", at="fields") from None


def from_answer(answer: Mapping[str, Any]) -> Node:
    """The stored node of a tool's answer, whose other keys are facts about the node. Raises as `from_plain`."""
    values = {name: answer[name] for name in FIELDS if name in answer}
    if "source" in values:
        values["source"] = _flat(values["source"], SOURCE_FIELDS)
    values["relations"] = [_flat(one, RELATION_FIELDS) for one in values.get("relations", ())]
    return from_plain(values | answer.get("others", {}))


def _flat(answer: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """A relation or a source from an answer, in the notation of node files."""
    return {**{key: answer[key] for key in known if key in answer}, **answer.get("others", {})}


def join(*parts: str) -> str:
    return "/".join(part.replace("~", "~0").replace("/", "~1") for part in parts)


def split(path: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")]


def field_of(node: Node | None, path: str) -> Json:
    """The plain value of one field, as in conflicts; None if it is absent.

    Raises:
        Invalid: There is no such field."""
    head, *rest = split(path)
    if node is None:
        return None
    if head in _WHOLE and not rest:
        value = getattr(node, head)
        return FORMS[head][0](value) if value else None
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
    """The value below these keys; None if there is no value."""
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
        if head in _WHOLE - {"uri"} and not rest:
            changed: dict[str, Any] = {head: FORMS[head][1](value)}
            return replace(node, **changed)
        if head == "data" and rest:
            return replace(node, data=with_value(node.data, rest, value))
        if head == "relations" and len(rest) >= 2:
            return _with_relation_field(node, rest[0], Uri(rest[1]), rest[2:], value)
        if is_other(path):
            return replace(node, others=with_value(node.others, [head], value))
    except MALFORMED:
        form = "a text" if head in SCALARS else "a list of texts" if head in SETS else ""
        advice = f"Give {form}." if form else ""
        raise Invalid(f"the value does not fit the field '{path[:80]}'", at=path[:80], next=advice) from None
    raise Invalid(f"'{path[:80]}' is not a field of a node", at="fields")


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
    """Like `misspelt`, for the unknown keys of one mapping."""
    if not others:
        return
    from difflib import get_close_matches  # needed only for this hint

    for key in others:
        close = get_close_matches(key.lower(), known, 1, LIKE_A_FIELD)
        if close := close or [name for name in known if sorted(name) == sorted(key.lower())]:
            yield f"the key '{key[:60]}' has no meaning; did you mean '{close[0]}'?"
