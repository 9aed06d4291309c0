"""Comparing and merging texts in parts, such as lines.

Parts are matched by a patience diff: parts that are unique in both texts serve as anchors. This takes linear time,
except for a sort, however often a part repeats. Texts are untrusted, so a quadratic matcher must never get a whole
text. Merging is symmetric: `merge_text(base, a, b) == merge_text(base, b, a)`.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?", re.ASCII)
SEPARATOR = re.compile(r"\s*(?:-{3,}|#{1,6}\s|\*{3,}|\[)")
"""Start of an appended block's separator line: a rule, a heading or a bracket. The line also contains a timestamp."""
Block = tuple[str, ...]
"""Lines that were appended together."""


def merge_text(base: str, a: str, b: str) -> str | None:
    """The text with the edits of both sides, or None if they overlap.

    All blocks that either side appended are kept, ordered by the timestamp in their separator line, if there is one,
    then by hash. A block that both sides appended is kept once; a block that one side appended twice is kept twice. If
    one side cleared the text, any edit by the other side overlaps.
    """
    if a == b or b == base:
        return a
    if a == base:
        return b
    if base.strip() and not (a.strip() and b.strip()):
        return None  # split into lines, a cleared text is one empty line, which could match an empty line of the base
    if not base.strip() and (joined := _begun(a, b)) is not None:
        return joined
    if base.endswith("\n") and a.endswith("\n") and b.endswith("\n"):
        # The last line end is removed, so that appended text comes at the end and not before an empty line.
        merged = _merge_lines(base[:-1], a[:-1], b[:-1])
        return None if merged is None else merged + "\n"
    return _merge_lines(base, a, b)


def _begun(a: str, b: str) -> str | None:
    """The merge for an empty base: the dated blocks of both texts, or None if either contains other text.

    Blank lines around a block are ignored, because a block at the start of a text has no blank lines before it.
    """
    sides = [[_stripped(block) for block in _blocks(side.strip().split("\n"))] for side in (a, b)]
    if not all(_timestamp(block) for side in sides for block in side):
        return None
    text = "\n\n".join("\n".join(block) for block in _of_both(*sides))
    return text + "\n" if a.endswith("\n") and b.endswith("\n") else text


def _merge_lines(base: str, a: str, b: str) -> str | None:
    base_lines, a_lines, b_lines = base.split("\n"), a.split("\n"), b.split("\n")
    to_a, to_b = _matches(base_lines, a_lines), _matches(base_lines, b_lines)
    out: list[str] = []
    i = j = k = 0
    for stable in [*(n for n in range(len(base_lines)) if n in to_a and n in to_b), len(base_lines)]:
        at_end = stable == len(base_lines)
        to_j, to_k = (len(a_lines), len(b_lines)) if at_end else (to_a[stable], to_b[stable])
        chunk = _chunk(base_lines[i:stable], a_lines[j:to_j], b_lines[k:to_k], at_end)
        if chunk is None:
            return None
        out += chunk
        if not at_end:
            out.append(base_lines[stable])
        i, j, k = stable + 1, to_j + 1, to_k + 1
    return "\n".join(out)


def _chunk(base: list[str], a: list[str], b: list[str], at_end: bool) -> list[str] | None:
    if a == b or b == base:
        return a
    if a == base:
        return b
    if at_end and not base:
        return [line for block in _of_both(_blocks(a), _blocks(b)) for line in block]
    return None


def _of_both(a: list[Block], b: list[Block]) -> list[Block]:
    """The blocks of both sides in order, each repeated as often as on the side where it occurs more often."""
    return sorted((Counter(a) | Counter(b)).elements(), key=_order)


def _stripped(block: Block) -> Block:
    return tuple("\n".join(block).strip("\n").split("\n"))


def _order(block: Block) -> tuple[str, bytes]:
    return _timestamp(block), hashlib.sha256("\n".join(block).encode()).digest()


def _blocks(lines: list[str]) -> list[Block]:
    """The appended lines, cut before each dated separator; blank lines before a separator belong to it."""
    starts = [0]
    for n, line in enumerate(lines):
        if n and SEPARATOR.match(line) and TIMESTAMP.search(line):
            while n - 1 > starts[-1] and not lines[n - 1].strip():
                n -= 1
            if n > starts[-1] and any(part.strip() for part in lines[starts[-1] : n]):
                starts.append(n)
    return [tuple(lines[start:end]) for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]


def _timestamp(block: Block) -> str:
    line = next((line for line in block if line.strip()), "")
    found = TIMESTAMP.search(line) if SEPARATOR.match(line) else None
    return found.group() if found else ""


def _matches(base: list[str], side: list[str]) -> dict[int, int]:
    """Maps the number of each base line that the side kept to its number on the side; both numbers increase."""
    runs: list[Run] = []
    stretches = [(0, len(base), 0, len(side))]
    while stretches:
        stretch = _trimmed(base, side, stretches.pop(), runs)
        stretches += _between_anchors(base, side, stretch, runs)
    return {run.old + n: run.new + n for run in runs for n in range(run.length)}


# ---- comparing


SMALL = 10_000
"""Maximum number of pairs of parts to compare directly; larger stretches are first split at anchors."""
EFFORT = 3_000_000
"""Maximum steps of one comparison, about a second. Beyond that, a moved part may be reported as changed."""
PAIR = 20
"""Steps counted for each pair in a small stretch."""
JOINED = 8
"""Maximum number of earlier versions from which the parts of a merge may come."""


Stretch = tuple[int, int, int, int]
"""Begin and end in the old text, then begin and end in the new text."""


class Run(NamedTuple):
    """`length` equal parts, which begin at `old` in one text and at `new` in the other."""

    old: int
    new: int
    length: int


def common_parts(old: Sequence[str], new: Sequence[str]) -> list[Run]:
    """The common parts, in the order of both. A common beginning and a common end are always included."""
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
        stretches += _between_anchors(old, new, (a, a_end, b, b_end), found)
    return _joined(sorted(found))


def origin_versions(versions: Sequence[Sequence[str]], merges: Collection[int] = ()) -> list[int]:
    """For each part of the last version, the number of the version that introduced it.

    Args:
        versions: Oldest first.
        merges: Numbers of the versions that are merges, whose parts may come from versions other than the one before.
    """
    past: list[tuple[Sequence[str], list[int]]] = []
    for number, parts in enumerate(versions):
        owners = [number] * len(parts)
        for before, known in reversed(past[-(JOINED if number in merges else 1) :]):
            if number not in owners:
                break
            for run in common_parts(before, parts):
                for step in range(run.length):
                    if owners[run.new + step] == number:
                        owners[run.new + step] = known[run.old + step]
        past.append((parts, owners))
    return past[-1][1] if past else []


def _trimmed(old: Sequence[str], new: Sequence[str], stretch: Stretch, found: list[Run]) -> Stretch:
    """The stretch without its common beginning and end, which are added to `found`."""
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


def _between_anchors(old: Sequence[str], new: Sequence[str], stretch: Stretch, found: list[Run]) -> list[Stretch]:
    """The stretches between the anchors of a stretch; the anchors are added to `found`. Empty if there is no anchor."""
    a, a_end, b, b_end = stretch
    between: list[Stretch] = []
    start = (a, b)
    for one, two in _anchors(old[a:a_end], new[b:b_end]) if a < a_end and b < b_end else ():
        between.append((start[0], a + one, start[1], b + two))
        found.append(Run(a + one, b + two, 1))
        start = (a + one + 1, b + two + 1)
    return [*between, (start[0], a_end, start[1], b_end)] if between else []


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Parts that occur exactly once on each side: the longest selection of such parts in the same order on both
    sides."""
    once_old = {part for part, count in Counter(old).items() if count == 1}
    once_new = {part for part, count in Counter(new).items() if count == 1}
    places = {part: index for index, part in enumerate(new) if part in once_new}
    pairs = [(index, places[part]) for index, part in enumerate(old) if part in once_old and part in places]
    ends: list[int] = []
    """For each length, the smallest place at which an ascending selection of that length ends."""
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
    """The runs, with adjacent ones combined."""
    made: list[Run] = []
    for run in runs:
        if made and (made[-1].old + made[-1].length, made[-1].new + made[-1].length) == run[:2]:
            made[-1] = made[-1]._replace(length=made[-1].length + run.length)
        else:
            made.append(run)
    return made
