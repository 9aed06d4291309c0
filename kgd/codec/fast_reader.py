"""Fast reading of ordinary canonical files: the graph's fields, or the whole node.

One regular expression over the whole file proves that the file has the ordinary shape. Any other file is left to the
strict parser and the guard, so the result does not depend on which reader is used.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from kgd.codec import canonical
from kgd.codec.canonical import NotCanonical
from kgd.errors import KgdError
from kgd.model.node import (
    NAME_LIMIT,
    RELATIONS_LIMIT,
    SUMMARY_LIMIT,
    TAGS_LIMIT,
    Json,
    Node,
    Relation,
    check_label,
    default_type,
)
from kgd.model.uri import OWNED, Uri, parse


class Lean(NamedTuple):
    """The graph's fields of a node."""

    uri: Uri
    type: str
    name: str
    summary: str
    tags: tuple[str, ...]
    aliases: tuple[Uri, ...]
    relations: tuple[tuple[str, Uri, float], ...]
    """(type, target, weight) in canonical order."""


_SCHEMES = "|".join(sorted(OWNED - {"dir"}))
_ORDINARY_URI = re.compile(
    rf"(?:{_SCHEMES})://[a-z0-9][a-z0-9-]{{0,62}}(?:/(?!\.\.?(?:/|\Z))[A-Za-z0-9._~:@!$&'()*+,;=-]+)+\Z"
).match

_FILE = re.compile(
    r"uri: (.+)\n"
    r"(?:type: (.+)\n)?"
    r"(?:name: (.+)\n)?"
    r"(?:summary: (.+)\n)?"
    r"(?:tags:\n((?:- .+\n)++))?"
    r"(?:content: (?:\|(-?)\n((?:  \S.*\n)(?:\n*+  [ \t]*+\S.*\n)*+)|(.+)\n))?"
    r'(?:relations:\n((?:- type: .+\n  target: "[^"\\\t\n]+"\n(?:  weight: [01](?:\.[0-9]{1,17})?\n)?)++))?'
    r"(data:\n(?:  .*\n)++)?\Z"
).match
_RELATION = re.compile(r'- type: (.+)\n  target: "(.+)"\n(?:  weight: (.+)\n)?').findall


def uri(text: str) -> Uri:
    """`text` as a URI. Takes 1 us if it has only characters that are never escaped.

    Raises:
        Invalid, Limit: As `kgd.model.uri.parse`.
    """
    return Uri(text) if len(text) <= 255 and text.count("/") < 64 and _ORDINARY_URI(text) else parse(text)


def glance(data: bytes) -> Lean | None:
    """The graph's fields of the node in `data`; None if `decode` has to read it."""
    read = _read(data)
    return read[0] if read else None


def whole(data: bytes, *, with_relations: bool = True) -> Node | None:
    """The node in `data`; half the time without relations. None if the strict parser or the guard has to read it."""
    read = _read(data, with_relations)
    if read is None:
        return None
    known, content, values = read
    relations = tuple([Relation(*relation) for relation in known.relations])
    return Node(known.uri, known.type, known.name, known.summary, content, known.tags, values, None, relations)


def _read(data: bytes, with_relations: bool = True) -> tuple[Lean, str, Mapping[str, Json]] | None:
    """The graph's fields, content, and data."""
    try:
        text = data.decode()
        found = None if len(data) > canonical.FEW_BYTES or canonical.forbidden(text) else _FILE(text)
        if found is None:
            return None
        at, type, name, summary, tags, chomped, block, plain, relations, values = found.groups()
        if plain and not canonical.is_plain(plain):
            return None
        parsed: Mapping[str, Json] = canonical.load(values)["data"] if values else {}
        canonical.check_keys(parsed, "data")
        lines = block.split("\n") if block else ()
        content = plain or "\n".join([line[2:] for line in lines])
        known = _lean(at, type, name, summary, tags, relations if with_relations else None)
        return known, content[:-1] if chomped else content, parsed
    except (NotCanonical, UnicodeDecodeError, KgdError):
        return None


def _lean(
    at: str, type: str | None, name: str | None, summary: str | None, tag_lines: str | None, relation_lines: str | None
) -> Lean:
    if not canonical.is_plain(at):
        raise NotCanonical("the uri")
    node = uri(at)
    tags = tuple(tag_lines[2:-1].split("\n- ")) if tag_lines else ()
    relations = tuple(
        [(label, uri(target), float(weight or 1)) for label, target, weight in _RELATION(relation_lines)]
        if relation_lines
        else ()
    )
    labels = [*tags, *[r[0] for r in relations], *([type] if type else [])]
    if not all(map(_is_label, labels)) or not _is_ascending(tags) or not _is_ascending([r[:2] for r in relations]):
        raise NotCanonical("a label")
    texts = [(name or "", NAME_LIMIT), (summary or "", SUMMARY_LIMIT)]
    if any(text and (len(text) > limit or not canonical.is_plain(text)) for text, limit in texts):
        raise NotCanonical("name or summary")
    if len(tags) > TAGS_LIMIT or len(relations) > RELATIONS_LIMIT or any(not 0 <= r[2] <= 1 for r in relations):
        raise NotCanonical("a limit")
    return Lean(node, type or default_type(node), name or "", summary or "", tags, (), relations)


@lru_cache(maxsize=4096)
def _is_label(text: str) -> bool:
    check_label(text, "label")
    return canonical.is_plain(text)


def _is_ascending(items: Sequence[str] | Sequence[tuple[str, str]]) -> bool:
    return all(map(operator.lt, items, items[1:]))
