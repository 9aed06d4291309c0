"""JSON schemas in the short form that tools advertise.

A client pays for every character in each conversation: titles, `$defs` and "or null" tell an agent nothing. Every
value that fits the schema is accepted; some others are accepted too.
"""

from __future__ import annotations

from dataclasses import dataclass
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
    full = full_schema(result)
    properties = {name: _shallow(schema) for name, schema in full.get("properties", {}).items()}
    return {"type": "object", "properties": {**properties, "error": _ERROR}}


_ERROR = {"type": "object", "description": "instead of all else, when the call is refused"}
"""Nothing is required, because some clients also hold a refusal against the schema, and the SDK leaves out top-level
nulls over HTTP."""


def full_schema(result: Any) -> dict[str, Any]:
    """The whole schema of an answer, for documentation and for tests that check every field."""
    return _short(TypeAdapter(result).json_schema(mode="serialization"), keep_null=True)


def _shallow(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: schema[key] for key in ("type", "description") if key in schema}


def _short(schema: dict[str, Any], *, keep_null: bool = False) -> dict[str, Any]:
    definitions = schema.get("$defs", {})
    short = _Shortening(definitions, keep_null).of({key: item for key, item in schema.items() if key != "$defs"})
    assert isinstance(short, dict)
    return short


@dataclass(frozen=True, slots=True)
class _Shortening:
    definitions: dict[str, Any]
    keep_null: bool
    """An answer says where it may be null; for an argument null means the same as leaving it out."""

    def of(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.of(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "$ref" in value:
            target = self.definitions[value["$ref"].rsplit("/", 1)[1]]
            return self.of({**target, **{key: item for key, item in value.items() if key != "$ref"}})
        if "anyOf" in value:
            value = _nullable(value) if self.keep_null else _without_null(value)
        out: dict[str, Any] = {}
        for key, item in value.items():
            if key == "properties":
                out[key] = {name: self.of(schema) for name, schema in item.items()}
            elif key == "title" or (key == "default" and item in (None, [], {}, "")) or key in _NOISE:
                continue
            else:
                out[key] = self.of(item)
        return out


_NOISE = frozenset({"maxLength", "minLength", "maxItems", "minItems", "discriminator"})
"""Enforced and explained by the refusal; in a schema they cost more than they tell."""


def _without_null(value: dict[str, Any]) -> dict[str, Any]:
    arms = [arm for arm in value["anyOf"] if arm != {"type": "null"}]
    rest = {key: item for key, item in value.items() if key != "anyOf"}
    return {**arms[0], **rest} if len(arms) == 1 else {**rest, "anyOf": arms}


def _nullable(value: dict[str, Any]) -> dict[str, Any]:
    """``{"type": ["string", "null"]}`` where that says it all."""
    arms = [arm for arm in value["anyOf"] if arm != {"type": "null"}]
    if len(arms) == 1 and len(arms) < len(value["anyOf"]) and set(arms[0]) == {"type"}:
        return {**{key: item for key, item in value.items() if key != "anyOf"}, "type": [arms[0]["type"], "null"]}
    return value
