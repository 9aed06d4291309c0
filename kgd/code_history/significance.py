"""The test of significance for statements about past commits.

Fisher's exact test, one-sided: if `drawn` of `total` commits were picked at random, how often would at least `count` of
them be `marked`? A statement is shown if that probability, times the number of statements that were tried (Bonferroni),
is below `LEVEL`.
"""

from __future__ import annotations

from math import exp, inf, lgamma

LEVEL = 0.01


def by_chance(count: int, drawn: int, marked: int, total: int) -> float:
    """P(X >= count) for a hypergeometric X."""
    if count <= max(0, drawn + marked - total):
        return 1.0
    whole = _choose(total, drawn)
    most = min(drawn, marked)
    terms = (exp(_choose(marked, k) + _choose(total - marked, drawn - k) - whole) for k in range(count, most + 1))
    return min(1.0, sum(terms))


def is_significant(probability: float, tried: int) -> bool:
    """Whether a result is not due to chance, if `tried` statements were tested."""
    return probability * max(1, tried) < LEVEL


def _choose(of: int, count: int) -> float:
    """The logarithm of a binomial coefficient."""
    return lgamma(of + 1) - lgamma(count + 1) - lgamma(of - count + 1) if 0 <= count <= of else -inf
