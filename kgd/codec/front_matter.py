"""Front matter of Markdown files: finding it, reading it through the guard, and writing it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from kgd.codec import canonical
from kgd.codec.canonical import NotCanonical
from kgd.errors import KgdError
from kgd.model.node import Json

_HEAD = re.compile(r"\A(\ufeff?---[ \t]*\r?\n)(.*?)(^---[ \t]*(?:\r?\n|\Z))", re.S | re.M).match
_ENTRY = re.compile(r"([A-Za-z_][A-Za-z0-9_-]*):(?: (\S.*))?\Z").match
_ITEM = re.compile(r"( {0,4})- ([A-Za-z][\w /.-]*)\Z", re.ASCII).match
_FLOW = re.compile(r"\[[A-Za-z][\w/.-]*(?:, [A-Za-z][\w/.-]*)*\]\Z").match
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?\Z", re.ASCII).match
_LINE = re.compile(r"line (\d+)").search


@dataclass(frozen=True, slots=True)
class Page:
    """A file's text in two parts: `head` (unchanged, with its fences; may be empty) and `body`.

    `front` is None if the head cannot be read; `problem` and `line` (in the file) give the reason.
    """

    head: str
    body: str
    front: Mapping[str, Json] | None
    problem: str = ""
    line: int = 0


def read(text: str) -> Page:
    """Split a text. The guard checks each value of the front matter before constructing it."""
    found = _HEAD(text)
    if found is None:
        return Page("", text, {})
    head, inner, body = found.group(0), found.group(2).replace("\r\n", "\n"), text[found.end() :]
    if not inner.strip():
        return Page(head, body, {})
    try:
        return Page(head, body, _load(inner))
    except KgdError as error:
        line = _LINE(error.at)
        if line is None and (colon := re.search(r":(\d+)\Z", error.at)):
            line = colon
        return Page(head, body, None, error.message, 1 + int(line.group(1)) if line else 1)


def write(front: Mapping[str, Json]) -> str:
    """The head for these values, in their order; empty if there are none.

    Raises:
        Invalid, Limit: YAML cannot hold a value.
    """
    return f"---\n{canonical.dump(front)}---\n" if front else ""


def _load(inner: str) -> Mapping[str, Json]:
    plain = as_canonical(inner)
    try:
        if plain is not None:
            return canonical.load(plain)
    except NotCanonical:
        pass
    from kgd.codec import guard  # importing ruamel takes 60 ms, and parsing a millisecond per note

    return guard.read(inner.encode(), "")


def as_canonical(inner: str) -> str | None:
    """The front matter in canonical form, if each line has an obvious meaning; None for anything else.

    Nearly all front matter consists of keys, words, dates and short lists; reading ten thousand notes takes a tenth of
    the time in this way.
    """
    out: list[str] = []
    indent: str | None = None
    lines = inner.removesuffix("\n").split("\n")
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if item := _ITEM(line):
            if indent != item[1] or not canonical.is_plain(item[2]):
                return None
            indent = item[1]
            out.append(f"- {item[2]}")
            continue
        entry = _ENTRY(line)
        if entry is None:
            return None
        key, value = entry[1], entry[2]
        indent = None
        if not value:
            more = _ITEM(following)
            indent = more[1] if more else None
            out.append(f"{key}:" if more else f"{key}: null")
        elif _FLOW(value):
            items = value[1:-1].split(", ")
            if not all(map(canonical.is_plain, items)):
                return None
            out += [f"{key}:", *(f"- {item}" for item in items)]
        else:
            out.append(f'{key}: "{value}"' if _MOMENT(value) else f"{key}: {value}")
    return "\n".join(out) + "\n"


def strings(value: Json) -> list[str]:
    """The strings in a value, which may be one string, a list of strings, or strings separated by commas."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, list):
        return [str(item).strip() for item in value if isinstance(item, str | int | float) and str(item).strip()]
    return []
