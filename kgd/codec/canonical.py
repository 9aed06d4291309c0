"""The canonical byte form: writing, and strict reading (docs/format.md "Bytes").

The form is a small subset of YAML 1.2: block mappings and sequences (a sequence has its parent's indent), plain
scalars of a safe shape, JSON strings, JSON numbers, ``true false null [] {}``, and literal blocks for text of several
lines. `load` accepts nothing else, which makes it safe and fast: every YAML 1.2 reader reads accepted bytes in the same
way. Any other form raises `NotCanonical` and is then read through the guard (kgd.codec.guard).

Both directions are linear in the size of the text; 685 bytes take about 30 us.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache
from json.decoder import scanstring  # type: ignore[attr-defined]  # the C scanner behind json.loads; no public name

from kgd.errors import Invalid, Limit
from kgd.model.node import Json

MAX_EVENTS = 20_000
DEPTH = 16
"""Maximum depth of nested mappings and sequences, including the document."""

KEY_CHARACTERS = 256
"""Maximum characters of a key in a node. Keys in conflict records are paths of keys, which may be longer."""

FEW_BYTES = 16 * 1024
"""A smaller document cannot hold 20,000 YAML events, so they need not be counted."""

INTEGERS = range(-(2**63), 2**63)

_LONGEST_KEY = 8192
_IMPLICIT_KEY = 1000
"""YAML ends implicit keys at 1,024 characters; a longer one is written behind ``? ``."""


class NotCanonical(ValueError):
    """These bytes are not in the canonical form. They may still be a valid document."""


class Quoted(str):
    """A string that is always written in double quotes."""

    __slots__ = ()


# Never unescaped: control characters, C1, line breaks other than \n, the byte order mark, surrogates and
# non-characters. Tabs are allowed only in literal blocks; a JSON string escapes all of these.
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]").search
_json = json.JSONEncoder(ensure_ascii=False).encode
_SURROGATE = re.compile("[\ud800-\udfff]").search
_TO_ESCAPE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
# Plain: begins with a letter, `/` or `_`; has no ': ' or ' #', and no space or ':' at the end; is not a word that YAML
# 1.1 or 1.2 reads as another type.
_PLAIN = re.compile(
    r"(?:[A-Za-z/_\u00c0-\u1fff\u3040-\ud7ff\U00010000-\U0010ffff](?:[^:#\t\n]|:(?=[^\s])|(?<=\S)#)*+)(?<![\s:])\Z"
).match
_WORDS = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
_RESERVED = frozenset(form for word in _WORDS for form in (word, word.title(), word.upper()))
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z").match
_ENTRY = re.compile(r'([A-Za-z_][A-Za-z0-9_-]*|"(?:[^"\\]|\\.)*"):(?: (.+))?\Z').match
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})\Z").match
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:e[+-][0-9]+)?\Z").match
UNSAFE_KEY = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]"
).search
_CONSTANTS: dict[str, Json] = {"true": True, "false": False, "null": None}
_BLANK_LINE = re.compile(r"(?:\A|\n)[ \t]+(?:\n|\Z)").search


def dump(value: Mapping[str, Json], *, depth: int = DEPTH) -> str:
    """The canonical text of a mapping. Its keys keep their order; keys of nested mappings are sorted.

    Raises:
        Invalid: A value cannot be written, such as a key with control characters, NaN or an unpaired surrogate.
        Limit: The value is nested deeper than `depth`, or has a key longer than 256 characters.
    """
    out: list[str] = []
    for key, item in value.items():
        _entry(key, item, "", "", out, depth - 1)
    return "".join(out)


def load(text: str, *, depth: int = DEPTH) -> dict[str, Json]:
    """The mapping in a canonical text.

    Raises:
        NotCanonical: The text is not the canonical form of a mapping.
    """
    if forbidden(text):
        raise NotCanonical("a character")
    lines = text.split("\n")
    if lines.pop() != "":
        raise NotCanonical("the last line has no end")
    value, end = _mapping(lines, 0, "", depth)
    if end != len(lines) or not value:
        raise NotCanonical(f"line {end + 1}")
    return value


def forbidden(text: str) -> bool:
    """Whether `text` holds a character that the canonical form never contains."""
    # This simple check is ten times faster than the pattern and suffices for nearly every file.
    return not text.replace("\n", "").isprintable() and _FORBIDDEN(text) is not None


def is_plain(text: str) -> bool:
    """Whether a string needs no quotes. The caller excludes forbidden characters and line ends."""
    return _PLAIN(text) is not None and text not in _RESERVED


def check_depth(value: Json) -> None:
    """Check that mappings and lists are not nested deeper than `DEPTH`. Not recursive, so that it can check any depth.

    Raises:
        Limit: The nesting is deeper.
    """
    level, depth = [value], DEPTH - 1
    while level := [item for item in level if isinstance(item, Mapping | list | tuple)]:
        _check_depth(depth)
        depth -= 1
        level = [inner for item in level for inner in (item.values() if isinstance(item, Mapping) else item)]


def check_keys(value: Json, at: str) -> None:
    """Check the length of all keys, at every level.

    Raises:
        Limit: A key is longer than `KEY_CHARACTERS`.
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            if len(key) > KEY_CHARACTERS:
                raise Limit(f"a key has at most {KEY_CHARACTERS} characters", at=at)
            if not isinstance(item, str):
                check_keys(item, at)
    elif isinstance(value, list | tuple):
        for item in value:
            if not isinstance(item, str):
                check_keys(item, at)


def count_events(value: Json) -> int:
    """The number of events that a YAML parser reports for the value."""
    if isinstance(value, Mapping):
        return 2 + sum(1 + count_events(v) for v in value.values())
    if isinstance(value, list | tuple):
        return 2 + sum(map(count_events, value))
    return 1


def quote(text: str) -> str:
    """`text` as a JSON string, which is also a YAML double-quoted scalar of the same value."""
    if _SURROGATE(text):
        raise Invalid("text with an unpaired surrogate cannot be stored")
    quoted = _json(text)
    return quoted if quoted.isprintable() else _TO_ESCAPE.sub(lambda m: f"\\u{ord(m[0]):04x}", quoted)


def _entry(key: Json, value: Json, first: str, pad: str, out: list[str], depth: int) -> None:
    """One ``key: value`` whose first line begins with `first` and whose other lines begin with `pad`."""
    key = _key_text(key) if type(key) is str else _quoted_key(key)
    head = f"{first}{key}:" if len(key) <= _IMPLICIT_KEY else f"{first}? {key}\n{pad}:"
    if isinstance(value, str):
        out.append(f"{head} {_block_or_quoted(value, pad + '  ') if chr(10) in value else _text(value)}\n")
    elif isinstance(value, Mapping) and value:
        out.append(f"{head}\n")
        _check_depth(depth)
        inner = pad + "  "
        for name in value if isinstance(value, Ordered) else _sorted_keys(value):
            _entry(name, value[name], inner, inner, out, depth - 1)
    elif isinstance(value, list | tuple) and value:
        out.append(f"{head}\n")
        _check_depth(depth)
        for item in value:
            _item(item, pad + "- ", pad, out, depth - 1)
    else:
        out.append(f"{head} {_scalar(value, depth)}\n")


def _item(value: Json, first: str, pad: str, out: list[str], depth: int) -> None:
    inner = pad + "  "
    if isinstance(value, str):
        out.append(f"{first}{_block_or_quoted(value, inner) if chr(10) in value else _text(value)}\n")
    elif isinstance(value, Mapping) and value:
        _check_depth(depth)
        for name in value if isinstance(value, Ordered) else _sorted_keys(value):
            _entry(name, value[name], first, inner, out, depth - 1)
            first = inner
    elif isinstance(value, list | tuple) and value:
        _check_depth(depth)
        for item in value:
            _item(item, first + "- ", inner, out, depth - 1)
            first = inner
    else:
        out.append(f"{first}{_scalar(value, depth)}\n")


class Ordered(dict[str, Json]):
    """A mapping whose keys keep their order, such as a relation's."""

    __slots__ = ()


def _sorted_keys(value: Mapping[str, Json]) -> list[str]:
    try:
        return sorted(value)
    except TypeError:
        raise Invalid("keys must be text", at="data") from None


def _check_depth(depth: int) -> None:
    if depth < 1:
        raise Limit("mappings and lists are nested too deeply", at="data", next=f"Stay within {DEPTH} levels.")


@lru_cache(maxsize=1024)  # most keys are the fields of a node
def _key_text(key: str) -> str:
    return key if _PLAIN_KEY(key) and key not in _RESERVED and len(key) <= _IMPLICIT_KEY else _quoted_key(key)


def _quoted_key(key: Json) -> str:
    if not isinstance(key, str):
        raise Invalid("a key must be text", at="data")
    if len(key) > _LONGEST_KEY:
        raise Limit(f"a key has at most {_LONGEST_KEY} characters", at="data")
    if UNSAFE_KEY(key):
        raise Invalid("a key must not contain control characters or direction marks", at="data")
    return quote(key)


def _text(value: str) -> str:
    if type(value) is not Quoted and _PLAIN(value) and value not in _RESERVED and not forbidden(value):
        return value
    return quote(value)


def _block_or_quoted(value: str, pad: str) -> str:
    """`value` as a literal block, without the last line's end, if that keeps it exactly; otherwise as a JSON string."""
    if value[0] in " \t\n" or forbidden(value) or _BLANK_LINE(value):
        return quote(value)
    body = value.rstrip("\n")
    breaks = len(value) - len(body)
    lines = body.split("\n")
    chomping = "|-" if breaks == 0 else "|" if breaks == 1 else "|+"
    return "\n".join([chomping, *[pad + line if line else "" for line in lines], *[""] * (breaks - 1)])


def _scalar(value: Json, depth: int) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        if value not in INTEGERS:
            raise Invalid("an integer must fit into 64 bits", at="data", next="Store it as text.")
        return str(int(value))
    if isinstance(value, float):
        if not math.isfinite(value):
            raise Invalid("a number must be finite", at="data", next="Store it as text.")
        return float.__repr__(value)
    if isinstance(value, Mapping | list | tuple):
        _check_depth(depth)
        return "{}" if isinstance(value, Mapping) else "[]"
    raise Invalid(f"a value of type {type(value).__name__} cannot be stored", at="data")


def _mapping(lines: list[str], i: int, pad: str, depth: int, first: str | None = None) -> tuple[dict[str, Json], int]:
    """The mapping whose lines begin with `pad`; `first` is its first entry if this entry came after a ``- ``."""
    if depth < 1:
        raise NotCanonical("too deep")
    out: dict[str, Json] = {}
    indent, end = len(pad), len(lines)
    inner = pad + "  "
    while i < end:
        line = lines[i]
        if first is not None:
            entry, explicit, first = _ENTRY(first), first.startswith('? "'), None
        elif indent and not line.startswith(pad):
            break
        else:
            entry, explicit = _ENTRY(line, indent), False
        if entry is None:
            if out and line.startswith("- ", indent):
                break
            if not explicit and not line.startswith('? "', indent):
                raise NotCanonical(f"line {i + 1}")
            key, text = _explicit(lines, i, pad)
            i += 1
        else:
            key, text = entry.groups()
            if key[0] == '"':
                key = _key(key)
            elif key in _RESERVED or len(key) > _IMPLICIT_KEY:
                raise NotCanonical(f"line {i + 1}")
        if key in out:
            raise NotCanonical(f"line {i + 1}")
        i += 1
        if text is None:
            head = lines[i] if i < end else ""
            if head.startswith("- ", indent) and head.startswith(pad):
                out[key], i = _sequence(lines, i, pad, depth - 1)
            elif head.startswith(inner):
                out[key], i = _mapping(lines, i, inner, depth - 1)
            else:
                raise NotCanonical(f"line {i}")
        elif text[0] == "|":
            out[key], i = _block(lines, i, inner, text)
        else:
            out[key] = _value(text, depth)
    return out, i


def _sequence(lines: list[str], i: int, pad: str, depth: int, first: str | None = None) -> tuple[list[Json], int]:
    if depth < 1:
        raise NotCanonical("too deep")
    out: list[Json] = []
    indent = len(pad) + 2
    dash, inner = pad + "- ", pad + "  "
    while i < len(lines):
        if first is not None:
            text, first = first, None
        elif lines[i].startswith(dash):
            text = lines[i][indent:]
        else:
            break
        value: Json
        if text.startswith("- "):
            value, i = _sequence(lines, i, inner, depth - 1, first=text[2:])
        elif text[:1] == "|":
            value, i = _block(lines, i + 1, inner, text)
        elif (":" in text and _ENTRY(text)) or text.startswith('? "'):
            value, i = _mapping(lines, i, inner, depth - 1, first=text)
        else:
            value, i = _value(text, depth), i + 1
        out.append(value)
    return out, i


def _block(lines: list[str], i: int, pad: str, chomping: str) -> tuple[str, int]:
    indent = len(pad)
    start = i
    end = len(lines)
    while i < end and (not lines[i] or lines[i].startswith(pad)):
        i += 1
    body = [line[indent:] for line in lines[start:i]]
    if not body or not body[0] or body[0][0] in " \t":
        raise NotCanonical(f"line {start + 1}")
    text = "\n".join(body)
    if _BLANK_LINE(text) or any(len(line) == indent for line in lines[start:i]):
        raise NotCanonical(f"line {start + 1}")
    if chomping == "|":
        good, text = body[-1] != "", text + "\n"
    elif chomping == "|-":
        good = body[-1] != ""
    else:
        good, text = chomping == "|+" and body[-1] == "", text + "\n"
    if not good:
        raise NotCanonical(f"line {start}")
    return text, i


def _explicit(lines: list[str], i: int, pad: str) -> tuple[str, str | None]:
    """Key and value text of a ``? "key"`` line and the ``:`` line below it."""
    key = _string(lines[i].partition("? ")[2])
    value = lines[i + 1] if i + 1 < len(lines) else ""
    if (
        len(quote(key)) <= _IMPLICIT_KEY
        or len(key) > _LONGEST_KEY
        or UNSAFE_KEY(key)
        or not value.startswith(pad + ":")
    ):
        raise NotCanonical(f"line {i + 1}")
    text = value[len(pad) + 1 :]
    if text and (text[0] != " " or len(text) == 1):
        raise NotCanonical(f"line {i + 2}")
    return key, text[1:] or None


def _key(text: str) -> str:
    key = _string(text)
    plain = _PLAIN_KEY(key) and key not in _RESERVED
    if plain or len(text) > _IMPLICIT_KEY or UNSAFE_KEY(key):
        raise NotCanonical("a key")
    return key


def _string(text: str) -> str:
    """The value of a JSON string as `quote` writes it."""
    if "\\" not in text:
        if len(text) < 2 or text[-1] != '"' or '"' in text[1:-1] or "\t" in text:
            raise NotCanonical("a string")
        return text[1:-1]
    try:
        value, end = scanstring(text, 1, True)
    except ValueError:
        raise NotCanonical("a string") from None
    if end != len(text) or _SURROGATE(value) or quote(value) != text:
        raise NotCanonical("a string")
    return str(value)


def _value(text: str, depth: int) -> Json:
    if text[:1] == '"':
        return _string(text)
    if _PLAIN(text):
        if text not in _RESERVED:
            return text
        if text in _CONSTANTS:
            return _CONSTANTS[text]
    elif _INTEGER(text):
        value = int(text)
        if value in INTEGERS and text != "-0":
            return value
    elif _FLOAT(text):
        number = float(text)
        if float.__repr__(number) == text:
            return number
    elif text in ("[]", "{}") and depth > 1:
        return [] if text == "[]" else {}
    raise NotCanonical("a value")
