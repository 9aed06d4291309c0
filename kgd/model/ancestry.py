"""This file is where it is decided what two histories have in common, when that is more than one commit.

Two replicas that merged the same pair in different ways leave a criss-cross: several best common ancestors. What they
had in common is then the merge of those, made as any other merge is, conflicts included, in the order of their ids.
Every replica computes the same, and what was settled behind one of the ancestors stays settled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

C = TypeVar("C", bytes, int)
"""The id of a commit."""
T = TypeVar("T")
"""What a commit holds: a tree, or a graph."""

WIDEST = 16
"""Best common ancestors of one pair that are merged."""
MOST = 64
"""Merges of common ancestors for one merge. A history made to cost more than that has fewer ancestors merged: the
first in id order stands for all, which may give a conflict too many, and costs nobody an edit."""


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
    return _Ancestors(bases, held, merge).folded(sorted(bases(a, b)))


class _Ancestors(Generic[C, T]):
    def __init__(
        self, bases: Callable[[C, C], Sequence[C]], held: Callable[[C], T], merge: Callable[[T | None, T, T], T]
    ) -> None:
        self._bases: Callable[[C, C], Sequence[C]] = bases
        self._held: Callable[[C], T] = held
        self._merge: Callable[[T | None, T, T], T] = merge
        self._left = MOST
        self._known: dict[tuple[C, ...], T] = {}

    def folded(self, found: Sequence[C]) -> T | None:
        """What the merge of these commits holds, one after the other."""
        if not found:
            return None
        key = tuple(found[:WIDEST])
        known = self._known.get(key)
        if known is not None:
            return known
        merged = self._held(key[0])
        for n, one in enumerate(key[1:], 1):
            if self._left == 0:
                break
            self._left -= 1
            # What is merged so far descends from all before it, so it has in common with the next what any of them has.
            common = self._best({base for before in key[:n] for base in self._bases(before, one)})
            merged = self._merge(self.folded(common), merged, self._held(one))
        self._known[key] = merged
        return merged

    def _best(self, candidates: set[C]) -> list[C]:
        """Those that are no ancestor of another."""
        ordered = sorted(candidates)[:WIDEST]
        if len(ordered) < 2:
            return ordered
        return [
            one for one in ordered
            if not any(list(self._bases(one, other)) == [one] for other in ordered if other != one)
        ]  # fmt: skip
