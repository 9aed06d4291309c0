"""The merge base of two histories with several best common ancestors.

Two replicas that merge the same pair of commits independently create a criss-cross history. The base is then the merge
of all best common ancestors in the order of their ids, made like any other merge, including conflicts. Every replica
computes the same base, and a conflict that was settled before one of the ancestors stays settled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

C = TypeVar("C", bytes, int)
"""The id of a commit."""
T = TypeVar("T")
"""The content of a commit: a tree, or a graph."""

WIDEST = 16
"""Maximum number of best common ancestors that are merged for one pair of commits."""
MOST = 64
"""Maximum number of merges of common ancestors for one merge. In a history crafted to need more, the first ancestor by
id is used alone: there may be an additional conflict, but no edit is lost."""


def common_content(
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
    known: dict[tuple[C, ...], T] = {}
    left = MOST

    def folded(found: Sequence[C]) -> T | None:
        """The merged content of these commits, one after the other."""
        nonlocal left
        if not found:
            return None
        key = tuple(found[:WIDEST])
        if key not in known:
            merged = held(key[0])
            for n, one in enumerate(key[1:], 1):
                if left == 0:
                    break
                left -= 1
                # The merge so far descends from all earlier commits, so it shares with the next commit the ancestors
                # that any of them shares.
                common = _best({base for before in key[:n] for base in bases(before, one)}, bases)
                merged = merge(folded(common), merged, held(one))
            known[key] = merged
        return known[key]

    return folded(sorted(bases(a, b)))


def _best(candidates: set[C], bases: Callable[[C, C], Sequence[C]]) -> list[C]:
    """The candidates that are not ancestors of another candidate."""
    ordered = sorted(candidates)[:WIDEST]
    if len(ordered) < 2:
        return ordered
    return [one for one in ordered if not any(list(bases(one, other)) == [one] for other in ordered if other != one)]
