"""Readers for Markdown, reStructuredText, plain text and code."""

from __future__ import annotations

import re
from datetime import date

from kgd.codec import front_matter
from kgd.codec.front_matter import strings
from kgd.ingest.chunks import headings
from kgd.ingest.readers.result import Text, one_line
from kgd.model.node import LABEL_LIMIT

_ADORNMENT = re.compile(r"([=\-`:.'\"~^_*+#<>!$%&(),/;?@\[\]\\{|}])\1{2,}\s*\Z").match
_DIRECTIVE = re.compile(r"^\.\. (?:[\w-]+::|_[^\n:]{1,200}:)|(?<![\w`]):[a-z]+(?::[a-z]+)?:`", re.M)
ABOUT = ("date", "author")


def markdown(text: str) -> Text:
    """Title, tags, date and author come from front matter; the first heading is the default title."""
    page = front_matter.read(text)
    trouble = (f"front matter: {page.problem}",) if page.front is None else ()
    front = page.front or {}
    named = front.get("title")
    title = one_line(named) if isinstance(named, str) else ""
    about = []
    for key in ABOUT:
        value = front.get(key)
        stated = ", ".join(strings(value)) if not isinstance(value, date) else value.isoformat()
        if stated:
            about.append((key, one_line(stated)))
    tags = tuple(tag for tag in strings(front.get("tags")) if 0 < len(tag) <= LABEL_LIMIT and tag.isprintable())
    return Text("markdown", "markdown", title or first_heading(page.body), page.body, tags, tuple(about), trouble)


def first_heading(text: str) -> str:
    """The first heading of level 1 or 2, as the title of a document."""
    found = next(headings(text), None)
    return one_line(found[1]) if found and found[0] <= 2 else ""


def plain(text: str) -> Text:
    """Plain text; with markup of reStructuredText it is read as such."""
    return restructured(text) if is_restructured(text) else Text("text", "text", "", text)


def is_restructured(text: str) -> bool:
    """Whether a text has directives, targets or roles of reStructuredText and an underlined line."""
    head = text[:20_000]
    return bool(_DIRECTIVE.search(head)) and bool(_titles(head.split("\n")))


def restructured(text: str) -> Text:
    """The text with its underlined titles as Markdown headings; levels follow the order of the marks."""
    lines = text.split("\n")
    levels: dict[str, int] = {}
    for number, above, mark in list(_titles(lines)):
        level = levels.setdefault(mark, min(len(levels) + 1, 6))
        title = lines[number].strip()
        lines[number] = f"{'#' * level} {title}"
        lines[number + 1] = ""
        if above:
            lines[number - 1] = ""
    body = "\n".join(lines)
    return Text("rst", "markdown", first_heading(body), body)


def _titles(lines: list[str]) -> list[tuple[int, bool, str]]:
    """Number of each title line, whether it also has a line above it, and the marks that make it a title."""
    found: list[tuple[int, bool, str]] = []
    taken = -1
    for number in range(len(lines) - 1):
        line, under = lines[number], lines[number + 1].rstrip()
        if number <= taken or not line.strip() or not under or not (mark := _ADORNMENT(under)):
            continue
        if len(under) < len(line.rstrip()) or _ADORNMENT(line.rstrip()):
            continue
        above = number > 0 and lines[number - 1].rstrip() == under
        if line[0].isspace() and not above:  # an indented line is a title only in a frame
            continue
        if not above and number > 0 and lines[number - 1].strip():
            continue
        found.append((number, above, mark[1] * (2 if above else 1)))
        taken = number + 1
    return found
