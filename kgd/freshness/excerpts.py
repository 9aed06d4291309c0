"""Cited code as text: the lines around a citation, and the difference since the citation was verified."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kgd.freshness.citations import Citation
from kgd.freshness.code import Code, spans_of
from kgd.model.text_merge import Run, common_parts

AROUND = 5
"""Number of lines before and after the cited lines, and from the top of a file that is cited as a whole."""
CITED = 20
"""Largest number of cited lines in an excerpt."""
DIFFERENCE = 60
"""Largest number of lines of a difference."""
CONTEXT = 3
"""Unchanged lines before and after a change in a difference."""
WIDEST = 400
"""Largest number of characters of a line."""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of a file, beginning with line `first` (counted from 1). `cited` are the first and the last cited line; for
    a file that is cited as a whole, both are 0. The lines of a long definition end before its last line."""

    text: str
    first: int
    cited: tuple[int, int] = (0, 0)


def excerpt(code: Code, one: Citation) -> Excerpt | None:
    """The current code of a citation; None if the file is absent, binary, ignored or too large, or lacks the symbol."""
    source = code.text(one.path)
    if source is None:
        return None
    lines = source.splitlines()
    if not one.symbol:
        return Excerpt(_text(lines[:AROUND]), 1)
    span = spans_of(source, [one.symbol], one.path).get(one.symbol)
    if span is None:
        return None
    begin = max(0, span[0] - AROUND)
    end = span[1] + AROUND if span[1] - span[0] <= CITED else span[0] + CITED
    return Excerpt(_text(lines[begin:end]), begin + 1, (span[0] + 1, span[1]))


def difference(code: Code, one: Citation, verified: frozenset[str]) -> str:
    """The change of the cited lines since they were verified, in the unified format without its head; empty if the
    verified text is not in the history of the checkout. Runs git."""
    before = code.text_of(one.path, one.symbol, verified)
    if before is None:
        return ""
    old, new = _cited(before, one), _cited(code.text(one.path) or "", one)
    shown = [line for hunk in _hunks(*old, *new) for line in hunk]
    if len(shown) > DIFFERENCE:
        shown[DIFFERENCE:] = [f"… {len(shown) - DIFFERENCE} more lines"]
    return _text(shown)


def _cited(source: str, one: Citation) -> tuple[list[str], int]:
    """The cited lines, and the number of lines before them; the whole file if it lacks the symbol."""
    lines = source.splitlines()
    span = spans_of(source, [one.symbol], one.path).get(one.symbol) if one.symbol else None
    return (lines[span[0] : span[1]], span[0]) if span else (lines, 0)


def _hunks(old: Sequence[str], old_at: int, new: Sequence[str], new_at: int) -> Iterator[list[str]]:
    """The hunks of a unified difference; changes with at most twice `CONTEXT` lines between them are one hunk."""
    changes: list[tuple[int, int, int, int]] = []
    a = b = 0
    for run in (*common_parts(old, new), Run(len(old), len(new), 0)):
        if run.old > a or run.new > b:
            changes.append((a, run.old, b, run.new))
        a, b = run.old + run.length, run.new + run.length
    groups: list[list[tuple[int, int, int, int]]] = []
    for change in changes:
        if groups and change[0] - groups[-1][-1][1] <= 2 * CONTEXT:
            groups[-1].append(change)
        else:
            groups.append([change])
    for group in groups:
        before = min(CONTEXT, group[0][0])
        at, lines = group[0][0] - before, list[str]()
        for a, a_end, b, b_end in group:
            lines += [f" {line}" for line in old[at:a]]
            lines += [f"-{line}" for line in old[a:a_end]] + [f"+{line}" for line in new[b:b_end]]
            at = a_end
        lines += [f" {line}" for line in old[at : at + CONTEXT]]
        yield [f"@@ -{old_at + group[0][0] - before + 1} +{new_at + group[0][2] - before + 1} @@", *lines]


def _text(lines: Sequence[str]) -> str:
    return "\n".join(line if len(line) <= WIDEST else f"{line[: WIDEST - 1]}…" for line in lines)
