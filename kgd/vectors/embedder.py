"""Embedders: models that turn texts into vectors, which are near each other if the texts have similar meanings.

Models differ in the similarity of two unrelated texts; a `Scale` gives the relevance of similarities. The names of a
workspace's notes stand for questions about other notes: a relevant text is more similar to a question than most notes
are to the name of another note. The sentences of a note stand for texts that say the same in other words: the better an
embedder tells them from the sentences of other notes, the less weight common words have.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kgd.errors import Invalid
from kgd.model.uri import Uri
from kgd.vectors.choosing import Choice

if TYPE_CHECKING:
    from kgd.vectors.nearest import Nearest


Kind = Literal["document", "query"]
Vectors = NDArray[np.float32]

SHARE = 0.5
MOST = 127
"""The largest number of a stored vector."""

CONSIDERED, COMPARED, FEWEST = 128, 32, 10
"""Largest numbers of notes whose names are read and compared, and the smallest number that gives a scale."""
ENOUGH, SENTENCES = 24, 4
"""Smallest number of notes whose sentences are compared, and the largest number of sentences of a note. With 10 or 16
notes the result depends more on the notes than on the embedder."""
BUILTIN, BETTER, WORDS = 0.4, 3.1, 1 / 3
"""The weight of words with the built-in model, how fast it falls with a better contrast, and its minimum."""
ZERO_SHARE, LEAST_SHARE = 0.1, 0.8
"""Share of the similarities that are below the similarity of relevance 0 and of relevance 1. `docs/ranking.md` says how
they were found."""
_DIGITS = 6
"""Decimal places that do not depend on the machine."""
_NO_LETTERS = re.compile(r"[\W\d_]+")


class Embedder(Protocol):
    """An embedding model. Several threads may call it. A request waits only for the vector of its own query.

    `id` identifies the model and the prefixes: vectors of different ids are never compared. `dim` is the length of a
    vector, 0 until it is known. `share` is the weight of its similarity in a fused score, 0..1; full text has the
    remaining weight. `scale` is the relevance of its similarities; None if it must be measured on a workspace's notes.
    `batch` is the best number of texts per call.
    """

    @property
    def id(self) -> str: ...
    @property
    def dim(self) -> int: ...
    @property
    def share(self) -> float: ...
    @property
    def scale(self) -> Scale | None: ...
    @property
    def batch(self) -> int: ...

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """One row of length 1 for each text, (n, `dim`); zeros for an empty text.

        Raises:
            Unavailable: The model cannot be reached or read.
            Invalid: The model returns no vectors, or the wrong number or size of vectors.
        """

    def close(self) -> None:
        """Release resources. The embedder may be used again."""


@runtime_checkable
class Weighing(Protocol):
    """An embedder that weighs the words of a query by their rarity in the workspace.

    The weights are a function of the set of texts. Vectors of documents do not depend on them.
    """

    def tokens(self, text: str) -> bytes:
        """The distinct words of a text, in a private form for `learn`."""

    def learn(self, texts: Sequence[bytes]) -> None:
        """Compute the weights from these texts; if there are too few, all words have the same weight."""


@runtime_checkable
class Quick(Protocol):
    """An embedder quick enough to embed sentences during a search."""

    def closest(self, query: NDArray[np.float32], texts: Sequence[Sequence[str]]) -> list[float]:
        """For each text, the similarity of the sentence nearest to the query; 0.0 for a text without words."""


class Configured:
    """The settings shared by embedders that a user configures."""

    scale: Scale | None = None

    def __init__(self, choice: Choice, name: str, batch: int, *settings: object) -> None:
        settings_digest = hashlib.sha256("\0".join(map(str, settings)).encode()).hexdigest()[:12]
        self.id = f"{choice.kind}/{name}/{settings_digest}"
        self.batch = choice.batch or batch
        self.share = SHARE if choice.share is None else choice.share
        self.dim = 0
        self._choice = choice

    def prefixed(self, texts: Sequence[str], kind: Kind, limit: int) -> list[str]:
        """The texts with the prefix of their kind, cut to `limit` characters, as valid UTF-8."""
        prefix = self._choice.query_prefix if kind == "query" else self._choice.document_prefix
        return [(prefix + text)[:limit].encode("utf-8", "replace").decode() for text in texts]

    def close(self) -> None:
        """Do nothing: the model holds no resources."""


def checked(vectors: Vectors, count: int, dim: int) -> Vectors:
    """The vectors scaled to length 1, or zero.

    Args:
        dim: The expected length; 0 if unknown.

    Raises:
        Invalid: Their number or length differs, or they are not finite.
    """
    way_out = "Check the model's server; `kgd reindex` starts again with another model."
    if vectors.ndim != 2 or len(vectors) != count or not vectors.shape[1]:
        raise Invalid(f"the embedder returned vectors of shape {vectors.shape} for {count} texts", next=way_out)
    if dim and vectors.shape[1] != dim:
        raise Invalid(f"the embedder returned vectors of {vectors.shape[1]} numbers instead of {dim}", next=way_out)
    if not np.isfinite(vectors).all():
        raise Invalid("the embedder returned vectors that are not finite", next=way_out)
    return unit(vectors)


def unit(vectors: Vectors) -> Vectors:
    """The vectors scaled to length 1; zeros stay zero."""
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)[:, None]
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def to_bytes(vectors: Vectors) -> list[bytes]:
    """Each vector as signed bytes, scaled so that the largest is 127; empty for zeros. Its length is not stored."""
    largest = np.abs(vectors).max(axis=1, keepdims=True, initial=0)
    scaled = np.round(vectors * (MOST / np.where(largest > 0, largest, 1))).astype(np.int8)
    return [row.tobytes() if row.any() else b"" for row in scaled]


def from_bytes(stored: Sequence[bytes], dim: int) -> Vectors:
    """The stored vectors, of length 1.

    Raises:
        Invalid: The bytes are not vectors of this size.
    """
    if any(len(one) != dim for one in stored):
        raise Invalid("stored vectors have another size")
    return unit(np.frombuffer(b"".join(stored), np.int8).reshape(len(stored), dim).astype(np.float32))


class Scale(NamedTuple):
    """The similarities of relevance 0 and 1; a text of relevance 1 or more is relevant.

    `words` is the weight of common words beside relevance: 1 for a weak model, less for a better one.
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
    zero, least = (
        (round(float(one), _DIGITS) for one in np.quantile(found, [ZERO_SHARE, LEAST_SHARE])) if found else (0.0, 0.0)
    )
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
    if builtin <= 0:
        return 1.0
    return round(min(1.0, max(WORDS, BUILTIN - BETTER * (own / builtin - 1))), _DIGITS)
