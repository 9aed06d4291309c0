"""Relevance of notes to a question: weighted sums with fixed weights.

`score` ranks notes. `evidence` decides whether any note answers the question, and which notes are hits. `python -m
bench.finding.fitting` checks the weights; `docs/search.md` describes how they were found.
"""

from __future__ import annotations

import math

COMPARED = 8
"""Number of best notes that are compared by sentence."""

MEANING, MEANING_MOST = 2.5, 0.8
"""Weight of meaning in a note's score, as a multiple of the embedder's share, and at most. Notes are short, and
questions often say the same in other words."""
BY_FREQUENCY = 0.2
"""Part of the word score that depends on BM25. The rest depends on coverage, so many common words do not outweigh a
rare one."""

COVERED = 4.0
"""Weight of coverage in the evidence, relative to similarity."""
LACKING, WORDS, SHORTEST, ANSWERED = 6.0, 2.0, 3, 4.5
"""A question of n words is answered if `best - LACKING * lacking + WORDS * ln(n + SHORTEST) >= ANSWERED`; see `needed`.
The more words a question has, the smaller the share of them that a note has."""
ANSWERED_ALONE = 1.3
"""What `ANSWERED` grows by if words had no weight."""
LEAST, OF_BEST = 1.2, 0.4
"""Minimum evidence of a hit, absolute and as a share of the best evidence."""


def score(covered: float, frequency: float, nearness: float, share: float) -> float:
    """The score of a note, 0..1.

    Args:
        covered: The weighted share of the question's words that the note has; rare words weigh more.
        frequency: BM25, relative to the best note.
        nearness: Similarity: 0 for an irrelevant note, 1 for the most similar note.
        share: The embedder's weight, 0 without vectors.
    """
    weight = min(MEANING_MOST, MEANING * share)
    return (1 - weight) * covered * (1 - BY_FREQUENCY + BY_FREQUENCY * frequency) + weight * nearness


def preselection(covered: float, similarity: float) -> float:
    """The order in which notes are compared by sentence; the weights are close to the weights of `score`."""
    return 0.2 * covered + similarity


def evidence(covered: float, likeness: float, weight: float = 1.0) -> float:
    """How much a note says about a question; `likeness` is a multiple of the least relevant similarity.

    `weight` is the weight of words: the better an embedder, the less it matters which words are the same.
    """
    return weight * COVERED * covered + likeness


def needed(best: float, lacking: float, words: int, weight: float = 1.0) -> float:
    """The minimum evidence of a hit; infinite if no note answers the question.

    Args:
        best: The best evidence of all notes.
        lacking: The share of the question's words that no text in the workspace has.
        words: The number of words in the question.
        weight: See `evidence`.
    """
    answered = ANSWERED + (1 - weight) * ANSWERED_ALONE
    if best - weight * LACKING * lacking + WORDS * math.log(SHORTEST + words) < answered:
        return math.inf
    return max(LEAST, OF_BEST * best)
