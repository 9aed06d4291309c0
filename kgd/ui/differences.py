"""This file is where it is marked within a text what another version of it does not have, word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kgd.model.prose import common_parts

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_WORD = re.compile(r"\w+|\s+|[^\w\s]")
WORDS_LIMIT = 4_000
"""Words of a changed stretch that are compared one by one; a longer one is shown as taken out and put in."""
AROUND = 120
"""Characters of what stayed that are shown before and behind a change."""
GAP = " … "

Kind = Literal["same", "del", "ins"]


@dataclass(frozen=True, slots=True)
class Mark:
    """A stretch of text that both have, or that only the older or only the newer one has."""

    kind: Kind
    text: str


def marked(old: str, new: str, *, around: int | None = AROUND) -> list[Mark]:
    """The newer text with what was taken out in its place. Long stretches that stayed are cut to what is `around` a
    change; None: to nothing."""
    found: list[Mark] = []
    for one, two in _changed(_LINE.findall(old), _LINE.findall(new)):
        if one == two:
            _add(found, "same", "".join(two))
            continue
        words = _WORD.findall("".join(one)), _WORD.findall("".join(two))
        if max(map(len, words)) > WORDS_LIMIT:
            words = ["".join(one)], ["".join(two)]
        for before, after in _changed(*words):
            if before == after:
                _add(found, "same", "".join(after))
            else:
                _add(found, "del", "".join(before))
                _add(found, "ins", "".join(after))
    return found if around is None else [_cut(mark, n, len(found), around) for n, mark in enumerate(found)]


def _changed(old: list[str], new: list[str]) -> Iterator[tuple[list[str], list[str]]]:
    """Stretches of both in turn: alike, then not."""
    at_old = at_new = 0
    for run in common_parts(old, new):
        if run.old > at_old or run.new > at_new:
            yield old[at_old : run.old], new[at_new : run.new]
        at_old, at_new = run.old + run.length, run.new + run.length
        yield old[run.old : at_old], new[run.new : at_new]
    if at_old < len(old) or at_new < len(new):
        yield old[at_old:], new[at_new:]


def _add(found: list[Mark], kind: Kind, text: str) -> None:
    if not text:
        return
    if found and found[-1].kind == kind:
        found[-1] = Mark(kind, found[-1].text + text)
    else:
        found.append(Mark(kind, text))


def _cut(mark: Mark, number: int, count: int, around: int) -> Mark:
    text = mark.text
    if mark.kind != "same" or len(text) <= 2 * around + len(GAP):
        return mark
    begin = text[:around] if number else ""
    end = text[-around:] if number < count - 1 else ""
    return Mark("same", begin + GAP + end)
