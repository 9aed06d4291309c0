"""Arguments of operations: lenient about lists, strict about everything else, with errors that name the place.

Agents send a list as a list, as one object, or as the JSON text of either; all three are accepted, and the schema
advertises the list. An unknown field is refused at every level, never dropped.

Tools advertise short schemas. Clients pay for every character in each conversation, and titles, `$defs` and "or null"
are useless to an agent. A short schema accepts every valid value, and some invalid values.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
)
from pydantic_core import ErrorDetails

from kgd.errors import Invalid, KgdError, Limit
from kgd.model.dates import Span, span_of
from kgd.model.node import UNSEEN

T = TypeVar("T")


SHARED = ("cursor", "workspace")
"""Parameters of many operations, listed after the others."""


class Params(BaseModel):
    """Parameters of one operation. Unknown fields are refused.

    Pydantic builds the validators at the first call, under a lock since 2.14. Building all of them at once would add a
    tenth to the daemon's start time.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, str_max_length=1_000_000, defer_build=True)

    @classmethod
    def refusal_of(cls, error: ValidationError) -> KgdError:
        """Convert pydantic's error to a KgdError."""
        return explain(error, cls)

    @classmethod
    def correction(cls, at: str) -> str:
        """The next step after a refusal of the parameter at this place; empty if the place is not a parameter."""
        parameter = cls.model_fields.get(re.split(r"[.\[]", at, maxsplit=1)[0])
        if parameter is None:
            return ""
        if parameter.is_required() or "." in at or "[" in at:
            return "Correct it and call again."
        default = parameter.get_default(call_default_factory=True)
        return f"Correct it, or leave it out{f' (default: {default})' if type(default) in (int, float) else ''}."


class WorkspaceParams(Params):
    """Parameters of an operation on one workspace; by default, other parameters or the caller's folder choose it."""

    workspace: str | None = None


class Paged(WorkspaceParams):
    """Parameters of an operation on one workspace whose answer may have more pages."""

    cursor: str | None = None


def read_many(value: Any) -> Any:
    """A list from a list, from one value, or from the JSON text of either."""
    if isinstance(value, str):
        parsed = _json_of(value)
        return parsed if isinstance(parsed, list) else [value if parsed is None else parsed]
    if isinstance(value, Mapping):
        return [value]
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    return value


def read_object(value: Any) -> Any:
    """An object, or the object in a JSON text."""
    parsed = _json_of(value) if isinstance(value, str) else None
    return parsed if isinstance(parsed, dict) else value


def _json_of(text: str) -> Any:
    if text.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


Many = Annotated[list[T], BeforeValidator(read_many)]
"""A list that may arrive as one value or as JSON text."""


def _spellings(types: list[str]) -> list[str]:
    """Relation types as given, and in upper and lower case."""
    return list(dict.fromkeys(one for type in types for one in (type, type.upper(), type.lower())))


EdgeTypes = Annotated[list[str], BeforeValidator(read_many), AfterValidator(_spellings)]
"""Relation types to follow, in any letter case: MENTIONS is derived, and people write `mentions`."""

JsonObject = Annotated[dict[str, Any], BeforeValidator(read_object)]
Environment = Annotated[dict[str, str], BeforeValidator(read_object)]
"""The environment of the user's process, by name."""


def read(model: type[Params], arguments: Mapping[str, Any] | None) -> Params:
    """The validated arguments.

    Raises:
        Invalid: Names the first wrong place, as ``changes[2].weight``, and the correct form.
        Limit: A text or list is longer than allowed.
    """
    try:
        return model.model_validate(arguments or {})
    except ValidationError as error:
        refusal = model.refusal_of(error)
    except KgdError as error:
        refusal = error
    refusal.next = refusal.next or model.correction(refusal.at)
    raise refusal from None


def explain(error: ValidationError, model: type[BaseModel]) -> KgdError:
    """Convert the first of pydantic's errors to a KgdError that quotes at most a short excerpt of the value.

    If a field is unknown and another field is missing at the same place, the unknown field is reported: it is most
    likely a misspelling.
    """
    complaints = error.errors(include_url=False, include_context=True)
    first = complaints[0]
    if first["type"] == "missing":
        beside = (c for c in complaints if c["type"] == "extra_forbidden" and c["loc"][:-1] == first["loc"][:-1])
        first = next(beside, first)
    return explain_one(first, model)


def explain_one(first: ErrorDetails, model: type[BaseModel]) -> KgdError:
    """Convert one of pydantic's errors."""
    at, kind = place(first["loc"]), first["type"]
    if kind == "extra_forbidden":
        name = str(first["loc"][-1])
        return Invalid(f"there is no field '{name[:60]}' here", at=at, next=_known(name, first["loc"], model))
    if kind == "missing":
        name = str(first["loc"][-1])
        inner = _model_of(first["loc"], model)
        example = _inside(name, inner) if inner is not None else ""
        known = choices(inner, name) or _fields(inner) if inner is not None else ""
        return Invalid(f"'{name}' is required", at=at, next=example or _with(name, first["input"]) or known)
    if kind in ("string_too_long", "too_long"):
        return Limit(_sentence(first["msg"], at), at=at)
    if kind == "string_unicode":
        return Invalid("the text has an unpaired surrogate", at=at, next="Leave it out.")
    if kind == "too_short":
        return Invalid("at least one is required", at=at, next="Give one or more.")
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        wanted = _models_at(first["loc"], model)
        known = _fields(wanted[0]) if len(wanted) == 1 else "Give it as {...}."
        return Invalid("an object is expected", at=at, next=known)
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        tags = [tag for one in _models_at(first["loc"], model) for tag in _tags(one)]
        told = "upsert writes a node, or the given fields of an existing one." if "upsert" in tags else ""
        return Invalid(f"'op' must be one of {', '.join(tags)}", at=f"{at}.op", next=told)
    return Invalid(_sentence(first["msg"], at), at=at)


_UNSEEN_IN_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]").search


def refuse_unseen(text: str | None, at: str, *, lines: bool = False) -> None:
    """Refuse characters that break a line, control a terminal, or disguise a name.

    With `lines` the text may contain line ends and direction marks.

    Raises:
        Invalid: The text has such a character; the error's place is `at`.
    """
    if text and (_UNSEEN_IN_TEXT if lines else UNSEEN)(text):
        kind = "control characters" if lines else "line ends, control and direction characters"
        raise Invalid(f"`{at}` must not contain {kind}", at=at, next="Leave them out.")


def _in_lines(text: str, info: ValidationInfo) -> str:
    refuse_unseen(text, info.field_name or "", lines=True)
    return text


Message = Annotated[str, Field(max_length=4_000), AfterValidator(_in_lines)]
"""The message of a commit."""
RequestId = Annotated[str, Field(max_length=200)]
"""The caller's id of a request; a repeated request changes nothing."""


def place(location: Sequence[int | str]) -> str:
    """``changes[2].weight`` of pydantic's location; the tag of a union, which follows an index, is left out."""
    text = ""
    after_change = False
    for index, part in enumerate(location):
        if isinstance(part, int):
            text += f"[{part}]"
            after_change = location[index - 1] == "changes" if index else False
            continue
        if not after_change and "[" not in part:  # pydantic's name for a type in a union, such as literal['a','b']
            text += f".{part}" if text else str(part)
        after_change = False
    return text


def prefixed(error: KgdError, prefix: str) -> KgdError:
    """The same error, placed under `prefix`: ``weight`` becomes ``changes[2].weight``."""
    error.at = f"{prefix}.{error.at}" if error.at and not error.at.startswith(prefix) else prefix
    return error


def _known(name: str, location: Sequence[int | str], model: type[BaseModel]) -> str:
    inner = _model_of(location, model)
    if inner is None:
        return "Leave it out."
    close = difflib.get_close_matches(name, inner.model_fields, n=1)
    if close:
        return f"Did you mean '{close[0]}'?"
    return next(filter(None, (_inside(holder, inner, name) for holder in inner.model_fields)), "") or _fields(inner)


def _inside(holder: str, model: type[BaseModel], name: str = "") -> str:
    """An example of a list of operations, one of which has this field; empty if `holder` is not such a list."""
    for one in _models_at((holder,), model):
        if (tags := _tags(one)) and (not name or name in one.model_fields):
            shown = f'"{name}": ...' if name not in ("", "op") else "..."
            return f'Give it as {{"{holder}": [{{"op": "{tags[0]}", {shown}}}]}}.'
    return ""


def choices(model: type[BaseModel], name: str) -> str:
    """The values that a parameter may have, if they are listed; otherwise empty."""
    parameter = model.model_fields.get(name)
    if parameter is None or get_origin(parameter.annotation) is not Literal:
        return ""
    *first, last = (f"'{value}'" for value in get_args(parameter.annotation))
    return f"Give {', '.join(first)} or {last}." if first else f"Give {last}."


def _fields(model: type[BaseModel]) -> str:
    return f"Known: {', '.join(sorted(model.model_fields, key=SHARED.__contains__))}."


def _model_of(location: Sequence[int | str], model: type[BaseModel]) -> type[BaseModel] | None:
    """The model that should contain the last name of pydantic's location, if it is unambiguous."""
    inside = _models_at(location[:-1], model)
    return inside[0] if len(inside) == 1 else None


def _models_at(location: Sequence[int | str], model: type[BaseModel]) -> list[type[BaseModel]]:
    """The possible models of a value at pydantic's location."""
    inside = [model]
    for part in location:
        if isinstance(part, str):
            tagged = [one for one in inside if part in _tags(one)]
            fields = [one.model_fields[part].annotation for one in inside if part in one.model_fields]
            inside = tagged or [one for annotation in fields for one in _models(annotation)]
    return inside


def _tags(model: type[BaseModel]) -> tuple[Any, ...]:
    """The values of ``op`` for a change of this kind."""
    return get_args(model.model_fields["op"].annotation) if "op" in model.model_fields else ()


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [one for part in get_args(annotation) for one in _models(part)]


def _with(name: str, given: Any) -> str:
    """The relation with the most general type, ready to send; empty if another field is missing."""
    if name != "type" or not isinstance(given, Mapping) or not isinstance(given.get("target"), str):
        return ""
    shown = {key: given[key][:200] for key in ("op", "source", "target") if isinstance(given.get(key), str)}
    return f"Say how they are related, for example {orjson.dumps({**shown, 'type': 'related_to'}).decode()}."


def _sentence(message: str, at: str) -> str:
    """A message of pydantic in kgd's words, such as ```limit` must be at least 1``."""
    text = message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
    subject, should, rest = text.partition(" should ")
    if should:
        for theirs, ours in _OURS:
            rest = rest.replace(theirs, ours)
        named = re.search(r"(\w+)(?:\[\d+\])?$", at)
        it = f"`{named[1]}`" if named else "it" if subject == "Input" else f"the {subject.lower()}"
        text = f"{it} must {rest.partition(', unable to')[0]}"
    return text[:1].lower() + text[1:200]


_OURS = (("greater than or equal to", "at least"), ("less than or equal to", "at most"), (" after validation", ""))

When = str | None
"""The type of `since` and `until`. It has no description, since agents pay for every character of a schema."""
LONGEST = 100


def moment_of(text: str, now: datetime) -> int:
    """The Unix seconds at which a time in words or ISO 8601 begins.

    Days begin at midnight in the time zone of `now`. A weekday is the latest day of that name, today included. An ISO
    date or time without a zone is UTC, as everywhere in kgd.

    Raises:
        Invalid: The text is not a date or time; the error names the parameter `since`.
    """
    return _span(text, now, "since").begin


def period(since: str | None, until: str | None) -> tuple[int | None, int | None]:
    """The first and the last Unix second of a period; `until` includes the whole day, week, month or year it names.

    Raises:
        Invalid: `since` or `until` is not a date or time, or `until` is before `since`.
    """
    now = datetime.now().astimezone()
    begin = moment_of(since, now) if since is not None else None
    last = _span(until, now, "until").end - 1 if until is not None else None
    if begin is not None and last is not None and last < begin:
        raise Invalid("until is before since", at="until", next="Swap them.")
    return begin, last


def future(since: str | None) -> str:
    """A sentence that explains an empty answer if a valid `since` is in the future; otherwise empty."""
    now = datetime.now().astimezone()
    if not since or moment_of(since, now) <= now.timestamp():
        return ""
    return f"'{since}' is in the future, so nothing has happened since then."


def _span(text: str, now: datetime, at: str) -> Span:
    span = span_of(text, now) if len(text) <= LONGEST else None
    if span is None:
        raise Invalid(
            "this is not a date or time",
            at=at,
            next="Write monday, last week, 2 days ago, 2d, May 2026, 2026-11-20 or 2026-11-20T14:00:00Z.",
        )
    return span


def input_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The schema of a tool's arguments: references inlined, titles and nulls left out, no extra properties.

    The parameters in `SHARED`, which most tools have, are the last ones.
    """
    schema = model.model_json_schema()
    properties = schema.get("properties", {})
    properties |= {name: properties.pop(name) for name in SHARED if name in properties}
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
