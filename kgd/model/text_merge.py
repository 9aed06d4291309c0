"""Comparing and merging texts by parts, such as lines.

Parts are matched by patience: parts unique in both texts anchor the rest. That is linear except for a sort, however
often a part repeats; texts come from anywhere, so no quadratic matcher may see them whole. Merging is symmetric:
`merge_text(base, a, b) == merge_text(base, b, a)`.
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
"""The separator line of an appended block starts like a rule, a heading or a bracket, and holds a timestamp."""
Block = tuple[str, ...]
"""Lines that were appended together."""


def merge_text(base: str, a: str, b: str) -> str | None:
    """The text with the edits of both sides, or None if they overlap.

    Blocks that both sides appended are all kept, ordered by the timestamp in their separator line if they have one,
    then by hash. A block that both appended counts as one edit; a block that one side appended twice stays twice. If
    one side cleared the text, every other edit of it overlaps.
    """
    if a == b or b == base:
        return a
    if a == base:
        return b
    if base.strip() and not (a.strip() and b.strip()):
        return None  # as lines, a cleared text is an empty line, which would match one of the base
    if not base.strip() and (joined := _begun(a, b)) is not None:
        return joined
    if base.endswith("\n") and a.endswith("\n") and b.endswith("\n"):
        # Without the last line end, an appended text is at the end, and not before an empty line.
        merged = _merge_lines(base[:-1], a[:-1], b[:-1])
        return None if merged is None else merged + "\n"
    return _merge_lines(base, a, b)


def _begun(a: str, b: str) -> str | None:
    """The dated blocks of two texts that hold nothing else, for an empty base; None if they hold other text.

    Blank lines around a block do not count: a block at the start of a text has none before it.
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
    """The blocks of both sides in order, each as often as in the side that has it more often."""
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
    """The line of the side for each base line that it kept: increasing in both."""
    runs: list[Run] = []
    stretches = [(0, len(base), 0, len(side))]
    while stretches:
        stretch = _trimmed(base, side, stretches.pop(), runs)
        stretches += _between_anchors(base, side, stretch, runs)
    return {run.old + n: run.new + n for run in runs for n in range(run.length)}


# ---- comparing


SMALL = 10_000
"""Maximum number of pairs of parts that are compared with each other; larger stretches are first split at anchors."""
EFFORT = 3_000_000
"""Steps of one comparison, about a second. Beyond it a moved part may count as changed."""
PAIR = 20
"""Steps that a pair of a small stretch counts as."""
JOINED = 8
"""Versions before a merge that its parts may come from."""


Stretch = tuple[int, int, int, int]
"""Begin and end in the old text, begin and end in the new one."""


class Run(NamedTuple):
    """`length` equal parts: from `old` in one text, from `new` in the other."""

    old: int
    new: int
    length: int


def common_parts(old: Sequence[str], new: Sequence[str]) -> list[Run]:
    """The common parts, in the order of both. A common beginning and end always belong to it."""
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
    """The number of the version that introduced each part of the last one.

    Args:
        versions: Oldest first.
        merges: Numbers of merge versions, which have parts of more versions than the one before.
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
    """The stretches between the anchors of a stretch, which are added to `found`; none without an anchor."""
    a, a_end, b, b_end = stretch
    between: list[Stretch] = []
    start = (a, b)
    for one, two in _anchors(old[a:a_end], new[b:b_end]) if a < a_end and b < b_end else ():
        between.append((start[0], a + one, start[1], b + two))
        found.append(Run(a + one, b + two, 1))
        start = (a + one + 1, b + two + 1)
    return [*between, (start[0], a_end, start[1], b_end)] if between else []


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Parts that occur once on each side, as the longest selection with the same order on both."""
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
    """The runs, with adjacent ones combined."""
    made: list[Run] = []
    for run in runs:
        if made and (made[-1].old + made[-1].length, made[-1].new + made[-1].length) == run[:2]:
            made[-1] = made[-1]._replace(length=made[-1].length + run.length)
        else:
            made.append(run)
    return made
