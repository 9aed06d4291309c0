"""The merge base of two histories with several best common ancestors.

Two replicas that merge the same pair differently leave a criss-cross. Their base is then the merge of all best common
ancestors, made like any other merge, conflicts included, in the order of their ids. Every replica computes the same,
and anything settled behind one of the ancestors stays settled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

C = TypeVar("C", bytes, int)
"""The id of a commit."""
T = TypeVar("T")
"""The content of a commit: a tree, or a graph."""

WIDEST = 16
"""Maximum number of best common ancestors of one pair that are merged."""
MOST = 64
"""Maximum number of merges of common ancestors for one merge. Beyond that, in a history made to cost more, the first
in id order stands for all: there may be an additional conflict, but no edit is lost."""


def in_common(
    a: C,
    b: C,
    *,
    bases: Callable[[C, C], Sequence[C]],
    held: Callable[[C], T],
    merge: Callable[[T | None, T, T], T],
) -> T | None:
    """The common content of commits a and b; None if their histories are unrelated.

    Args:
        bases: All best common ancestors of two commits.
        held: The content of a commit.
        merge: The three-way merge of two commits' content.
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
        """The merged content of these commits, one after the other."""
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
            # The merge so far descends from all before it, and shares with the next all their common ancestors.
            common = self._best({base for before in key[:n] for base in self._bases(before, one)})
            merged = self._merge(self.folded(common), merged, self._held(one))
        self._known[key] = merged
        return merged

    def _best(self, candidates: set[C]) -> list[C]:
        """The candidates that are no ancestor of another."""
        ordered = sorted(candidates)[:WIDEST]
        if len(ordered) < 2:
            return ordered
        return [
            one for one in ordered
            if not any(list(self._bases(one, other)) == [one] for other in ordered if other != one)
        ]  # fmt: skip
