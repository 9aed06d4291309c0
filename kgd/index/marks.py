"""This file is where a match is explained: which words were found in which field, and a line around them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

BEGIN, END = "\x01", "\x02"
"""Set around matched words by SQLite; `words.clean` keeps them out of the texts themselves."""

TEXT_COLUMNS = ("name", "tags", "summary", "content", "data", "identifier")
FILE_COLUMNS = ("path", "identifier")
SNIPPET = 160
WORDS_NAMED = 5

_MARKED = re.compile(f"{BEGIN}([^{END}]*){END}")


class Marked(NamedTuple):
    snippet: str
    why: tuple[str, ...]


def read(columns: Sequence[str], texts: Sequence[str]) -> Marked:
    """What texts with marks say, one a column."""
    why = []
    for column, text in zip(columns, texts, strict=True):
        found = sorted({word.casefold() for word in _MARKED.findall(text)})
        if found:
            more = f" and {len(found) - WORDS_NAMED} more" if len(found) > WORDS_NAMED else ""
            why.append(f"{column}: {', '.join(word[:40] for word in found[:WORDS_NAMED])}{more}")
    by_name = dict(zip(columns, texts, strict=True))
    long = by_name.get("content", "") or by_name.get("path", "")
    source = long if BEGIN in long else by_name.get("summary", "") or long or by_name.get("name", "")
    return Marked(_around_first_mark(source), tuple(why))


def one_line(text: str) -> str:
    return " ".join(text[: 4 * SNIPPET].split())[:SNIPPET]


def _around_first_mark(text: str) -> str:
    at = max(0, text.find(BEGIN))
    start = max(0, at - SNIPPET // 3)
    piece = text[start : at + 2 * SNIPPET].replace(BEGIN, "").replace(END, "")
    if start:
        piece = piece.partition(" ")[2] or piece
    line = " ".join(piece.split())
    cut = line[: SNIPPET - 2].rstrip() + "…" if len(line) > SNIPPET else line
    return f"…{cut}" if start else cut
