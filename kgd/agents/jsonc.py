"""Insertion and removal of one entry in a user's JSON file, without other changes.

Editors' configuration files have comments and trailing commas, so they are not parsed and serialised again: the text is
read with positions, and an entry becomes the first of its object or list, in one of three layouts:

- on a separate line, if the container's bracket ends its line;
- directly after the bracket otherwise: ``{"kgd": ..., "a": 1}``, or ``{ "kgd": ..., "a": 1 }``;
- in a new container, written as ``{ "kgd": ... }``. No entry in an existing empty container looks like that.

The text alone therefore shows the insertion, and `removed` restores the text before `inserted` byte for byte.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from kgd.errors import Invalid

DEEPEST = 200
AS_A_WHOLE = 3
"""Depth at which positions are no longer needed: entries are in containers above it."""
_SKIP = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.S)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_PLAIN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_LINE_ENDS = re.compile(r"[ \t]*(?:/\*(?:[^*\r\n]|\*(?!/))*\*/[ \t]*)*(?://[^\r\n]*)?\r?\n")
_NEWLINE = re.compile(r"\r?\n")


def _no_constant(name: str) -> None:
    raise ValueError(name)


_DECODER = json.JSONDecoder(parse_constant=_no_constant)

Path = Sequence[str]
"""Keys that lead from the root to a container."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value and its position. `items` are the members of an object, or the elements of a list."""

    start: int
    end: int
    data: Any
    items: tuple[Item, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """A member of an object, which starts with its key, or an element of a list, which has no key."""

    key: str | None
    start: int
    value: Value

    @property
    def end(self) -> int:
        return self.value.end


@lru_cache(maxsize=4)
def parse(text: str) -> Value:
    """The text as a value with positions; accepts comments and trailing commas.

    Raises:
        Invalid: The text is broken; `at` has the line.
    """
    value = _value(text, _skip(text, 0), 0)
    end = _skip(text, value.end)
    if end != len(text):
        raise _wrong(text, end, "there is text after the end")
    return value


def find(text: str, path: Path) -> Value | None:
    """The container at `path`, or None.

    Raises:
        Invalid: The text is broken, or a value on the path is not an object.
    """
    at = parse(text)
    for depth, key in enumerate(path):
        _expect(text, at, dict, path[:depth])
        member = next((one for one in reversed(at.items) if one.key == key), None)  # the last duplicate is used
        if member is None:
            return None
        at = member.value
    return at


def inserted(text: str, path: Path, entry: str) -> str:
    """The text with `entry` (``"key": value`` or a list element) as the first of its container.

    Raises:
        Invalid: The text is broken, or the value at `path` cannot contain the entry; `at` has the line.
    """
    kind: type = dict if entry.startswith('"') else list
    while (container := find(text, path)) is None:
        entry = f"{{ {entry} }}" if kind is dict else f"[ {entry} ]"
        entry, path, kind = f"{json.dumps(path[-1])}: {entry}", path[:-1], dict
    _expect(text, container, kind, path)
    at = container.start + 1
    if line := _LINE_ENDS.match(text, at):
        comma = "," if container.items else ""
        newline = "\r\n" if line[0].endswith("\r\n") else "\n"
        return f"{text[: line.end()]}{_indent(text, container)}{entry}{comma}{newline}{text[line.end() :]}"
    if not container.items:
        return text[:at] + entry + text[at:]
    return text[:at] + (f" {entry}," if text[at] == " " else f"{entry}, ") + text[at:]


def removed(text: str, path: Path, is_meant: Callable[[Item], bool]) -> str:
    """The text without the first matching entry, and without containers that were created for it.

    Raises:
        Invalid: The text is broken, or there is no such entry.
    """
    containers = [find(text, path[:depth]) for depth in range(len(path) + 1)]
    container = containers.pop()
    index = next((n for n, one in enumerate(container.items) if is_meant(one)), None) if container else None
    if container is None or index is None:
        raise Invalid("there is no such entry")
    keys = list(path)
    while containers and _was_made(text, container):
        key, inner = keys.pop(), container
        container = containers.pop()
        assert container is not None
        index = next(n for n, one in enumerate(container.items) if one.key == key and one.value.start == inner.start)
    return _without(text, container, index)


def _was_made(text: str, container: Value) -> bool:
    return len(container.items) == 1 and text[container.start + 1 : container.items[0].start] == " "


def _without(text: str, container: Value, index: int) -> str:
    item, is_last = container.items[index], index == len(container.items) - 1
    comma = _skip(text, item.end)
    has_comma = text[comma] == ","
    end = comma + 1 if has_comma else item.end
    first = container.start + 1
    before = text[first : item.start]
    if index == 0 and has_comma and comma == item.end and before == " ":
        return text[:first] + text[end:]
    if index == 0 and has_comma and comma == item.end and not before:
        return text[:first] + text[end + (text[end] == " ") :]
    if has_comma and comma != item.end:  # the user's comment is between entry and comma
        text = text[:comma] + text[comma + 1 :]
        end = item.end
    elif is_last and not has_comma and index:
        before_it = container.items[index - 1].end
        comma = _skip(text, before_it)
        text = text[:comma] + text[comma + 1 :]
        return _cut(text, item.start - 1, item.end - 1)
    return _cut(text, item.start, end)


def _cut(text: str, start: int, end: int) -> str:
    """The text without a span, and without the span's lines if they become empty."""
    line_start = text.rfind("\n", 0, start) + 1
    newline = _NEWLINE.match(text, end)
    if newline and not text[line_start:start].strip(" \t") and line_start:
        return text[:line_start] + text[newline.end() :]
    return text[:start] + text[end:]


def _indent(text: str, container: Value) -> str:
    """The indent of a container's entries: the indent of its first entry or, without entries, one step more than the
    indent of its own line."""
    if container.items:
        start = container.items[0].start
        line = text[text.rfind("\n", 0, start) + 1 : start]
        if not line.strip(" \t"):
            return line
    line = text[text.rfind("\n", 0, container.start) + 1 : container.start]
    own = line[: len(line) - len(line.lstrip(" \t"))]
    return own + ("\t" if own.startswith("\t") else "  ")


def _value(text: str, at: int, depth: int) -> Value:
    if depth > DEEPEST:
        raise _wrong(text, at, "it is nested too deeply")
    if depth >= AS_A_WHOLE and (whole := _whole(text, at)) is not None:
        return whole
    opening = text[at : at + 1]
    if opening == "{":
        return _members(text, at, depth)
    if opening == "[":
        return _elements(text, at, depth)
    if opening == '"':
        word, end = _word(text, at)
        return Value(at, end, word)
    plain = _PLAIN.match(text, at)
    if plain is None or text[plain.end() : plain.end() + 1].isalnum():
        raise _wrong(text, at, "a value is expected here" if at < len(text) else "it ends too early")
    return Value(at, plain.end(), json.loads(plain[0]))


def _whole(text: str, at: int) -> Value | None:
    """The value if it is plain JSON, read by the standard library for speed: some files have many megabytes."""
    try:
        data, end = _DECODER.raw_decode(text, at)
    except (ValueError, RecursionError):
        return None
    return Value(at, end, data)


def _members(text: str, start: int, depth: int) -> Value:
    items: list[Item] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != "}":
        key, end = _word(text, at)
        colon = _skip(text, end)
        if text[colon : colon + 1] != ":":
            raise _wrong(text, colon, "a colon is expected here")
        value = _value(text, _skip(text, colon + 1), depth + 1)
        items.append(Item(key, at, value))
        at = _separator(text, value.end, "}")
    return Value(start, at + 1, {one.key: one.value.data for one in items}, tuple(items))


def _elements(text: str, start: int, depth: int) -> Value:
    items: list[Item] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != "]":
        value = _value(text, at, depth + 1)
        items.append(Item(None, at, value))
        at = _separator(text, value.end, "]")
    return Value(start, at + 1, [one.value.data for one in items], tuple(items))


def _separator(text: str, end: int, closing: str) -> int:
    """The position of the next item, or of the container's end."""
    at = _skip(text, end)
    if text[at : at + 1] == ",":
        return _skip(text, at + 1)
    if text[at : at + 1] != closing:
        raise _wrong(text, at, "a comma or the end is expected here" if at < len(text) else "it ends too early")
    return at


def _word(text: str, at: int) -> tuple[str, int]:
    found = _STRING.match(text, at)
    try:
        if found is None:
            raise ValueError
        return str(json.loads(found[0])), found.end()
    except ValueError:
        raise _wrong(text, at, "a string is expected here" if at < len(text) else "it ends too early") from None


def _skip(text: str, at: int) -> int:
    found = _SKIP.match(text, at)
    return found.end() if found else at


def _expect(text: str, value: Value, kind: type, path: Path) -> None:
    if not isinstance(value.data, kind):
        what = "an object" if kind is dict else "a list"
        raise _wrong(text, value.start, f"{'.'.join(path) or 'the whole'} is not {what}")


def _wrong(text: str, at: int, what: str) -> Invalid:
    return Invalid(f"this is not the expected JSON: {what}", at=f"line {text.count(chr(10), 0, at) + 1}")
