"""Parameters of area tools: JSON arrays, lists of paths, and texts with size limits."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Self

import orjson
from pydantic import ConfigDict, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import ErrorDetails

from kgd.areas.patterns import check_pattern
from kgd.errors import Invalid, InvariantViolation, KgdError
from kgd.tools.parameters import WorkspaceParams, choices, explain_one, refuse_unseen
from kgd.workspace.writing.admission import MAX_KNOWLEDGE, MAX_PATTERNS, MAX_RELATED

_HALF = re.compile("[\ud800-\udfff]").search
MAX_NAME = 255
MAX_SUMMARY = 4 * 1024
MAX_REASON = 4 * 1024
"""In bytes, except for a name, whose limit is in characters."""
MAX_PATHS = 10_000
MAX_QUERY = 2_000
MOST_REFUSALS = 10
"""Largest number of unknown fields, and of wrong values, that a refusal names: a call may have thousands."""


Checks = Mapping[str, Callable[[Any], object]]
"""For each parameter, the function that reads it and raises if its value is wrong."""


@dataclass(frozen=True, slots=True)
class Use:
    """The required and the optional parameters of one operation."""

    needs: Sequence[str]
    takes: Collection[str]


class AreaParams(WorkspaceParams):
    """Arguments of an area tool. One refusal names all missing, unused and wrong arguments.

    The specification's own bounds refuse long texts; pydantic's bound only triggers the check for unpaired surrogates.
    """

    model_config = ConfigDict(str_max_length=100_000_000)
    checks: ClassVar[Checks] = {}

    @classmethod
    def use(cls, operation: str, given: Mapping[str, Any]) -> Use:
        """The parameters of an operation with these arguments."""
        raise NotImplementedError

    @classmethod
    def contradictions(cls, operation: str, given: Mapping[str, Any]) -> Iterator[KgdError]:
        """Refusals of arguments that are valid individually but not together. `given` contains no invalid arguments."""
        return iter(())

    @model_validator(mode="wrap")
    @classmethod
    def _check_all(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            params = handler(value)
        except ValidationError as error:
            complaints = error.errors(include_url=False, include_context=True)
            bad = {str(part) for one in complaints for part in one["loc"][:1]}
            defaults = {name: field.default for name, field in cls.model_fields.items()}
            given = {name: one for name, one in {**defaults, **value}.items() if name not in bad}
        else:
            complaints, given = [], dict(params)
        if refusals := list(cls._refusals(complaints, given)):
            raise _joined(refusals)
        return params

    @classmethod
    def _refusals(cls, complaints: Sequence[ErrorDetails], given: Mapping[str, Any]) -> Iterator[KgdError]:
        unknown = (one for one in complaints if one["type"] == "extra_forbidden")
        yield from (explain_one(one, cls) for one in islice(unknown, MOST_REFUSALS))
        operation = given.get("operation")
        use = cls.use(operation, given) if operation else Use((), cls.model_fields)
        lacking = [str(one["loc"][0]) for one in complaints if one["type"] == "missing"]
        lacking += [name for name in use.needs if name in given and given[name] is None]
        if lacking:
            what = _listed_names(lacking, "is required", "are required")
            always = [name for name, parameter in cls.model_fields.items() if parameter.is_required()]
            needs = f"Needed: {', '.join([*always, *use.needs])}." if operation else choices(cls, lacking[0])
            yield Invalid(
                f"{what} to {operation}" if operation else what,
                at=lacking[0],
                next=needs or f"Give {'them' if lacking[1:] else 'it'}.",
            )
        wrong = (one for one in complaints if one["type"] not in ("extra_forbidden", "missing"))
        yield from (explain_one(one, cls) for one in islice(wrong, MOST_REFUSALS))
        allowed = {*use.needs, *use.takes}
        idle = [name for name in cls.model_fields if name not in allowed and cls._is_given(name, given)]
        if idle:
            what = _listed_names(idle, "does not apply", "do not apply")
            yield Invalid(f"{what} to {operation}", at=idle[0], next=f"Leave {'them' if idle[1:] else 'it'} out.")
        for name, check in cls.checks.items():
            if name in allowed and given.get(name) is not None:
                try:
                    check(given[name])
                except KgdError as error:
                    yield error
        if operation:
            yield from cls.contradictions(operation, given)

    @classmethod
    def _is_given(cls, name: str, given: Mapping[str, Any]) -> bool:
        """Whether a parameter has a value. Null, an empty text and the default are treated as missing."""
        return given.get(name) not in (None, "", cls.model_fields[name].default)


def _listed_names(names: Sequence[str], one: str, several: str) -> str:
    *first, last = [f"'{name}'" for name in names]
    return f"{', '.join(first)} and {last} {several}" if first else f"{last} {one}"


def _joined(refusals: Sequence[KgdError]) -> KgdError:
    """Several refusals combined into one, with the place of the first refusal and the messages of all."""
    first = refusals[0]
    if len(refusals) == 1:
        return first
    said = [one.message if f"'{one.at}'" in one.message else f"{one.message} ({one.at})" for one in refusals]
    kind = type(first) if len({type(one) for one in refusals}) == 1 else Invalid
    steps = dict.fromkeys(one.next for one in refusals if one.next)
    return kind("; ".join(said), at=first.at, next=" ".join(steps))


def name(text: str) -> str:
    """A name, trimmed: one line that is not empty.

    Raises:
        Invalid: The name is empty or too long, or has invisible characters.
    """
    text = text.strip()
    if not text:
        raise Invalid("a name cannot be empty", at="name")
    if len(text) > MAX_NAME:
        raise Invalid(f"a name has at most {MAX_NAME} characters, this one has {len(text)}", at="name")
    refuse_unseen(text, "name")
    return text


def knowledge(text: str) -> str:
    """Knowledge, trimmed."""
    return bounded(
        text, MAX_KNOWLEDGE, "knowledge", "Keep only knowledge that the code lacks; move the rest to another atom."
    )


def summary(text: str) -> str:
    """The description of a change and its reason, trimmed."""
    text = bounded(text, MAX_SUMMARY, "summary", "Say what changed and why, in a few sentences.")
    if not text:
        raise Invalid("a summary cannot be empty", at="summary", next="Say what changed and why.")
    return text


def bounded(text: str, most: int, at: str, advice: str = "") -> str:
    """The text without surrounding whitespace.

    Raises:
        Invalid: The text has more than `most` bytes, or invisible characters.
    """
    text = text.strip()
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > most:
        raise Invalid(f"{at} has at most {most // 1024} KB, this one has {size} bytes", at=at, next=advice)
    refuse_unseen(text, at, lines=True)
    return text


def query(text: str) -> str:
    """The words of a search, trimmed."""
    text = text.strip()
    if len(text) > MAX_QUERY:
        raise Invalid(f"a query has at most {MAX_QUERY} characters, this one has {len(text)}", at="query")
    return text


def patterns(value: Any) -> list[str]:
    """The path patterns of an atom in their stored form, without repeats.

    Raises:
        Invalid: The value is not an array of texts, has too many texts, or has a text that is not a pattern.
        InvariantViolation: The array is empty.
    """
    given = json_array(value, "paths", '["src/pages/**"]')
    if not given:
        raise InvariantViolation(
            "an atom without paths has no boundary", at="paths", next="Give at least one pattern, such as src/pages/**."
        )
    if len(given) > MAX_PATTERNS:
        raise Invalid(
            f"an atom has at most {MAX_PATTERNS} patterns; {len(given)} were given",
            at="paths",
            next="Use wider patterns, or split it into two atoms.",
        )
    found: dict[str, None] = {}
    for number, text in enumerate(given):
        if not isinstance(text, str):
            raise Invalid("a pattern must be a string", at=f"paths[{number}]")
        found[check_pattern(text, f"paths[{number}]")] = None
    return list(found)


def related(value: Any, kind: str, at: str) -> list[tuple[str, str]]:
    """Pairs of id and reason, in their order.

    Raises:
        Invalid: The value is not an array of such pairs, or has too many pairs.
    """
    key = f"{kind}Id"
    given = json_array(value, at, f'[{{"{key}": "...", "reason": "..."}}]')
    if len(given) > MAX_RELATED:
        raise Invalid(f"{at} has at most {MAX_RELATED} entries; {len(given)} were given", at=at)
    pairs = []
    for number, one in enumerate(given):
        place = f"{at}[{number}]"
        if not isinstance(one, Mapping) or not isinstance(one.get(key), str):
            raise Invalid(f"an entry must be an object with {key} and reason", at=place)
        unknown = sorted(set(one) - {key, "reason", "name"})  # in answers of `context`, entries also have a name
        if unknown:
            raise Invalid(f"there is no field '{str(unknown[0])[:60]}' here", at=place, next=f"Known: {key}, reason.")
        reason = one.get("reason") or ""
        if not isinstance(reason, str):
            raise Invalid("a reason must be a string", at=f"{place}.reason")
        pairs.append((one[key], bounded(reason, MAX_REASON, f"{place}.reason")))
    return pairs


def json_array(value: Any, at: str, example: str) -> list[Any]:
    """The value if it is a list, or the list in a JSON text.

    Raises:
        Invalid: The value is neither.
    """
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError as error:
            raise Invalid(
                f"{at} is not a JSON array: {str(error)[:80]}", at=at, next=f"Send for example {example}."
            ) from None
    if not isinstance(value, list):
        raise Invalid(f"{at} must be a JSON array", at=at, next=f"Send for example {example}.")
    return value


def requested_paths(value: Any) -> list[str]:
    """The paths of a context question, from a list, a JSON array, or a text with commas or newlines between the paths.

    Raises:
        Invalid: The value has no paths, too many paths, or a path that is not text.
    """
    if isinstance(value, str):
        listed = value.lstrip().startswith("[") and _listed(value)
        value = listed or re.split(r"[,\n]", value)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise Invalid("paths must be strings, separated by commas", at="paths")
    if any(_HALF(one) for one in value):
        raise Invalid("a path cannot contain an unpaired surrogate", at="paths")
    found = list(dict.fromkeys(path for one in value if (path := one.strip())))
    if not found:
        raise Invalid("context needs at least one path", at="paths", next="Give paths, separated by commas.")
    if len(found) > MAX_PATHS:
        raise Invalid(f"one call looks up at most {MAX_PATHS} paths", at="paths", next="Ask in several calls.")
    return found


def _listed(text: str) -> list[Any] | None:
    """The list in a JSON text; None for any other text, such as the file name ``[id].tsx``."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, list) else None
