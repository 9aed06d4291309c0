"""Segments of path patterns: parsing, and comparison with a name.

Without regular expressions: patterns are untrusted, and backtracking could stop the daemon.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from kgd.errors import Invalid

class_at = re.compile(r"\[[!^]?\]?[^\]/]*\]").match

Token = Callable[[str], bool] | str | None
"""One character: itself, a class, or None for any number of any characters."""


def fits_to(segment: str) -> Callable[[str], bool]:
    """A predicate for the names that match a segment. The literal spelling always matches: there are folders called
    `[slug]`."""
    if "?" in segment or "[" in segment:
        tokens = tokens_of(segment, segment, "")
        return lambda name: name == segment or _run(tokens, name)
    first, *middle, last = re.sub(r"\*+", "*", segment).split("*")
    least = len(first) + len(last)
    if not middle:
        return lambda name: len(name) >= least and name.startswith(first) and name.endswith(last)

    def fits(name: str) -> bool:
        if len(name) < least or not name.startswith(first) or not name.endswith(last):
            return False
        at, end = len(first), len(name) - len(last)
        for part in middle:
            found = name.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return True

    return fits


def _run(tokens: Sequence[Token], name: str) -> bool:
    """Match greedily; retrying only the last `*` suffices. O(tokens x characters)."""
    at = index = resume = 0
    anchor = -1
    while at < len(name):
        token = tokens[index] if index < len(tokens) else ""
        if token is None:
            anchor, resume = index, at
            index += 1
        elif token == name[at] or (callable(token) and token(name[at])):
            at, index = at + 1, index + 1
        elif anchor >= 0:
            resume += 1
            at, index = resume, anchor + 1
        else:
            return False
    return all(token is None for token in tokens[index:])


def tokens_of(segment: str, whole: str, at: str) -> list[Token]:
    tokens: list[Token] = []
    index = 0
    while index < len(segment):
        char = segment[index]
        if char == "[":
            found = class_at(segment, index)
            if found is None:
                raise refused(whole, "a class is not closed in its segment", at, "Close it with ], or use [[] for [.")
            tokens.append(_class(found[0][1:-1], whole, at))
            index = found.end()
            continue
        if char == "*":
            if not tokens or tokens[-1] is not None:
                tokens.append(None)
        else:
            tokens.append((lambda char: True) if char == "?" else char)
        index += 1
    return tokens


def _class(inside: str, whole: str, at: str) -> Callable[[str], bool]:
    negated = inside[0] in "!^"
    text = inside[1:] if negated else inside
    if any(mark in text for mark in ("[:", "[.", "[=")):
        raise refused(whole, "named classes are not supported", at, "Use characters or ranges, as in [a-z0-9].")
    if not text:
        raise refused(whole, "a class is empty", at, "Put characters between [ and ].")
    ranges: list[tuple[str, str]] = []
    index = 0
    while index < len(text):
        low = high = text[index]
        if text[index + 1 : index + 2] == "-" and index + 2 < len(text):
            high = text[index + 2]
            index += 2
        if low > high:
            raise refused(whole, f"the range {low}-{high} is reversed", at, f"Use {high}-{low}.")
        ranges.append((low, high))
        index += 1
    return lambda char: any(low <= char <= high for low, high in ranges) != negated


def refused(pattern: str, why: str, at: str, next: str) -> Invalid:
    shown = pattern if len(pattern) <= 80 else f"{pattern[:80]}…"
    return Invalid(f"'{shown}' is not a valid path pattern: {why}", at=at, next=next)
