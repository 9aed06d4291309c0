"""The built-in embedder, which needs no download: the static model inside the wheel of `wordllama`.

A static model is a table with a vector for each token; the vector of a text is the mean of the vectors of its tokens.
The package itself is never imported, because it would load four times as much and look for its files on the network.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from kgd.errors import Unavailable
from kgd.vectors.embedder import Kind, Scale, Vectors

WEIGHTS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
SHARE = 0.3
"""Weight of similarity in a score, relative to full text; a larger weight improves results for prose but not for
chat."""
SCALE = Scale(0.0, 0.15)
"""For queries unrelated to the workspace, the nearest of a dozen texts had 0.04 to 0.12; for queries in other words,
the right text had 0.31 or more, and related texts 0.17 to 0.2."""
FEWEST = 20
"""Minimum number of texts for weights by rarity; with fewer, all words have the same weight. 20 works as well as
300."""
TEXT_LIMIT = 8_000
"""Maximum number of characters to read from a text: the mean of a longer text is less specific, and long documents also
have chunks."""
NO_PIECE = 0
"""The token for unknown text, which a tokenizer with bytes never returns."""
WORDS_KEPT, LONGEST_KEPT = 20_000, 32
"""Number of words whose tokens are remembered, 3 MB, and their greatest length. No token spans two words, and a look-up
takes a tenth of the time."""
_LOADING = threading.Lock()


@dataclass(frozen=True, slots=True)
class Model:
    """The table and the tokenizer: 40 MB, shared by all workspaces of a process."""

    digest: str
    table: NDArray[np.float16]
    tokenizer: Tokenizer

    def pieces(self, text: str) -> list[int]:
        # Encoded one by one, since batch encoding starts threads that compete with requests.
        clean = text[:TEXT_LIMIT].encode("utf-8", "replace").decode("utf-8")
        return list(self.tokenizer.encode(clean, add_special_tokens=False).ids)


class Builtin:
    """The static model, with the weights of one workspace."""

    batch = 64
    scale = SCALE

    def __init__(self, model: Model, share: float | None = None) -> None:
        self._model = model
        self.share = SHARE if share is None else share
        self._weights: NDArray[np.float32] | None = None
        self.id = f"builtin/{model.digest}"
        self.dim = int(model.table.shape[1])

    @classmethod
    def load(cls, share: float | None = None) -> Builtin:
        """The model with equal weights for all words. The first load in a process takes a quarter of a second.

        Raises:
            Unavailable: The files are missing or unusable.
        """
        with _LOADING:
            return cls(_model(), share)

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """See `Embedder`. Vectors of documents are unweighted means, so they stay valid when the weights change."""
        model, weights = self._model, self._weights if kind == "query" else None
        pieces = [model.pieces(text) for text in texts]
        found = np.zeros((len(texts), self.dim), np.float32)
        # Converting halves to floats is slow, so each token of the batch is converted once.
        used, places = np.unique(np.fromiter(chain.from_iterable(pieces), np.int64), return_inverse=True)
        rows = model.table[used].astype(np.float32)
        if weights is not None:
            rows *= weights[used][:, None]
        start = 0
        for number, own in enumerate(pieces):
            if own:
                mean = rows[places[start : start + len(own)]].mean(axis=0)
                length = float(np.linalg.norm(mean))
                found[number] = mean / length if length > 0 else 0.0
            start += len(own)
        return found

    def closest(self, query: NDArray[np.float32], texts: Sequence[Sequence[str]]) -> list[float]:
        """See `Quick`. About 40 µs for a text of 80 words."""
        pieces, sentences, first = list[int](), list[int](), list[int]()
        for text in texts:
            first.append(len(sentences))
            for sentence in text or [""]:
                sentences.append(len(pieces))
                for word in sentence.split():
                    pieces += _pieces_of_word(word) if len(word) <= LONGEST_KEPT else self._model.pieces(word)
                pieces.append(NO_PIECE)  # a sentence without words needs a row too
        if not pieces:
            return []
        used, places = np.unique(np.array(pieces), return_inverse=True)
        rows = self._model.table[used].astype(np.float32)
        rows[used == NO_PIECE] = 0.0
        sums = np.add.reduceat(rows[places], sentences)
        lengths = np.linalg.norm(sums, axis=1)
        near = np.maximum.reduceat(sums @ query / np.where(lengths > 0, lengths, 1.0), first)
        return [float(one) for one in near]

    def tokens(self, text: str) -> bytes:
        return np.unique(np.array(self._model.pieces(text), np.uint16)).tobytes()

    def learn(self, texts: Sequence[bytes]) -> None:
        """See `Weighing`: the weight of a token is the logarithm of its inverse document frequency."""
        if len(texts) < FEWEST:
            self._weights = None
            return
        pieces = np.frombuffer(b"".join(texts), np.uint16)
        having = np.bincount(pieces, minlength=len(self._model.table)).astype(np.float64)
        count = len(texts)
        self._weights = np.log(1 + (count - having + 0.5) / (having + 0.5)).astype(np.float32)

    def close(self) -> None:
        """Do nothing: the model holds no resources."""


@functools.lru_cache(WORDS_KEPT)
def _pieces_of_word(word: str) -> tuple[int, ...]:
    return tuple(_model().pieces(word))


@functools.cache
def _model() -> Model:
    spec = importlib.util.find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise Unavailable(
            "the package wordllama is not installed, so there is no built-in embedder",
            next="Reinstall kgd, or choose another embedder in workspaces.yaml.",
        )
    root = Path(spec.origin).parent
    try:
        with open(root / WEIGHTS, "rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()[:12]
        [table] = load_file(root / WEIGHTS).values()
        tokenizer = Tokenizer.from_file(str(root / TOKENIZER))
    except Exception as error:  # the libraries raise plain Exceptions
        raise Unavailable(
            f"the built-in embedder's files cannot be read: {error}"[:300],
            next="Reinstall wordllama, or choose another embedder in workspaces.yaml.",
        ) from error
    if table.ndim != 2 or len(table) > 1 << 16:
        raise Unavailable("the built-in embedder's table has an unexpected format", next="Reinstall wordllama.")
    tokenizer.no_padding()
    tokenizer.no_truncation()
    with contextlib.suppress(AttributeError):  # its cache would keep 10,000 whole texts (70 MB) without saving time
        tokenizer.model._resize_cache(0)
    return Model(digest, table, tokenizer)
