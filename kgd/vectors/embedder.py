"""Embedders: models that turn texts into vectors, which are near each other if the texts have similar meanings."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kgd.errors import Invalid
from kgd.vectors.choosing import Choice
from kgd.vectors.scale import Scale

Kind = Literal["document", "query"]
Vectors = NDArray[np.float32]

SHARE = 0.5
MOST = 127
"""The largest number of a stored vector."""


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
