"""The guard for YAML from any author: it vets the parser's events, then constructs values according to YAML 1.2's core
schema.

There is one guard for local, remote and submitted bytes. It sees only parser events, so no value of a refused document
is ever constructed: it expands no aliases, obeys no tags and follows no merge keys. The worst case is about one second
for 256 KiB. Refusals give file and line, and never repeat the bytes.

Dates, sexagesimal numbers, numbers with underscores, `yes` and `no` are text; `010` is ten and `0o10` is eight.
Duplicate keys, keys that are not text, and merge keys are refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from ruamel.yaml import YAML
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
from ruamel.yaml.scanner import Scanner

from kgd.codec.canonical import DEPTH, INTEGERS, KEY_CHARACTERS, MAX_EVENTS, UNSAFE_KEY
from kgd.errors import MALFORMED, Invalid, KgdError, Limit, Refused, whole
from kgd.model.node import NODE_BYTES, Json

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
