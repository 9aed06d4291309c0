"""Lines and tables that fit a terminal's width, by the cells that characters take. Not loaded for a pipe."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len

RESET = "\033[0m"
_STYLE = re.compile(r"\033\[[0-9;]*m")
_WORDS = re.compile(r" +|`(?:kgd [^`\n]*|[^`\n]{1,60})`[^ ]*|[^ ]+")
"""Spaces, a command in backquotes, or a word. A command is copied, so it is never broken."""
_MARKER = re.compile(r"(?:[-*+!>|] |\d+\. )?")
_CLOSING = "，。、：；！？）」》』】”"
"""Wide characters that do not begin a line."""
_NUMBER = re.compile(r"[\d.]*(?: %)?").fullmatch
LEAST = 24
"""Fewest columns for the last column of a table."""
GAP = 2


def cells(text: str) -> int:
    """The number of columns that a text takes, without its styles."""
    return cell_len(_STYLE.sub("", text) if "\033" in text else text)


def wrapped(line: str, width: int, hang: int | None = None) -> str:
    """The line, broken between words, or between wide characters.

    An address or another word that is longer than the width is kept whole, so that it can be copied.

    Args:
        hang: Columns before the following lines; by default below the line's first word, or the item of a list.
    """
    if cells(line) <= width:
        return line
    plain = _STYLE.sub("", line)
    begin = len(plain) - len(plain.lstrip(" "))
    if hang is None:
        hang = begin + len(_MARKER.match(plain[begin:])[0])  # type: ignore[index]
    if width - hang < LEAST:
        hang = min(begin, 4)
    lines, current, used = list[str](), "", 0
    for word in _words(line):
        length = cells(word)
        if used + length > width and used > hang and not (not lines and current.isspace()):
            lines.append(current.rstrip(" "))
            current, used = " " * hang + _open_style(current), hang
            word, length = word.lstrip(" "), length if word.strip(" ") else 0
        current, used = current + word, used + length
    lines.append(current.rstrip(" "))
    return "\n".join(f"{one}{RESET}" if _open_style(one) else one for one in lines)


def _open_style(text: str) -> str:
    """The style that a text leaves on. Each line sets and resets its own, because pagers show single lines."""
    styles = _STYLE.findall(text)
    return styles[-1] if styles and styles[-1] != RESET else ""


def _words(line: str) -> Iterator[str]:
    """The words and the spaces between them. Wide characters can be separated."""
    for found in _WORDS.finditer(line):
        word = found[0]
        if cells(word) == len(_STYLE.sub("", word)):
            yield word
            continue
        start = 0
        for number, character in enumerate(word):
            if number > start and cell_len(character) > 1 and character not in _CLOSING:
                yield word[start:number]
                start = number
        yield word[start:]


def cut(line: str, width: int) -> str:
    """The line; if it is longer than the width, its beginning and ``…``."""
    if cells(line) <= width:
        return line
    kept, used = "", 1
    for part in re.split(f"({_STYLE.pattern})", line):
        if _STYLE.fullmatch(part):
            kept += part
            continue
        for character in part:
            used += cell_len(character)
            if used > width:
                return f"{kept.rstrip(' ')}…{RESET if _open_style(kept) else ''}"
            kept += character
    return kept


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, cuts: bool = False) -> str:
    """The rows as aligned columns; the last column is broken into lines, or cut. Empty if the width is too small.

    Columns of numbers are aligned to the right. The tables of rich would double the time of a short command.
    """
    fixed = [max(cells(one[column]) for one in (headings, *rows)) for column in range(len(headings) - 1)]
    indent = sum(fixed) + GAP * len(fixed)
    if indent + LEAST > width:
        return ""
    numeric = [all(_NUMBER(_STYLE.sub("", row[column])) for row in rows) for column in range(len(fixed))]
    lines = []
    for row in (headings, *rows):
        line = ""
        for cell, size, is_number in zip(row, fixed, numeric, strict=False):
            space = " " * (size - cells(cell))
            line += f"{space}{cell}" if is_number else f"{cell}{space}"
            line += " " * GAP
        line += row[-1]
        lines.append((cut(line, width) if cuts else wrapped(line, width, indent)).rstrip())
    return "".join(f"{line}\n" for line in lines)
