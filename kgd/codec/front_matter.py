"""Front matter of Markdown files: finding it, reading it through the guard, and writing it; and memory files, whose
front matter mirrors a node."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from kgd.codec import canonical, documents
from kgd.codec.canonical import NotCanonical
from kgd.errors import Invalid, KgdError
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
    with suppress(NotCanonical):  # the guard takes a millisecond per note
        if plain is not None:
            return canonical.load(plain)
    return documents.read_mapping(inner.encode(), "")


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


MIRRORED = ("id", "type", "date", "tags")
"""Node fields that the front matter repeats, in this order; other keys follow, sorted."""
_FENCE = "---\n"


@dataclass(frozen=True, slots=True)
class Memory:
    """A memory's front matter and prose. `head` is the front matter as written, with its comments but without its
    fences."""

    front: Mapping[str, Json]
    prose: str
    head: str

    @property
    def text(self) -> str:
        """The prose without surrounding blank lines: the detail given to `put`."""
        return self.prose.strip("\n")

    @property
    def tags(self) -> tuple[str, ...]:
        found = self.front.get("tags")
        return tuple(str(tag) for tag in found) if isinstance(found, list) else ()


def decode(data: bytes, *, at: str = "") -> Memory:
    """The memory in a file from any author.

    Raises:
        Invalid: The file is not UTF-8, or does not begin with front matter.
        Refused, Limit: As for nodes.
    """
    try:
        text = data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise Invalid("the file is not UTF-8", at=f"{at}:1") from None
    if text.startswith("---\r\n"):
        text = text.replace("\r\n", "\n")
    head, fence, prose = text[len(_FENCE) :].partition("\n" + _FENCE)
    if not fence and head.endswith("\n---"):
        head, fence = head.removesuffix("\n---"), _FENCE
    if not text.startswith(_FENCE) or not fence:
        raise Invalid(
            "a memory must begin with front matter between two lines of '---'",
            at=f"{at}:1",
            next="Restore its first lines: id, type, date and tags.",
        )
    head += "\n"
    return Memory(documents.read_mapping(head.encode(), at), prose, head)


def memory_in(data: bytes | None, at: str = "") -> Memory | None:
    """As `decode`; None if the file is absent or not a memory."""
    try:
        return decode(data, at=at) if data is not None else None
    except KgdError:
        return None


def encode(front: Mapping[str, Json], prose: str) -> bytes:
    """The canonical bytes.

    Raises:
        Invalid, Limit: YAML cannot represent the front matter.
    """
    return with_head(canonical.dump(_ordered(front)), prose)


def rewrite(memory: Memory, front: Mapping[str, Json]) -> bytes:
    """The file with new front matter, in the form of the old front matter and with its comments, and with unchanged
    prose.

    Raises:
        Invalid, Limit: As `encode`.
    """
    from kgd.codec import guard  # ruamel costs 60 ms to import; canonical front matter never needs it

    ordered = _ordered(front)
    plain = canonical.dump(ordered).encode()
    head = guard.rewrite(
        memory.head.encode(),
        ordered,
        plain,
        lambda data: dict(documents.read_mapping(data, "")) == ordered,
        in_any_form=True,
    )
    return with_head(head.decode(), memory.prose)


def with_head(head: str, prose: str) -> bytes:
    return f"{_FENCE}{head}{_FENCE}{prose}".encode()


def _ordered(front: Mapping[str, Json]) -> dict[str, Json]:
    known = [key for key in MIRRORED if front.get(key) is not None]
    return {key: front[key] for key in (*known, *sorted(front.keys() - set(MIRRORED)))}
