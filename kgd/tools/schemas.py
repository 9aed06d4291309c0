"""This file is where a model's JSON schema is brought into the short form that tools advertise.

A client pays for every character of it in each conversation: titles, `$defs` and "or null" carry nothing an agent
needs. What a schema asks for is always accepted; some of what it does not mention is accepted too.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, TypeAdapter


def input_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a tool's arguments: references inlined, titles and nulls left out, no extra properties."""
    return _short(model.model_json_schema())


def output_schema(result: Any) -> dict[str, Any]:
    """The schema of a tool's answer, one level deep.

    Clients validate each answer against it, in pure Python: a deep schema cost more than the call that it describes
    (100 nodes: several milliseconds). The full shape is in the reference that `describe` generates.
    """
    full = _short(TypeAdapter(result).json_schema())
    properties = {name: _shallow(schema) for name, schema in full.get("properties", {}).items()}
    return {"type": "object", "properties": properties, "required": full.get("required", [])}


def full_schema(result: Any) -> dict[str, Any]:
    """The whole schema of an answer, for documentation and for tests that check every field."""
    return _short(TypeAdapter(result).json_schema())


def _shallow(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: schema[key] for key in ("type", "description") if key in schema}


def _short(schema: dict[str, Any]) -> dict[str, Any]:
    definitions = schema.get("$defs", {})
    short = _shorten({key: value for key, value in schema.items() if key != "$defs"}, definitions)
    assert isinstance(short, dict)
    return short


def _shorten(value: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(value, list):
        return [_shorten(item, definitions) for item in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        target = definitions[value["$ref"].rsplit("/", 1)[1]]
        return _shorten({**target, **{k: v for k, v in value.items() if k != "$ref"}}, definitions)
    if "anyOf" in value:
        value = _without_null(value)
    out: dict[str, Any] = {}
    for key, item in value.items():
        if key == "properties":
            out[key] = {name: _shorten(schema, definitions) for name, schema in item.items()}
        elif key == "title" or (key == "default" and item in (None, [], {}, "")) or key in _NOISE:
            continue
        else:
            out[key] = _shorten(item, definitions)
    return out


_NOISE = frozenset({"maxLength", "minLength", "maxItems", "minItems", "discriminator"})
"""Enforced and explained by the refusal; in a schema they cost more than they tell."""


def _without_null(value: dict[str, Any]) -> dict[str, Any]:
    arms = [arm for arm in value["anyOf"] if arm != {"type": "null"}]
    rest = {key: item for key, item in value.items() if key != "anyOf"}
    return {**arms[0], **rest} if len(arms) == 1 else {**rest, "anyOf": arms}
