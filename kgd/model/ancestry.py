"""This file is where it is decided what two histories have in common, when that is more than one commit.

Two replicas that merged the same pair in different ways leave a criss-cross: several best common ancestors. What they
had in common is then the merge of those, made as any other merge is, conflicts included, in the order of their ids.
Every replica computes the same, and what was settled behind one of the ancestors stays settled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

C = TypeVar("C", bytes, int)
"""The id of a commit."""
T = TypeVar("T")
"""What a commit holds: a tree, or a graph."""

DEEPEST = 32
"""Criss-crosses upon each other that are followed; below, the first ancestor in id order stands for all of them."""


def in_common(
    a: C,
    b: C,
    *,
    bases: Callable[[C, C], Sequence[C]],
    held: Callable[[C], T],
    merge: Callable[[T | None, T, T], T],
) -> T | None:
    """What commits a and b have in common; None where their histories are unrelated.

    Args:
        bases: All best common ancestors of two commits.
        held: What a commit holds.
        merge: The three-way merge of what two commits hold.
    """
    return _folded(_sorted(bases(a, b)), bases, held, merge, DEEPEST)


def _folded(
    found: Sequence[C],
    bases: Callable[[C, C], Sequence[C]],
    held: Callable[[C], T],
    merge: Callable[[T | None, T, T], T],
    depth: int,
) -> T | None:
    if not found:
        return None
    merged = held(found[0])
    if depth == 0:
        return merged
    for n, one in enumerate(found[1:], 1):
        # What is merged so far descends from all before it, so it has in common with the next what any of them has.
        common = _best({base for before in found[:n] for base in bases(before, one)}, bases)
        merged = merge(_folded(common, bases, held, merge, depth - 1), merged, held(one))
    return merged


def _best(candidates: set[C], bases: Callable[[C, C], Sequence[C]]) -> list[C]:
    """Those that are no ancestor of another."""
    ordered = _sorted(candidates)
    return [one for one in ordered if not any(list(bases(one, other)) == [one] for other in ordered if other != one)]


def _sorted(commits: Iterable[C]) -> list[C]:
    return sorted(commits)
