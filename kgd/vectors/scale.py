"""Relevance of similarities. Models differ in the similarity of two unrelated texts.

The names of a workspace's notes stand for questions about other notes: a relevant text is more similar to a question
than most notes are to the name of another note. The sentences of a note stand for texts that say the same in other
words: the better an embedder tells them from the sentences of other notes, the less weight common words have.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kgd.model.uri import Uri

if TYPE_CHECKING:
    from kgd.vectors.nearest import Nearest

CONSIDERED, COMPARED, FEWEST = 128, 32, 10
"""Largest numbers of notes whose names are read and compared, and the smallest number that gives a scale."""
ENOUGH, SENTENCES = 24, 4
"""Smallest number of notes whose sentences are compared, and the largest number of sentences of a note. With 10 or 16
notes the result depends more on the notes than on the embedder."""
BETTER, WORDS = 2.5, 1 / 3
"""How fast the weight of words falls with a contrast better than the built-in model has, and its minimum."""
ZERO, LEAST = 0.1, 0.8
"""Share of the similarities that are below the similarity of relevance 0 and of relevance 1. `docs/search.md` describes
how they were found."""
_DIGITS = 6
"""Decimal places that do not depend on the machine."""
_NO_LETTERS = re.compile(r"[\W\d_]+")


class Scale(NamedTuple):
    """The similarities of relevance 0 and 1; a text of relevance 1 or more is relevant.

    `words` is the weight of common words beside relevance: 1 as with the built-in model, less for a better model.
    """

    zero: float
    least: float
    words: float = 1.0

    def relevance(self, similarity: float) -> float:
        """The relevance of a text with this similarity to a query, at least 0."""
        return max(0.0, (similarity - self.zero) / (self.least - self.zero))


def compared(names: Iterable[tuple[Uri, str]]) -> dict[Uri, str]:
    """The notes to compare, with their names. Of names that differ only in numbers, one is used."""
    first: dict[str, tuple[Uri, str]] = {}
    for uri, name in names:
        if letters := _NO_LETTERS.sub(" ", name).strip().casefold():
            first.setdefault(letters, (uri, name))
    return dict(islice(first.values(), COMPARED))


def measured(nearest: Nearest, questions: Mapping[Uri, NDArray[np.float32]]) -> Scale | None:
    """The scale of an embedder, from the names of notes, embedded as questions; None if there are too few."""
    if len(questions) < FEWEST:
        return None
    similar = (nearest.similarity(vector, questions.keys() - {uri}).values() for uri, vector in questions.items())
    found = [one for some in similar for one in some]
    zero, least = (round(float(one), _DIGITS) for one in np.quantile(found, [ZERO, LEAST])) if found else (0.0, 0.0)
    return Scale(zero, least) if zero < least else None


def contrast(vectors: ArrayLike, notes: Sequence[int]) -> float:
    """How much more similar two sentences of the same note are than sentences of two notes, in standard deviations.

    Args:
        vectors: One row of length 1 for each sentence.
        notes: The number of each sentence's note.
    """
    if len(notes) < 2:
        return 0.0
    rows, numbers = np.asarray(vectors, np.float32), np.asarray(notes)
    similar = rows @ rows.T
    other = numbers[:, None] != numbers
    same = ~other & ~np.eye(len(notes), dtype=np.bool_)
    spread = float(similar[other].std()) if other.any() and same.any() else 0.0
    return float(similar[same].mean() - similar[other].mean()) / spread if spread else 0.0


def weight_of_words(own: float, builtin: float) -> float:
    """The weight of common words beside the similarities of an embedder, from its contrast and the built-in model's."""
    better = own / builtin - 1 if builtin > 0 else 0.0
    return round(min(1.0, max(WORDS, 1 - BETTER * better)), _DIGITS)
