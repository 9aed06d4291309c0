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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from kgd.errors import Invalid

_SKIP = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.S)
_STRING_OR_EXTRA = re.compile(
    r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|,(?=(?:[ \t\r\n]+|//[^\n]*|(?>/\*.*?\*/))*+[}\]])', re.S
)
"""Matches a string, a comment or a trailing comma; plain JSON has only the first."""
_LINE_ENDS = re.compile(r"[ \t]*(?:/\*(?:[^*\r\n]|\*(?!/))*\*/[ \t]*)*(?://[^\r\n]*)?\r?\n")
_NEWLINE = re.compile(r"\r?\n")
_DECODER = json.JSONDecoder()

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
    return _value(_plain(text), _skip(text, 0))


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
        at = _value(_plain(text), member.value.start)
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


@lru_cache(maxsize=4)
def _plain(text: str) -> str:
    """The text as plain JSON with the same positions: spaces replace comments and trailing commas."""
    for read in (str, partial(_STRING_OR_EXTRA.sub, _spaces)):  # most files, some with many megabytes, are plain
        plain = read(text)
        try:
            json.loads(plain)
            return plain
        except json.JSONDecodeError as error:
            reason = _wrong(text, error.pos, f"{error.msg[:1].lower()}{error.msg[1:]}")
        except RecursionError:
            reason = _wrong(text, 0, "it is nested too deeply")
    raise reason


def _spaces(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith('"') else " " * len(found[0])


def _value(plain: str, at: int) -> Value:
    """The value at a position, with its members or elements."""
    data, end = _DECODER.raw_decode(plain, at)
    return Value(at, end, data, tuple(_items(plain, at)) if isinstance(data, dict | list) else ())


def _items(plain: str, start: int) -> Iterator[Item]:
    at = _skip(plain, start + 1)
    while plain[at] not in "}]":
        key, begin = None, at
        if plain[start] == "{":
            key, end = _DECODER.raw_decode(plain, at)
            at = _skip(plain, _skip(plain, end) + 1)  # after the colon
        data, end = _DECODER.raw_decode(plain, at)
        yield Item(key, begin, Value(at, end, data))
        at = _skip(plain, end)
        if plain[at] == ",":
            at = _skip(plain, at + 1)


def _skip(text: str, at: int) -> int:
    found = _SKIP.match(text, at)
    return found.end() if found else at


def _expect(text: str, value: Value, kind: type, path: Path) -> None:
    if not isinstance(value.data, kind):
        what = "an object" if kind is dict else "a list"
        raise _wrong(text, value.start, f"{'.'.join(path) or 'the whole'} is not {what}")


def _wrong(text: str, at: int, what: str) -> Invalid:
    return Invalid(f"this is not the expected JSON: {what}", at=f"line {text.count(chr(10), 0, at) + 1}")
