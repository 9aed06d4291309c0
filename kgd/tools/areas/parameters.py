"""Parameters of area tools: JSON arrays, lists of paths, and texts with size limits."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson
from pydantic import ConfigDict

from kgd.areas.patterns import check_pattern
from kgd.errors import Invalid, InvariantViolation
from kgd.tools.parameters import Params, refuse_unseen
from kgd.workspace.writing.area_bounds import MAX_KNOWLEDGE, MAX_PATTERNS, MAX_RELATED

_HALF = re.compile("[\ud800-\udfff]").search
MAX_NAME = 255
MAX_SUMMARY = 4 * 1024
MAX_REASON = 4 * 1024
"""Bytes; characters for a name."""
MAX_PATHS = 10_000
MAX_QUERY = 2_000


class AreaParams(Params):
    """Arguments of an area tool. Texts that are too long are refused by the specification's own bounds; this one only
    has them looked through for halves of characters."""

    model_config = ConfigDict(str_max_length=100_000_000)


def only(params: Params, operation: str, allowed: Collection[str]) -> None:
    """Refuse a parameter that has no meaning in this operation. Null, an empty text and the default count as left out.

    Raises:
        Invalid: Names the first such parameter.
    """
    for name, field in type(params).model_fields.items():
        if name not in allowed and getattr(params, name) not in (None, "", field.default):
            raise Invalid(f"'{name}' means nothing for {operation}", at=name, next="Leave it out.")


def needed(params: Params, operation: str, names: Sequence[str]) -> None:
    """Refuse a call without one of these parameters.

    Raises:
        Invalid: Names the first missing parameter.
    """
    for name in names:
        if getattr(params, name) is None:
            raise Invalid(f"'{name}' is required to {operation}", at=name)


def name(text: str) -> str:
    """A name, trimmed: one line that is not empty.

    Raises:
        Invalid: The name is empty or too long, or has invisible characters.
    """
    text = text.strip()
    if not text:
        raise Invalid("a name is not empty", at="name")
    if len(text) > MAX_NAME:
        raise Invalid(f"a name has at most {MAX_NAME} characters, this one has {len(text)}", at="name")
    refuse_unseen(text, "name")
    return text


def knowledge(text: str) -> str:
    """Knowledge, trimmed."""
    return bounded(text, MAX_KNOWLEDGE, "knowledge", "Keep what is not in the code; put the rest into another atom.")


def summary(text: str) -> str:
    """The description of a change and its reason, trimmed."""
    text = bounded(text, MAX_SUMMARY, "summary", "Say what changed and why, in a few sentences.")
    if not text:
        raise Invalid("a summary is not empty", at="summary", next="Say what changed and why.")
    return text


def bounded(text: str, most: int, at: str, advice: str = "") -> str:
    """The text without blanks at its ends.

    Raises:
        Invalid: The text has more than `most` bytes, or invisible characters.
    """
    text = text.strip()
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > most:
        raise Invalid(f"{at} has at most {most // 1024} KB, this one has {size} bytes", at=at, next=advice)
    refuse_unseen(text, at, lines=True)
    return text


def patterns(value: Any) -> list[str]:
    """The path patterns of an atom in their stored form, without repeats.

    Raises:
        Invalid: The value is no array of texts or has too many, or one of them is no pattern.
        InvariantViolation: The array is empty.
    """
    given = json_array(value, "paths", '["src/pages/**"]')
    if not given:
        raise InvariantViolation(
            "an atom without paths has no boundary", at="paths", next="Give at least one pattern, such as src/pages/**."
        )
    if len(given) > MAX_PATTERNS:
        raise Invalid(
            f"an atom has at most {MAX_PATTERNS} patterns, these are {len(given)}", at="paths",
            next="Use wider patterns, or make two atoms of it.",
        )  # fmt: skip
    found: dict[str, None] = {}
    for number, text in enumerate(given):
        if not isinstance(text, str):
            raise Invalid("a pattern is a text", at=f"paths[{number}]")
        found[check_pattern(text, f"paths[{number}]")] = None
    return list(found)


def related(value: Any, kind: str, at: str) -> list[tuple[str, str]]:
    """Pairs of id and reason, in their order.

    Raises:
        Invalid: The value is no array of such pairs, or has too many.
    """
    key = f"{kind}Id"
    given = json_array(value, at, f'[{{"{key}": "...", "reason": "..."}}]')
    if len(given) > MAX_RELATED:
        raise Invalid(f"{at} has at most {MAX_RELATED} entries, these are {len(given)}", at=at)
    pairs = []
    for number, one in enumerate(given):
        place = f"{at}[{number}]"
        if not isinstance(one, Mapping) or not isinstance(one.get(key), str):
            raise Invalid(f"an entry is an object with {key} and reason", at=place)
        unknown = sorted(set(one) - {key, "reason", "name"})  # `context` answers have a name beside them
        if unknown:
            raise Invalid(f"there is no field '{str(unknown[0])[:60]}' here", at=place, next=f"Known: {key}, reason.")
        reason = one.get("reason") or ""
        if not isinstance(reason, str):
            raise Invalid("a reason is a text", at=f"{place}.reason")
        pairs.append((one[key], bounded(reason, MAX_REASON, f"{place}.reason")))
    return pairs


def json_array(value: Any, at: str, example: str) -> list[Any]:
    """A list, or the list in a JSON text.

    Raises:
        Invalid: The value is neither.
    """
    if isinstance(value, str):
        try:
            value = orjson.loads(value)
        except orjson.JSONDecodeError as error:
            raise Invalid(
                f"{at} is no JSON array: {str(error)[:80]}", at=at, next=f"Send for example {example}."
            ) from None
    if not isinstance(value, list):
        raise Invalid(f"{at} is a JSON array", at=at, next=f"Send for example {example}.")
    return value


def requested_paths(value: Any) -> list[str]:
    """The paths of a context question, from a list, the JSON text of one, or a text separated by commas or newlines.

    Raises:
        Invalid: The value has no paths or too many, or one is no text.
    """
    if isinstance(value, str):
        listed = value.lstrip().startswith("[") and _listed(value)
        value = listed or re.split(r"[,\n]", value)
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise Invalid("paths are texts, separated by commas", at="paths")
    if any(_HALF(one) for one in value):
        raise Invalid("a path cannot hold half of a character", at="paths")
    found = list(dict.fromkeys(path for one in value if (path := one.strip())))
    if not found:
        raise Invalid("context needs the paths that it is about", at="paths", next="Give them separated by commas.")
    if len(found) > MAX_PATHS:
        raise Invalid(f"at most {MAX_PATHS} paths are looked up at once", at="paths", next="Ask in several calls.")
    return found


def _listed(text: str) -> list[Any] | None:
    """The list in a JSON text; None for any other text, such as the file name ``[id].tsx``."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, list) else None
