"""This file is where YAML that a person wrote becomes values, by the core schema of YAML 1.2 and nothing beyond it.

No dates, no sexagesimal or underscored numbers, no `yes` and `no`; `010` is ten and `0o10` is eight. Duplicate keys,
keys that are not text and merge keys are refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from ruamel.yaml.events import Event, MappingStartEvent, ScalarEvent, SequenceStartEvent

from kgd.codec import guard
from kgd.codec.canonical import INTEGERS, KEY_CHARACTERS, UNSAFE_KEY
from kgd.errors import Invalid, Limit, Refused
from kgd.model.node import Json

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_DECIMAL = re.compile(r"[-+]?[0-9]+\Z").match
_OCTAL = re.compile(r"0o[0-7]+\Z").match
_HEX = re.compile(r"0x[0-9a-fA-F]+\Z").match
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z").match
_NOT_FINITE = re.compile(r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z").match


class Document(dict[str, Json]):
    """The top mapping of a file, and the line on which each of its keys stands."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, int] = {}


def read(data: bytes, at: str) -> Document:
    """The mapping in `data`, however it is written.

    Raises:
        Limit, Refused, Invalid: As `guard` says, or it is not a mapping, or a key occurs twice.
    """
    events = guard.events(guard.checked_text(data, at), at)
    first = next(events, None)
    if first is None:
        raise Invalid("the file is empty", at=at)
    if not isinstance(first, MappingStartEvent):
        raise Invalid("the file must be a mapping", at=_line(first, at), next="Write 'key: value' lines.")
    document = Document()
    _fill(document, events, at, document.lines)
    for _ in events:  # the guard has an opinion on what follows, such as a second document
        pass
    return document


def _fill(out: dict[str, Json], events: Iterator[Event], at: str, lines: dict[str, int] | None = None) -> None:
    for event in events:
        if not isinstance(event, ScalarEvent):
            if isinstance(event, MappingStartEvent | SequenceStartEvent):
                raise Refused("a key must be text", at=_line(event, at))
            return
        key = _key(event, at)
        if key in out:
            raise Refused("the same key is given twice", at=_line(event, at), next="Keep one of the two.")
        if lines is not None:
            lines[key] = event.start_mark.line + 1
        out[key] = _value(next(events), events, at)


def _value(event: Event, events: Iterator[Event], at: str) -> Json:
    if isinstance(event, ScalarEvent):
        return _scalar(event, at)
    if isinstance(event, MappingStartEvent):
        mapping: dict[str, Json] = {}
        _fill(mapping, events, at)
        return mapping
    sequence: list[Json] = []
    for item in events:
        if not isinstance(item, ScalarEvent | MappingStartEvent | SequenceStartEvent):
            break
        sequence.append(_value(item, events, at))
    return sequence


def _key(event: ScalarEvent, at: str) -> str:
    key: str = event.value
    if len(key) > KEY_CHARACTERS:
        raise Limit(f"a key has at most {KEY_CHARACTERS} characters", at=_line(event, at))
    if UNSAFE_KEY(key):
        raise Refused("a key may not hold control or direction characters", at=_line(event, at))
    if event.style is None and key == "<<":
        raise Refused("YAML merge keys are not allowed", at=_line(event, at), next="Write the values out.")
    if not isinstance(_scalar(event, at), str):
        raise Refused("a key must be text", at=_line(event, at), next="Put it in double quotes.")
    return key


def _scalar(event: ScalarEvent, at: str) -> Json:
    text: str = event.value
    if event.style is not None:
        if any("\ud800" <= c <= "\udfff" for c in text):
            raise Invalid("text with half of a surrogate pair cannot be stored", at=_line(event, at))
        return text
    if text in _NULL:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text[0] not in "+-.0123456789":
        return text
    return _number(text, event, at)


def _number(text: str, event: ScalarEvent, at: str) -> Json:
    base = 10 if _DECIMAL(text) else 8 if _OCTAL(text) else 16 if _HEX(text) else 0
    if base:
        value = int(text.replace("0o", "").replace("0x", ""), base) if len(text) < 40 else INTEGERS.stop
        if value not in INTEGERS:
            raise Invalid("a whole number must fit into 64 bits", at=_line(event, at), next="Put it in double quotes.")
        return value
    if _NOT_FINITE(text) or (_FLOAT(text) and not math.isfinite(float(text))):
        raise Invalid("a number must be finite", at=_line(event, at), next="Put it in double quotes.")
    return float(text) if _FLOAT(text) else text


def _line(event: Any, at: str) -> str:
    return guard.place(at, event.start_mark.line + 1)
