"""This file is where an embedder is defined: whatever turns texts into vectors that are near if they mean alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Kind = Literal["document", "query"]
Vectors = NDArray[np.float32]


class Embedder(Protocol):
    """A model of meaning. Calls may come from any thread, one at a time; none is made on the path of a request but for
    the one vector of a question.

    `id` names model, dimension and prefixes: vectors of different ids are never compared. `dim` is the length of a
    vector. `share` is what its similarity counts in a fused score, 0..1, beside full text's ``1 - share``.
    """

    @property
    def id(self) -> str: ...
    @property
    def dim(self) -> int: ...
    @property
    def share(self) -> float: ...

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """One row of length 1 for each text, (n, `dim`); zeros for a text that says nothing.

        Raises:
            Unavailable: The model cannot be reached or read just now.
            Invalid: It answers vectors of another size, or of another number.
        """
