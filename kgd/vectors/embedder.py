"""This file is where an embedder is defined: whatever turns texts into vectors that are near if they mean alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Kind = Literal["document", "query"]
Vectors = NDArray[np.float32]


ANY = -1.0
"""As `least`: every text has to do with every question."""


class Embedder(Protocol):
    """A model of meaning. Calls may come from several threads at once; none is made on the path of a request but for
    the one vector of a question.

    `id` names model and prefixes: vectors of different ids are never compared. `dim` is the length of a vector, 0
    while nobody knows it yet. `share` is what its similarity counts in a fused score, 0..1, beside full text's
    ``1 - share``; `least` the similarity that a text without any of a question's words needs to have to do with it,
    `ANY` where nobody measured that. `batch` is how many texts one call had best have.
    """

    @property
    def id(self) -> str: ...
    @property
    def dim(self) -> int: ...
    @property
    def share(self) -> float: ...
    @property
    def least(self) -> float: ...
    @property
    def batch(self) -> int: ...

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """One row of length 1 for each text, (n, `dim`); zeros for a text that says nothing.

        Raises:
            Unavailable: The model cannot be reached or read just now.
            Invalid: It answers vectors of another size, or of another number, or none.
        """

    def close(self) -> None:
        """Let go of what it holds open. Using it again is fine."""


@runtime_checkable
class Weighing(Protocol):
    """An embedder that weighs the words of a question by how rare they are where it is asked.

    What it learns is a function of the texts alone, whatever their order. Vectors of documents do not depend on it.
    """

    def tokens(self, text: str) -> bytes:
        """The different words of a text, in a form that is `learn`'s alone and worth keeping."""

    def learn(self, texts: Sequence[bytes]) -> None:
        """Weigh by these texts from now on; by nothing where they are too few to tell."""
