"""Files written by hand: new values are written, and the author's comments are kept.

A ruamel round trip changes only differing values and keeps quotes, order and blank lines. A comment at the end of a
line belongs to that line's entry; a comment on its own line always stays. The result is read back. If its values differ
from those of the canonical bytes, the canonical bytes are written below the comments.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import ScalarEvent
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString

from kgd.codec import canonical, guard
from kgd.codec.canonical import NotCanonical, Quoted
from kgd.errors import MALFORMED, KgdError
from kgd.model.node import SETS, Json

_ROUND_TRIP_CHARACTERS = 64 * 1024
_ROUND_TRIP_EVENTS = 4_000
"""Maximum events of a round trip, which takes about 200 us per event. For more, the comments go to the top of the
canonical form."""

_SETS = frozenset({*SETS, "relations"})
"""Lists whose order has no meaning: the author's order is kept."""

_TOP_KEY = re.compile(r'(?:([^\s#"\'][^:]*)|"([^"\\]*)"|\'([^\']*)\')\s*:(?:\s|\Z)')


def rewrite(
    previous: bytes | None,
    values: Mapping[str, Json],
    plain: bytes,
    reads_back: Callable[[bytes], bool],
    *,
    in_any_form: bool = False,
) -> bytes:
    """The bytes of `values` in the form of `previous` if `previous` has comments; otherwise `plain`, the canonical
    bytes.

    `reads_back` tells whether bytes have exactly these values. With `in_any_form`, the form is kept even without
    comments.
    """
    if previous is None or (b"#" not in previous and not in_any_form) or _is_canonical(previous):
        return plain
    candidates: list[str] = []
    comments: list[tuple[str, str]] = []
    try:
        if reads_back(previous):
            return previous
        text = guard.checked_text(previous, "")
        comments = _own_lines(text)
        written = _round_trip(text, values)
        candidates = [_with_comments(written, comments), written]
    except KgdError:
        comments = _loose_comments(previous)  # the file is malformed: its comments are kept
    except (YAMLError, AssertionError, *MALFORMED):
        pass  # ruamel's round trip cannot keep this form; the values are more important
    if comments:
        candidates.append("".join(line.strip() + "\n" for _, line in comments) + plain.decode())
    for candidate in candidates:
        data = candidate.encode()
        try:
            if reads_back(data):
                return data
        except KgdError:
            continue
    return plain


def _is_canonical(data: bytes) -> bool:
    try:
        canonical.load(data.decode())
    except (NotCanonical, UnicodeDecodeError):
        return False
    return True


def _round_trip(text: str, values: Mapping[str, Json]) -> str:
    # Nothing is constructed before the whole document has passed the guard.
    if len(text) > _ROUND_TRIP_CHARACTERS or sum(1 for _ in guard.events(text, "")) > _ROUND_TRIP_EVENTS:
        raise ValueError("too large")
    yaml = YAML(typ="rt", pure=True)
    yaml.preserve_quotes = True
    yaml.width = 1 << 20
    yaml.allow_unicode = True
    document = yaml.load(text)
    if not isinstance(document, CommentedMap):
        raise ValueError("not a mapping")
    _update_map(document, values)
    out = io.StringIO()
    yaml.dump(document, out)
    return out.getvalue()


def _update_map(old: CommentedMap, new: Mapping[str, Json]) -> None:
    for key in [key for key in old if key not in new]:
        del old[key]
    for place, key in enumerate(new):
        if key not in old:
            old.insert(min(place, len(old)), key, _made(new[key]))
        else:
            _replace(old, key, new[key])


def _replace(container: Any, key: Any, new: Json) -> None:
    """Set one entry of a mapping or list, in place if possible; equal entries stay."""
    old = container[key]
    if isinstance(old, CommentedMap) and isinstance(new, Mapping) and new and old:
        _update_map(old, new)
    elif isinstance(old, CommentedSeq) and isinstance(new, list | tuple) and new and old:
        if key in _SETS:
            _update_set(old, new)
        else:
            _update_list(old, new)
    elif not _same(old, new):
        container[key] = _made(new)


def _update_set(old: CommentedSeq, new: Any) -> None:
    wanted = {_identity(item): item for item in new}
    seen = set()
    for i in reversed(range(len(old))):
        identity = _identity(old[i])
        if identity not in wanted or identity in seen:
            del old[i]
        else:
            _replace(old, i, wanted[identity])
        seen.add(identity)
    for identity, item in wanted.items():
        if identity not in seen:
            old.append(_made(item))


def _update_list(old: CommentedSeq, new: Any) -> None:
    """Update a list. Entries at the beginning and at the end that are the same in both lists are kept."""
    head = 0
    while head < min(len(old), len(new)) and _same(old[head], new[head]):
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and _same(old[-1 - tail], new[-1 - tail]):
        tail += 1
    for i in reversed(range(head, len(old) - tail)):
        del old[i]
    for i in range(head, len(new) - tail):
        old.insert(i, _made(new[i]))


def _identity(item: Json) -> Json:
    return (item.get("type"), item.get("target")) if isinstance(item, Mapping) else item


def _same(old: Json, new: Json) -> bool:
    if isinstance(new, Mapping):
        return isinstance(old, Mapping) and old.keys() == new.keys() and all(_same(old[k], new[k]) for k in new)
    if isinstance(new, list | tuple):
        return isinstance(old, list) and len(old) == len(new) and all(map(_same, old, new))
    if isinstance(new, str):
        if type(old) is date:  # ruamel reads `2026-11-21` as a date; in the core schema it is text
            return old.isoformat() == new
        return isinstance(old, str) and str(old) == str(new)
    return isinstance(old, type(new)) and isinstance(old, bool) == isinstance(new, bool) and bool(old == new)


def _made(value: Json) -> Json:
    """`value` in ruamel's types, which are then written in the canonical style."""
    if isinstance(value, Mapping):
        made = CommentedMap()
        for key in value:
            made[key] = _made(value[key])
        return made
    if isinstance(value, list | tuple):
        return CommentedSeq([_made(item) for item in value])
    if isinstance(value, str):
        form = canonical.dump({"k": value})[3:]
        if form.startswith("|"):
            return LiteralScalarString(value)
        return DoubleQuotedScalarString(value) if form.startswith('"') or isinstance(value, Quoted) else str(value)
    return value


def _own_lines(text: str) -> list[tuple[str, str]]:
    """The comments that have a line to themselves, each with the top-level key that follows it, or "" at the end."""
    lines = text.split("\n")
    inside: set[int] = set()
    for event in guard.events(text, ""):
        if isinstance(event, ScalarEvent):
            last = event.end_mark.line - (1 if event.end_mark.column == 0 else 0)
            first = event.start_mark.line + 1
            inside.update(range(first, last + 1))
    found: list[tuple[str, str]] = []
    key = ""
    for i in reversed(range(len(lines))):
        if i in inside:
            continue
        if lines[i].lstrip(" \t").startswith("#"):
            found.append((key, lines[i].rstrip("\r")))
        elif top := _TOP_KEY.match(lines[i]):
            key = top[1] or top[2] or top[3] or ""
    return found[::-1]


def _with_comments(text: str, comments: list[tuple[str, str]]) -> str:
    """`text` with all lost comments restored, each before its key."""
    present = Counter(line.strip() for _, line in _own_lines(text))
    lost: dict[str, list[str]] = {}
    for key, comment in comments:
        if present[comment.strip()]:
            present[comment.strip()] -= 1
        else:
            lost.setdefault(key, []).append(comment.strip() + "\n")
    out: list[str] = []
    for line in text.splitlines(keepends=True):
        top = _TOP_KEY.match(line)
        out += lost.pop(top[1] or top[2] or top[3] or "", []) if top else []
        out.append(line)
    return "".join([*out, *[comment for rest in lost.values() for comment in rest]])


def _loose_comments(data: bytes) -> list[tuple[str, str]]:
    return [("", line) for line in data.decode("utf-8", "replace").splitlines() if line.lstrip().startswith("#")]
