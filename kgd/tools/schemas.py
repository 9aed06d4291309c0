"""JSON schemas in the short form that tools advertise.

Clients pay for every character in each conversation, and titles, `$defs` and "or null" are useless to an agent. A short
schema accepts every valid value, and some invalid values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter


def input_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a tool's arguments: references inlined, titles and nulls left out, no extra properties.

    `workspace`, which most tools have, is the last parameter.
    """
    schema = model.model_json_schema()
    if "workspace" in (properties := schema.get("properties", {})):
        properties["workspace"] = properties.pop("workspace")
    return _short(schema)


def brief_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a tool's arguments for `tools/list`.

    Leaves out bounds, which refusals explain, and defaults that are zero, false or the first of an enumeration.
    """
    brief = _brief(input_schema(model))
    assert isinstance(brief, dict)
    return brief


def output_schema(result: Any) -> dict[str, Any]:
    """The schema of a tool's answer, one level deep.

    Clients validate each answer against this schema in pure Python. For 100 nodes, a deep schema took several
    milliseconds, more than the call itself. `describe` documents the full shape.
    """
    full = full_schema(result)
    properties = {name: _shallow(schema) for name, schema in full.get("properties", {}).items()}
    return {"type": "object", "properties": {**properties, "error": _ERROR}}


OBJECT = {"type": "object"}
"""Output schema of kgd's own tools. Hosts show models no more than this; docs/mcp.md lists the fields."""

_ERROR = {"type": "object", "description": "replaces all other fields if the call is refused"}
"""No field is required: some clients also validate refusals against the schema, and the SDK omits top-level nulls over
HTTP.
"""


def full_schema(result: Any) -> dict[str, Any]:
    """The whole schema of an answer, for documentation and for tests that check every field."""
    return _short(TypeAdapter(result).json_schema(mode="serialization"), keep_null=True)


def _brief(value: Any) -> Any:
    if isinstance(value, list):
        return [_brief(item) for item in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for key, item in value.items():
        if key == "properties":
            out[key] = {name: _brief(schema) for name, schema in item.items()}
        elif key == "default" and (not item or item == value.get("enum", [None])[0]):
            continue
        elif key not in ("minimum", "maximum") and (key, item) != ("additionalProperties", True):
            out[key] = _brief(item)
    return out


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
    """Keep null in the schemas of answers. For an argument, null means the same as omission."""

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


_NOISE = frozenset({"maxLength", "minLength", "maxItems", "minItems", "discriminator", "propertyNames"})
"""Keywords to leave out: refusals enforce and explain them, and they cost more than they help."""


def _without_null(value: dict[str, Any]) -> dict[str, Any]:
    arms = [arm for arm in value["anyOf"] if arm != {"type": "null"}]
    rest = {key: item for key, item in value.items() if key != "anyOf"}
    return {**arms[0], **rest} if len(arms) == 1 else {**rest, "anyOf": arms}


def _nullable(value: dict[str, Any]) -> dict[str, Any]:
    """``{"type": ["string", "null"]}`` where that is equivalent."""
    arms = [arm for arm in value["anyOf"] if arm != {"type": "null"}]
    if len(arms) == 1 and len(arms) < len(value["anyOf"]) and set(arms[0]) == {"type"}:
        return {**{key: item for key, item in value.items() if key != "anyOf"}, "type": [arms[0]["type"], "null"]}
    return value
