"""Check of a language model's answer to a conflict: a fixed form, or a refusal with a reason.

The answer was made from untrusted text, so only listed forms are accepted: a choice of one version, or a value of the
same kind that is not longer than all versions together, has no new links, and hides no characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kgd.errors import KgdError, Refused
from kgd.model.conflict import Conflict, canonical_json
from kgd.model.fenced_json import read_object
from kgd.model.fields import SCALARS, split, with_field
from kgd.model.node import Json, Node
from kgd.resolution.prompts import SLACK, only_a_side, sides_of

OVERHEAD = 2_000
"""Characters of an answer besides its values."""
DEEPEST = 16

_MARKERS = re.compile(r"^(?:<{7}|={7}|>{7}|\|{7})", re.MULTILINE)
_LINK = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"'`(){}\[\]|\\^]*[^\s<>\"'`(){}\[\]|\\^.,;:!?*_]")
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]*\w")
_HOST = re.compile(r"(?<![\w@])(?:www\.|//)[^\s<>\"'`()\[\]]+", re.IGNORECASE)
_TARGET = re.compile(r"\]\(\s*([^)\s]+)|\]\[([^\]]+)\]|^\s*\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
_MARKUP = re.compile(r"<\s*/?\s*[A-Za-z!?][^>]*>?")


def judge(conflict: Conflict, text: str) -> dict[str, Json]:
    """The value of each field of the conflict according to the answer.

    Raises:
        Refused: The answer is invalid; gives the reason without quoting the answer.
    """
    room = sum(_weight(side) for field in conflict.fields.values() for side in (field.base, *field.sides))
    given = read_object(text, 2 * room + OVERHEAD, "the answer is longer than all versions together")
    unknown = set(given) - set(conflict.fields)
    if unknown:
        raise Refused("the answer has a field that is not in conflict")
    missing = sorted(set(conflict.fields) - set(given))
    if missing:
        raise Refused(f"the answer leaves the field '{missing[0][:60]}' undecided")
    return {field: _chosen(conflict, field, given[field]) for field in sorted(given)}


def _chosen(conflict: Conflict, field: str, given: Any) -> Json:
    if not isinstance(given, dict) or len(given) != 1 or not set(given) <= {"take", "value"}:
        raise Refused(f"'{field[:60]}' needs either take or value, and nothing else")
    if "take" in given:
        return _taken(conflict, field, given["take"])
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
        raise Refused(f"'{field[:60]}' cannot be emptied by a value; take the empty version instead")
    if _kind(value) not in {_kind(side) for side in sides}:
        raise Refused(f"the value of '{field[:60]}' has another type than its versions")
    if _weight(value) > sum(_weight(side) for side in sides) + SLACK:
        raise Refused(f"the value of '{field[:60]}' is longer than its versions together")
    strings = [one for side in sides for one in _strings(side)]
    known = "\n".join(text for text, _ in strings)
    links, seen, keys = _links(known), set(known), {text for text, is_key in strings if is_key}
    found = list(_strings(value))
    if not {text for text, is_key in found if is_key} <= keys:
        raise Refused(f"the value of '{field[:60]}' has a key that no version has")
    for text, _ in found:
        _check_text(field, text, links, seen, known)
    try:
        with_field(Node(conflict.uri), field, value)
    except KgdError:
        raise Refused(f"the value does not fit the field '{field[:60]}'") from None
    if split(field)[0] in SCALARS and not str(value).strip():
        raise Refused(f"'{field[:60]}' cannot be emptied by a value; take the empty version instead")


def _check_text(field: str, text: str, links: set[str], seen: set[str], known: str) -> None:
    if _MARKERS.search(text):
        raise Refused(f"the value of '{field[:60]}' contains markers of an unfinished merge")
    if any(c not in seen and c not in "\n\t" and not c.isprintable() for c in text):
        raise Refused(f"the value of '{field[:60]}' has hidden characters that no version has")
    if not _links(text) <= links:
        raise Refused(f"the value of '{field[:60]}' has a link that no version has")
    if any(tag not in known for tag in _MARKUP.findall(text)):
        raise Refused(f"the value of '{field[:60]}' has markup that no version has")


def _links(text: str) -> set[str]:
    """All links in a text that a reader or a program might follow; other words before a colon are not schemes."""
    found = {link for link in _LINK.findall(text) if _leads(link)}
    found |= set(_HOST.findall(text)) | set(_ADDRESS.findall(text))
    return found | {part for parts in _TARGET.findall(text) for part in parts if part}


def _leads(link: str) -> bool:
    scheme, _, rest = link.partition(":")
    return rest.startswith("//") or scheme.lower() in ("javascript", "data", "mailto", "vbscript", "file", "tel", "ssh")


def _kind(value: Json) -> str:
    kinds = ((bool, "truth"), (str, "text"), (int | float, "number"), (list, "list"), (dict, "map"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "nothing")


def _weight(value: Json) -> int:
    return len(value) if isinstance(value, str) else len(canonical_json(value))


def _strings(value: Json, depth: int = 0) -> Iterator[tuple[str, bool]]:
    """Every string in a value, and whether it is a key."""
    if depth > DEEPEST:
        raise Refused("the answer is nested too deeply")
    if isinstance(value, str):
        yield value, False
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item, depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key, True
            yield from _strings(item, depth + 1)
