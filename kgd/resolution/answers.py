"""This file is where a language model's answer is judged: a closed form, for one conflict, or a refusal with a reason.

An answer comes from a machine that has just read text of strangers. What it may do is therefore listed here, and
nothing else passes: choose among the versions there were, or write a value of the same kind that is no longer than the
versions together, leads nowhere they did not lead, and hides nothing they did not hide.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from kgd.errors import KgdError, Refused
from kgd.model.conflict import Conflict, canonical_json
from kgd.model.fields import SCALARS, split, with_field
from kgd.model.node import Json, Node
from kgd.resolution.prompts import SLACK, only_a_side, sides_of

OVERHEAD = 2_000
"""Characters of an answer beside its values."""
DEEPEST = 16

_FENCE = re.compile(r"```(?:json)?\s*\n(?P<inside>.*)\n\s*```", re.DOTALL)
_MARKERS = re.compile(r"^(?:<{7}|={7}|>{7}|\|{7})", re.MULTILINE)
_LINK = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"'`(){}\[\]|\\^]*[^\s<>\"'`(){}\[\]|\\^.,;:!?*_]")
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]*\w")
_HOST = re.compile(r"(?<![\w@])(?:www\.|//)[^\s<>\"'`()\[\]]+", re.IGNORECASE)
_TARGET = re.compile(r"\]\(\s*([^)\s]+)|\]\[([^\]]+)\]|^\s*\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
_MARKUP = re.compile(r"<\s*/?\s*[A-Za-z!?][^>]*>?")


def judge(conflict: Conflict, text: str) -> dict[str, Json]:
    """The value of each field of the conflict, as the answer has it.

    Raises:
        Refused: The answer is not one; says why, and quotes nothing of it.
    """
    given = _read(conflict, text)
    unknown = set(given) - set(conflict.fields)
    if unknown:
        raise Refused("the answer speaks of a field that is not in conflict")
    missing = sorted(set(conflict.fields) - set(given))
    if missing:
        raise Refused(f"the answer leaves the field '{missing[0][:60]}' undecided")
    return {field: _chosen(conflict, field, given[field]) for field in sorted(given)}


def _read(conflict: Conflict, text: str) -> Mapping[str, Any]:
    fenced = _FENCE.fullmatch(text.strip())
    text = fenced["inside"] if fenced else text
    room = sum(_weight(side) for field in conflict.fields.values() for side in (field.base, *field.sides))
    if len(text) > 2 * room + OVERHEAD:
        raise Refused("the answer is longer than all versions together")
    try:
        found = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        raise Refused("the answer is not one JSON object") from None
    if not isinstance(found, dict):
        raise Refused("the answer is not one JSON object")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Two values under one key: which of them counts would be up to the reader."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


def _no_constant(name: str) -> Json:
    raise ValueError(name)


def _chosen(conflict: Conflict, field: str, given: Any) -> Json:
    if not isinstance(given, dict) or len(given) != 1:
        raise Refused(f"'{field[:60]}' is answered by one of take and value, and nothing else")
    if "take" in given:
        return _taken(conflict, field, given["take"])
    if "value" not in given:
        raise Refused(f"'{field[:60]}' is answered by one of take and value, and nothing else")
    if only_a_side(field):
        raise Refused(f"'{field[:60]}' can only be one of its versions")
    value = given["value"]
    _check_value(conflict, field, value)
    return value


def _taken(conflict: Conflict, field: str, letter: Any) -> Json:
    versions = sides_of(conflict, field)
    if split(field)[0] not in ("uri", "type", "source"):
        versions["base"] = conflict.fields[field].base
    if not isinstance(letter, str) or letter not in versions:
        raise Refused(f"'{field[:60]}' has no such version")
    return versions[letter]


def _check_value(conflict: Conflict, field: str, value: Json) -> None:
    sides = [side for side in conflict.fields[field].sides if side is not None]
    if value is None:
        raise Refused(f"'{field[:60]}' is emptied by taking the version that is empty, not by a value")
    if _kind(value) not in {_kind(side) for side in sides}:
        raise Refused(f"the value of '{field[:60]}' is of another kind than its versions")
    if _weight(value) > sum(_weight(side) for side in sides) + SLACK:
        raise Refused(f"the value of '{field[:60]}' is longer than its versions together")
    known = "\n".join(text for side in sides for text in _texts(side))
    links, seen, keys = _links(known), set(known), {key for side in sides for key in _keys(side)}
    if not set(_keys(value)) <= keys:
        raise Refused(f"the value of '{field[:60]}' has a key that no version has")
    for text in _texts(value):
        _check_text(field, text, links, seen, known)
    try:
        with_field(Node(conflict.uri), field, value)
    except KgdError:
        raise Refused(f"the value does not fit the field '{field[:60]}'") from None
    if split(field)[0] in SCALARS and not str(value).strip():
        raise Refused(f"'{field[:60]}' is emptied by taking the version that is empty, not by a value")


def _check_text(field: str, text: str, links: set[str], seen: set[str], known: str) -> None:
    if _MARKERS.search(text):
        raise Refused(f"the value of '{field[:60]}' holds marks of an unfinished merge")
    if any(c not in seen and c not in "\n\t" and not c.isprintable() for c in text):
        raise Refused(f"the value of '{field[:60]}' hides characters that no version has")
    if not _links(text) <= links:
        raise Refused(f"the value of '{field[:60]}' leads somewhere that no version leads")
    if any(tag not in known for tag in _MARKUP.findall(text)):
        raise Refused(f"the value of '{field[:60]}' has markup that no version has")


def _links(text: str) -> set[str]:
    """Everything in a text that a reader or a program might follow; words before a colon are no scheme of anything."""
    found = {link for link in _LINK.findall(text) if _leads(link)}
    found |= set(_HOST.findall(text)) | set(_ADDRESS.findall(text))
    return found | {part for parts in _TARGET.findall(text) for part in parts if part}


def _leads(link: str) -> bool:
    scheme, _, rest = link.partition(":")
    return rest.startswith("//") or scheme.lower() in ("javascript", "data", "mailto", "vbscript", "file", "tel", "ssh")


def _kind(value: Json) -> str:
    if isinstance(value, bool):
        return "truth"
    for kind, name in ((str, "text"), (int | float, "number"), (list, "list"), (dict, "map")):
        if isinstance(value, kind):
            return name
    return "nothing"


def _weight(value: Json) -> int:
    return len(value) if isinstance(value, str) else len(canonical_json(value))


def _texts(value: Json, depth: int = 0) -> Iterator[str]:
    """Every string in a value, keys included."""
    if depth > DEEPEST:
        raise Refused("the answer is nested too deeply")
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _texts(item, depth + 1)


def _keys(value: Json, depth: int = 0) -> Iterator[str]:
    if depth > DEEPEST:
        raise Refused("the answer is nested too deeply")
    if isinstance(value, list):
        for item in value:
            yield from _keys(item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _keys(item, depth + 1)
