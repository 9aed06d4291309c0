"""This file is where it is found what two texts have in common, part by part, and which version each part came with.

It takes a bounded time whatever the texts are: beyond it a part counts as changed that may be only moved.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

SMALL = 10_000
"""Pairs of parts that are compared with each other; larger stretches are first cut where something occurs once."""
EFFORT = 3_000_000
"""Steps of one comparison, about a second."""
PAIR = 20
"""Steps that a pair of a small stretch counts as."""
JOINED = 8
"""Versions before a merge that its parts may have come from."""


class Run(NamedTuple):
    """`length` parts that are alike: from `old` on in the one text, from `new` on in the other."""

    old: int
    new: int
    length: int


def alike(old: Sequence[str], new: Sequence[str]) -> list[Run]:
    """What both have, in the order of both. The beginning and the end that they share are always part of it."""
    found: list[Run] = []
    stretches = [(0, len(old), 0, len(new))]
    left = EFFORT
    while stretches:
        a, a_end, b, b_end = stretches.pop()
        a, a_end, b, b_end = _trimmed(old, new, (a, a_end, b, b_end), found)
        size = (a_end - a) * (b_end - b)
        if not size or left <= 0:
            continue
        if size <= SMALL:
            left -= size * PAIR
            blocks = SequenceMatcher(None, old[a:a_end], new[b:b_end], autojunk=False).get_matching_blocks()
            found += [Run(a + block.a, b + block.b, block.size) for block in blocks if block.size]
            continue
        left -= a_end - a + b_end - b
        at = (a, b)
        fixed = _fixed(old[a:a_end], new[b:b_end])
        for one, two in fixed:
            stretches.append((at[0], a + one, at[1], b + two))
            found.append(Run(a + one, b + two, 1))
            at = (a + one + 1, b + two + 1)
        if fixed:
            stretches.append((at[0], a_end, at[1], b_end))
    return _joined(sorted(found))


def blamed(versions: Sequence[Sequence[str]], merges: Collection[int] = ()) -> list[int]:
    """Which version each part of the last one came with, by its number.

    Args:
        versions: Oldest first.
        merges: Numbers of those that brought several lines of work together, and have parts of more than the one right
            before them.
    """
    past: list[tuple[Sequence[str], list[int]]] = []
    for number, parts in enumerate(versions):
        owners = [number] * len(parts)
        for before, known in reversed(past[-(JOINED if number in merges else 1) :]):
            if number not in owners:
                break
            for run in alike(before, parts):
                for step in range(run.length):
                    if owners[run.new + step] == number:
                        owners[run.new + step] = known[run.old + step]
        past.append((parts, owners))
    return past[-1][1] if past else []


def _trimmed(
    old: Sequence[str], new: Sequence[str], stretch: tuple[int, int, int, int], found: list[Run]
) -> tuple[int, int, int, int]:
    """The stretch without what both sides of it begin and end with, which is noted."""
    a, a_end, b, b_end = stretch
    begin = 0
    while a + begin < a_end and b + begin < b_end and old[a + begin] == new[b + begin]:
        begin += 1
    if begin:
        found.append(Run(a, b, begin))
        a, b = a + begin, b + begin
    end = 0
    while a < a_end - end and b < b_end - end and old[a_end - end - 1] == new[b_end - end - 1]:
        end += 1
    if end:
        found.append(Run(a_end - end, b_end - end, end))
    return a, a_end - end, b, b_end - end


def _fixed(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """What occurs once on either side, as the longest selection that has the same order on both."""
    once_old = {part for part, count in Counter(old).items() if count == 1}
    once_new = {part for part, count in Counter(new).items() if count == 1}
    places = {part: index for index, part in enumerate(new) if part in once_new}
    pairs = [(index, places[part]) for index, part in enumerate(old) if part in once_old and part in places]
    ends: list[int] = []
    """For each length the smallest place at which an ascending selection of it ends."""
    holders: list[int] = []
    previous: list[int] = []
    for number, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        previous.append(holders[length - 1] if length else -1)
        ends[length : length + 1] = [place]
        holders[length : length + 1] = [number]
    chosen, number = [], holders[-1] if holders else -1
    while number >= 0:
        chosen.append(pairs[number])
        number = previous[number]
    return chosen[::-1]


def _joined(runs: Sequence[Run]) -> list[Run]:
    """The runs, those that follow each other on both sides as one."""
    made: list[Run] = []
    for run in runs:
        if made and (made[-1].old + made[-1].length, made[-1].new + made[-1].length) == run[:2]:
            made[-1] = made[-1]._replace(length=made[-1].length + run.length)
        else:
            made.append(run)
    return made
