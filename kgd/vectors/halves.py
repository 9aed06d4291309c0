"""This file is where vectors become the bytes that are stored, two a number, and where what is no vector is refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kgd.errors import Invalid
from kgd.vectors.embedder import Vectors


def checked(vectors: Vectors, count: int, dim: int) -> Vectors:
    """The same, of length 1 each, or zero.

    Args:
        dim: What their length was until now; 0 where nobody knows.

    Raises:
        Invalid: There are fewer or more, they are of another length, or hold what is no number.
    """
    way_out = "Look at what serves the model; `kgd reindex` begins anew with another."
    if vectors.ndim != 2 or len(vectors) != count or not vectors.shape[1]:
        raise Invalid(f"the embedder answered vectors of shape {vectors.shape} for {count} texts", next=way_out)
    if dim and vectors.shape[1] != dim:
        raise Invalid(f"the embedder answers vectors of {vectors.shape[1]} numbers, and had {dim} before", next=way_out)
    if not np.isfinite(vectors).all():
        raise Invalid("the embedder answers vectors with what is no number", next=way_out)
    lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)[:, None]
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def to_bytes(vectors: Vectors) -> list[bytes]:
    """Each as little-endian halves; empty for zeros."""
    return [row.tobytes() if row.any() else b"" for row in vectors.astype("<f2")]


def from_bytes(halves: Sequence[bytes], dim: int) -> Vectors:
    """The vectors again, a little shorter or longer than 1.

    Raises:
        Invalid: These bytes are something else.
    """
    if any(len(one) != 2 * dim for one in halves):
        raise Invalid("stored vectors are of another size")
    vectors = np.frombuffer(b"".join(halves), "<f2").reshape(len(halves), dim).astype(np.float32)
    if not np.isfinite(vectors).all():
        raise Invalid("stored vectors hold what is no number")
    return vectors
