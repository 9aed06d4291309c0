"""YAML from any author: the guard, which vets the parser's events before values are constructed, and the rewriting of
such files.

There is one guard for local, remote and submitted bytes. It sees only parser events, so no value of a refused document
is ever constructed: it expands no aliases, obeys no tags and follows no merge keys. The worst case is about one second
for 256 KiB. Refusals give file and line, and never repeat the bytes. Values follow YAML 1.2's core schema.

Dates, sexagesimal numbers, numbers with underscores, `yes` and `no` are text; `010` is ten and `0o10` is eight.
Duplicate keys, keys that are not text, and merge keys are refused.

`rewrite` writes new values and keeps the author's comments. A ruamel round trip changes only differing values and keeps
quotes, order and blank lines. A comment at the end of a line belongs to that line's entry; a comment on its own line
always stays. The result is read back. If its values differ from those of the canonical bytes, the canonical bytes are
written below the comments.
"""

from __future__ import annotations

import io
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    Event,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceStartEvent,
)
from ruamel.yaml.scalarstring import DoubleQuotedScalarString, LiteralScalarString
from ruamel.yaml.scanner import Scanner

from kgd.codec import canonical
from kgd.codec.canonical import DEPTH, INTEGERS, KEY_CHARACTERS, MAX_EVENTS, UNSAFE_KEY, NotCanonical, Quoted
from kgd.errors import MALFORMED, Invalid, KgdError, Limit, Refused, whole
from kgd.model.node import NODE_BYTES, SETS, Json

_MARKER = re.compile(r"^(?:<{7}|={7}|>{7}|\|{7})(?=[ \r\n]|\Z)", re.M).search
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]").search


class _BoundedScanner(Scanner):
    """A scanner that stops at the first bracket or indent that is too deep.

    The parser looks up to 1,024 characters ahead, and this takes time quadratic in the number of open brackets. A limit
    on events alone would come too late: 4 KB of ``[`` cost seconds.
    """

    def fetch_flow_collection_start(self, TokenClass: Any, to_push: str) -> None:
        if len(self.flow_context) >= DEPTH:
            raise _too_deep(f"line {self.reader.line + 1}")
        super().fetch_flow_collection_start(TokenClass, to_push)

    def fetch_directive(self) -> None:
        raise Refused("YAML directives are not allowed", at=f"line {self.reader.line + 1}", next="Delete the % lines.")

    def add_indent(self, column: int) -> bool:
        if len(self.indents) > DEPTH:
            raise _too_deep(f"line {self.reader.line + 1}")
        return bool(super().add_indent(column))


def checked_text(data: bytes, at: str) -> str:
    """The text of `data`, without a byte order mark.

    Raises:
        Limit: The data has more than 256 KiB.
        Refused: The data is not UTF-8, or contains conflict markers or control characters.
    """
    if len(data) > NODE_BYTES:
        raise Limit(
            f"a file has at most {NODE_BYTES // 1024} KiB; this one has {whole(len(data), 1024)} KiB",
            at=at,
            next="Split it into several nodes.",
        )
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise Refused("the file is not UTF-8", at=place(at, line), next="Save it as UTF-8.") from None
    text = text.removeprefix("\ufeff")
    if marker := _MARKER(text):
        raise Refused(
            "the file contains unresolved conflict markers",
            at=place(at, text.count("\n", 0, marker.start()) + 1),
            next="Keep one or both sides of each conflict, and delete the lines with the markers.",
        )
    if control := _CONTROL(text):
        raise Refused("the file contains a control character", at=place(at, text.count("\n", 0, control.start()) + 1))
    return text


def events(text: str, at: str) -> Iterator[Event]:
    """The parser events of one document, from its first node to its last, after checking each.

    Raises:
        Limit: There are more than 20,000 events or 16 levels.
        Refused: There are anchors, aliases, tags, directives or a second document.
        Invalid: The text is not YAML.
    """
    depth = count = documents = 0
    parser = YAML(typ="safe", pure=True)
    parser.Scanner = _BoundedScanner
    try:
        for event in parser.parse(text):
            count += 1
            if count > MAX_EVENTS:
                raise Limit(f"a file has at most {MAX_EVENTS} YAML events", at=_line(event, at))
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise Refused(
                        "a file must contain one YAML document; this one contains several", at=_line(event, at)
                    )
            elif isinstance(event, NodeEvent):
                _check_node(event, at)
                if isinstance(event, MappingStartEvent | SequenceStartEvent):
                    depth += 1
                    if depth > DEPTH:
                        raise _too_deep(_line(event, at))
                yield event
            elif depth:
                depth -= 1
                yield event
    except KgdError as error:
        if at and error.at.startswith("line "):
            error.at = place(at, int(error.at[5:]))
        raise
    except YAMLError as error:
        raise _not_yaml(error, at) from None
    except (AssertionError, *MALFORMED) as error:
        # Defects of ruamel on malformed input: a wrong escape such as \U00110000, an unfinished directive.
        raise Invalid(f"this is not YAML ({type(error).__name__})", at=at) from None


def place(at: str, line: int) -> str:
    return f"{at}:{line}" if at else f"line {line}"


def _check_node(event: NodeEvent, at: str) -> None:
    if isinstance(event, AliasEvent) or event.anchor is not None:
        raise Refused("YAML anchors and aliases are not allowed", at=_line(event, at), next="Write the value out.")
    if isinstance(event, ScalarEvent | MappingStartEvent | SequenceStartEvent) and event.ctag is not None:
        raise Refused("YAML tags are not allowed", at=_line(event, at), next="Delete the word that begins with '!'.")


def _line(event: Event, at: str) -> str:
    return place(at, event.start_mark.line + 1)


def _too_deep(at: str) -> Limit:
    return Limit(f"mappings and lists are nested deeper than {DEPTH} levels", at=at, next="Flatten the data.")


_REASONS = (
    ("found unexpected end of stream", "a quotation mark is never closed"),
    ("found unexpected document separator", "a quotation mark is never closed"),
    ("expected ',' or ']'", "a bracket [ is never closed, or a comma is missing"),
    ("expected ',' or '}'", "a brace { is never closed, or a comma is missing"),
    ("could not find expected ':'", "a line is neither 'key: value' nor an item of a list"),
    ("mapping values are not allowed", "a second 'key:' in a line, or a wrong indent; text with ': ' needs quotes"),
    ("mapping keys are not allowed", "a '? ' is at a place where a key cannot be"),
    ("sequence entries are not allowed", "a '- ' is at a place where a list cannot begin"),
    ("expected <block end>", "a line has the wrong indent, or something follows a value in quotes"),
    ("expected the node content", "a value begins with a character that needs quotes"),
    ("found character '\\t'", "a tab cannot indent a line or begin a value"),
    ("found character", "a value begins with a character that needs quotes"),
    ("found unknown escape", "text in double quotes has an unknown escape; write a backslash as two"),
    ("expected escape sequence", "text in double quotes has an unfinished escape"),
    ("expected indentation indicator", "only an indent may follow the | or > that begins a block of text"),
    ("expected chomping", "only an indent, + or - may follow the | or > that begins a block of text"),
    ("expected alphabetic or numeric", "a value that begins with & or * needs quotes"),
    ("expected a comment or a line break", "there is text where the line should end"),
    ("expected '<document start>'", "something follows the end of the document"),
)
"""How the parser's reasons begin, and messages for users: the parser's own reasons name tokens and quote the
document."""


def _not_yaml(error: YAMLError, at: str) -> Invalid:
    """An error with the parser's reason and the line where the construct began, but without the parser's quotations
    from the document."""
    begun = getattr(error, "context_mark", None)
    mark = getattr(error, "problem_mark", None) or begun
    problem = str(getattr(error, "problem", None) or "")
    if problem.startswith("could not find") and begun is not None:
        mark = begun  # the parser searched up to the next line
    reason = next((said for begins, said in _REASONS if problem.startswith(begins)), "it cannot be parsed")
    if "never closed" in reason and mark and begun and begun.line != mark.line:
        reason += f"; it was opened in line {begun.line + 1}"
    return Invalid(f"this is not YAML: {reason}", at=place(at, mark.line + 1) if mark else at)


_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_DECIMAL = re.compile(r"[-+]?[0-9]+\Z").match
_OCTAL = re.compile(r"0o[0-7]+\Z").match
_HEX = re.compile(r"0x[0-9a-fA-F]+\Z").match
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z").match
_NOT_FINITE = re.compile(r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z").match


class Document(dict[str, Json]):
    """The top-level mapping of a file, and the line of each of its keys."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, int] = {}


def read(data: bytes, at: str) -> Document:
    """The mapping in `data`, in any YAML form.

    Raises:
        Limit, Refused, Invalid: As `events`; or the document is not a mapping, or a key occurs twice.
    """
    parsed = events(checked_text(data, at), at)
    first = next(parsed, None)
    if first is None:
        raise Invalid("the file is empty", at=at)
    if not isinstance(first, MappingStartEvent):
        raise Invalid("the file must be a mapping", at=_line(first, at), next="Write 'key: value' lines.")
    document = Document()
    _fill(document, parsed, at, document.lines)
    for _ in parsed:  # the remaining events are vetted as well: there may be a second document
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
            raise Refused("a key occurs twice", at=_line(event, at), next="Keep one of the two.")
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
        raise Refused("a key must not contain control characters or direction marks", at=_line(event, at))
    if event.style is None and key == "<<":
        raise Refused("YAML merge keys are not allowed", at=_line(event, at), next="Write the values out.")
    if not isinstance(_scalar(event, at), str):
        raise Refused("a key must be text", at=_line(event, at), next="Put it in double quotes.")
    return key


def _scalar(event: ScalarEvent, at: str) -> Json:
    text: str = event.value
    if event.style is not None:
        if any("\ud800" <= c <= "\udfff" for c in text):
            raise Invalid("text with an unpaired surrogate cannot be stored", at=_line(event, at))
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
            raise Invalid("an integer must fit into 64 bits", at=_line(event, at), next="Put it in double quotes.")
        return value
    if _NOT_FINITE(text) or (_FLOAT(text) and not math.isfinite(float(text))):
        raise Invalid("a number must be finite", at=_line(event, at), next="Put it in double quotes.")
    return float(text) if _FLOAT(text) else text


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
        text = checked_text(previous, "")
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
    if len(text) > _ROUND_TRIP_CHARACTERS or sum(1 for _ in events(text, "")) > _ROUND_TRIP_EVENTS:
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
    for event in events(text, ""):
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
