"""The citations of a node, each with its code and the change since it was verified."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kgd.freshness.citations import ABSENT, Citation, of
from kgd.freshness.code import FOLDER, Code, spans_of
from kgd.freshness.freshness import Checked, Freshness
from kgd.model.escaping import printable
from kgd.model.text_merge import Run, common_parts
from kgd.model.uri import from_path
from kgd.tools.nodes import CitationAnswer, Found, moment
from kgd.tools.paging import Room
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace

LISTED = 20
"""Largest number of citations with code; the others have only their text."""

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


def add(session: Session, found: Found, answer: dict[str, Any], room: Room) -> None:
    """Add the citations of a stored node to its answer, with code as far as there is room.

    The holder of a token gets no code: with permission to write, they could have a node cite any file of this machine.
    """
    if found.stored is None:
        return
    freshness = Freshness.of(found.workspace)
    if session.principal is not None or found.as_of or freshness.code is None:
        listed = [_named(found.workspace, one) for one in of(found.stored, found.workspace.id)]
    else:
        listed = []
        for one in freshness.checked(found.uri, found.stored):
            whole = named = _named(found.workspace, one.citation)
            if len(listed) < LISTED:
                whole = _with_code(named, one, freshness.code)
            listed.append(whole if room.take(whole) else named)
    if listed:
        answer["citations"] = listed


def _named(workspace: Workspace, one: Citation) -> CitationAnswer:
    answer: CitationAnswer = {"text": one.text, "file": from_path("file", workspace.id, one.path)}
    if one.symbol:
        answer["symbol"] = one.symbol
    return answer


def _with_code(named: CitationAnswer, one: Checked, code: Code) -> CitationAnswer:
    answer = named.copy()
    present = code.present(one.citation.path, one.citation.symbol)
    if one.finding is not None:
        answer["state"] = "absent" if one.finding.change == ABSENT else "changed"
        answer["reason"] = one.finding.change
        if one.finding.since is not None:
            answer["since"] = moment(one.finding.since)
    elif present.id == FOLDER:
        answer["state"], answer["file"] = "verified", answer["file"].replace("file:", "dir:", 1)
    elif present.known:
        answer["state"] = "absent" if not present.id else "verified" if present.id in one.verified else "unverified"
        if not present.has_symbol:
            answer["reason"] = "the symbol is not found; the whole file is compared instead"
    if shown := excerpt(code, one.citation):
        answer |= {"code": printable(shown.text), "first": shown.first}
        if shown.cited[0]:
            answer["cited"] = list(shown.cited)
    if one.finding is not None and (diff := difference(code, one)):
        answer["diff"] = printable(diff)
    return answer


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


def difference(code: Code, checked: Checked) -> str:
    """The change of the cited lines since they were verified, in the unified format without its head; empty if the
    verified text is not in the history of the checkout. Runs git."""
    one = checked.citation
    before = code.text_of(one.path, one.symbol, checked.verified, checked.former)
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
