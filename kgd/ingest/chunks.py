"""Chunks of a text: pieces that each treat one subject, with their headings.

A pure function, so the same text always has the same chunks. Headings are boundaries: an edit below one heading leaves
the chunks below all others unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from semantic_text_splitter import MarkdownSplitter, TextSplitter

LEAST, MOST = 450, 800
"""Number of characters of a chunk; a chunk that ends at a heading or at the end of the text may have fewer."""
TINY = 300
"""Number of characters below which a chunk is joined with the next one of its section, if both fit."""
STRETCH, UNBROKEN = 64_000, 4_000
"""Largest number of characters split at a time, and of those without a blank: the splitter rescans them per chunk."""

_HASHES = re.compile(r" {0,3}(#{1,6})(?=[ \t]|$)").match
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})").match
_UNDERLINE = re.compile(r" {0,3}(=+|-{2,})[ \t]*$").match
_RUNS = re.compile(r"\S+").finditer
_DEFINITION = re.compile(
    r"[ \t]*(?:(?:export|default|public|private|protected|internal|static|abstract|final|async|pub(?:\([a-z]+\))?|"
    r"unsafe|override|virtual|inline|data|sealed|open)\s+)*"
    r"(?:def|class|func|fn|function|interface|struct|enum|trait|impl|type|module|object|record|mod|namespace)\b\*?\s+"
    r"(?:\([^)\n]{0,80}\)\s*)?([A-Za-z_$][\w$]*(?:(?:\.|::)[\w$]+)*)"
).match


@dataclass(frozen=True, slots=True)
class Chunk:
    """Characters `start` to `end` of a text. `heading_path` leads from the title to the nearest heading."""

    heading_path: tuple[str, ...]
    text: str
    start: int
    end: int


def chunks(text: str, kind: str, title: str) -> list[Chunk]:
    """The chunks of a text, in order and without overlap. Only whitespace and headings without text are left out.

    Args:
        kind: ``markdown`` to split at headings, ``code`` to split at definitions, anything else for plain text.
        title: Title of the text, the first step of each heading path.
    """
    if kind == "markdown":
        spans = _spans(_outline(text, title), text)
    elif kind == "code":
        spans = _under_definitions(text, title)
    else:
        spans = [_Span((title,), *piece) for piece in _pieces(text, 0, len(text), _text_splitter())]
    found = []
    for span in spans:
        piece = text[span.start : span.end]
        whole = piece.strip()
        if whole:
            start = span.start + len(piece) - len(piece.lstrip())
            line = text.rfind("\n", span.start, start) + 1 or span.start  # the first line keeps its indent
            end = span.start + len(piece.rstrip())
            found.append(Chunk(span.path, text[line:end], line, end))
    return found


@dataclass(slots=True)
class _Span:
    path: tuple[str, ...]
    start: int
    end: int


@dataclass(slots=True)
class _Section:
    """A heading, its text up to the first inner heading (`body`), and the sections below it."""

    level: int
    path: tuple[str, ...]
    start: int
    text_start: int
    body_end: int = 0
    end: int = 0
    inner: list[_Section] = field(default_factory=list)


def _spans(section: _Section, text: str) -> list[_Span]:
    """A section that fits is one chunk. A larger section is split into its body and its inner sections."""
    if section.end - section.start <= MOST:
        return [_Span(section.path, section.start, section.end)]
    out: list[_Span] = []
    if text[section.text_start : section.body_end].strip():
        pieces = _pieces(text, section.start, section.body_end, _markdown_splitter())
        out = [_Span(section.path, *piece) for piece in pieces]
    for one in section.inner:
        for span in _spans(one, text):
            last = out[-1] if out else None
            if last and min(last.end - last.start, span.end - span.start) < TINY and span.end - last.start <= MOST:
                last.path, last.end = _shared(last.path, span.path), span.end
            else:
                out.append(span)
    return out


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    length = 0
    while length < min(len(one), len(other)) and one[length] == other[length]:
        length += 1
    return one[:length]


def _outline(text: str, title: str) -> _Section:
    """The whole text as a section of level 0. A first heading that repeats the title is left out of the paths."""
    top = _Section(0, (title,), 0, 0)
    stack = [top]
    for level, name, start, text_start in headings(text):
        while stack[-1].level >= level:
            _close(stack.pop(), start)
        above = stack[-1]
        if not above.inner:
            above.body_end = start
        repeats = above.level == 0 and (not name or name == title)
        one = _Section(level, above.path if repeats or not name else (*above.path, name), start, text_start)
        above.inner.append(one)
        stack.append(one)
    while stack:
        _close(stack.pop(), len(text))
    return top


def _close(section: _Section, end: int) -> None:
    section.end = end
    if not section.inner:
        section.body_end = end


def headings(text: str) -> Iterator[tuple[int, str, int, int]]:
    """Level, title, start and end (characters) of each heading of a Markdown text, except in code."""
    fence = ""
    alone, alone_start = "", 0
    """The previous line, if a blank line precedes it: an underline would make it a heading."""
    blank = True
    position = 0
    for line in text.splitlines(keepends=True):
        start, position = position, position + len(line)
        bare = line.rstrip("\r\n")
        if opened := _FENCE(bare):
            if not fence:
                fence = opened[1]
            elif opened[1].startswith(fence) and not bare.strip().strip(fence[0]):
                fence = ""
            alone, blank = "", False
            continue
        if fence:
            continue
        if hashes := _HASHES(bare):
            yield len(hashes[1]), _plain(bare[hashes.end() :].strip().rstrip("#").rstrip()), start, position
            alone = ""
        elif alone and (under := _UNDERLINE(bare)):
            yield 1 if under[1][0] == "=" else 2, _plain(alone), alone_start, position
            alone = ""
        else:
            alone, alone_start = (bare, start) if blank and bare.strip() and bare.strip()[0] not in "|>-*+" else ("", 0)
        blank = not bare.strip()


def _plain(heading: str) -> str:
    """A heading without markup for emphasis, code and links."""
    text = re.sub(r"!?\[([^\[\]]{0,200})\]\([^()\s]{0,500}\)", r"\1", heading)
    return re.sub(r"[`*]+", "", text).strip()[:200]


def _under_definitions(text: str, title: str) -> list[_Span]:
    """Chunks of blocks that start at the margin after a blank line; each chunk has as many blocks as fit. Each heading
    path ends in the definition at or around the start of the chunk.
    """
    blocks = list(_blocks(text))
    spans: list[_Span] = []
    inside = ""
    for start, end in blocks:
        named = next((f[1] for line in text[start:end].splitlines() if (f := _DEFINITION(line))), "")
        at_margin = not text[start : start + 1].isspace()
        if at_margin:
            inside = named
        path = (title, inside) if inside else (title,)
        last = spans[-1] if spans else None
        if end - start > MOST:
            spans += [_Span(path, *piece) for piece in _pieces(text, start, end, _text_splitter())]
        elif last and end - last.start <= MOST and min(last.end - last.start, end - start) < LEAST:
            last.path, last.end = (last.path if len(last.path) > 1 else path), end
        else:
            spans.append(_Span(path, start, end))
    return spans


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    start = position = 0
    blank = False
    for line in text.splitlines(keepends=True):
        if blank and not line[0].isspace() and position > start:
            yield start, position
            start = position
        blank = not line.strip()
        position += len(line)
    if position > start:
        yield start, position


def _pieces(text: str, start: int, end: int, splitter: MarkdownSplitter | TextSplitter) -> list[tuple[int, int]]:
    """The spans of the pieces, without gaps."""
    if end - start <= MOST:
        return [(start, end)]
    starts: list[int] = []
    for first, last in _stretches(text, start, end):
        found = [first + offset for offset, _ in splitter.chunk_indices(text[first:last])]
        starts += [first, *found[1:]] if found else []
    if not starts:
        return []
    starts[0] = start
    return list(zip(starts, [*starts[1:], end], strict=True))


def _stretches(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Stretches to split separately, so that the work is linear even in a text without paragraphs, lines or spaces."""
    while start < end:
        runs = (run.span() for run in _RUNS(text, start, min(end, start + STRETCH)))
        first, last = next((run for run in runs if run[1] - run[0] > UNBROKEN), (end, end))
        if first < last:
            stop = first if first > start else start + UNBROKEN
        elif end - start <= STRETCH:
            stop = end
        else:
            borders = (text.rfind(border, start + STRETCH // 2, start + STRETCH) + 1 for border in ("\n\n", "\n", " "))
            stop = next((border for border in borders if border), start + STRETCH)
        yield start, stop
        start = stop


@cache
def _markdown_splitter() -> MarkdownSplitter:
    return MarkdownSplitter((LEAST, MOST))


@cache
def _text_splitter() -> TextSplitter:
    return TextSplitter((LEAST, MOST))
