"""The built-in embedder, which needs no download: a static model beside this file.

A static model is a table with a vector for each token; the vector of a text is the mean of the vectors of its tokens.
`scripts/static_model.py` made the table: sums of its rows approximate the vectors of a sentence transformer.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from kgd.errors import Unavailable
from kgd.vectors.embedder import BUILTIN, Kind, Scale, Vectors

FOLDER = Path(__file__).parent / "static"
ROWS, LENGTHS, TOKENIZER = FOLDER / "rows.npy", FOLDER / "lengths.npy", FOLDER / "tokenizer.json"
SHARE = 0.3
"""Weight of similarity in a score, relative to full text; a larger weight improves results for prose but not for
chat."""
SCALE = Scale(0.0, 0.15, BUILTIN)
"""The least similarity was chosen for an earlier table. For this one, 0.12 to 0.18 give nearly the same figures."""
FEWEST = 20
"""Minimum number of texts for weights by rarity; with fewer, all words have the same weight. 20 works as well as
300."""
TEXT_LIMIT = 8_000
"""Maximum number of characters to read from a text: the mean of a longer text is less specific, and long documents also
have chunks."""
NO_PIECE = 0
"""The padding token, which an encoding without padding never has."""
UNKNOWN, FIRST_UNUSED, UNUSED = 100, 104, 895
"""The tokenizer's token for an unknown word, and its unused tokens, which have random vectors. Each character of an
unknown word counts as one of them, so texts in scripts that the tokenizer does not know are similar if they share
characters."""
WORDS_KEPT, LONGEST_KEPT = 20_000, 32
"""Number of words whose tokens are remembered, 3 MB, and their greatest length. No token spans two words, and a look-up
takes a tenth of the time."""
_LOADING = threading.Lock()


@dataclass(frozen=True, slots=True)
class Model:
    """The table, mapped from its file, and the tokenizer; shared by all workspaces of a process.

    A vector is a row of the table, as signed bytes, multiplied by its length.
    """

    digest: str
    table: NDArray[np.int8]
    lengths: NDArray[np.float16]
    tokenizer: Tokenizer

    def rows(self, pieces: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vectors of tokens, (n, dim)."""
        found: NDArray[np.float32] = self.table[pieces] * self.lengths[pieces].astype(np.float32)[:, None]
        return found

    def pieces(self, text: str) -> list[int]:
        # Encoded one by one, since batch encoding starts threads that compete with requests.
        clean = text[:TEXT_LIMIT].encode("utf-8", "replace").decode("utf-8")
        found = self.tokenizer.encode(clean, add_special_tokens=False)
        ids: list[int] = found.ids
        if UNKNOWN not in ids:
            return ids
        pieces = list[int]()
        for piece, (start, end) in zip(ids, found.offsets, strict=True):
            if piece == UNKNOWN:
                pieces += (FIRST_UNUSED + ord(one) % UNUSED for one in clean[start:end].lower())
            else:
                pieces.append(piece)
        return pieces


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
        """The model with equal weights for all words. The first load in a process takes a tenth of a second.

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
        # Conversion to floats is slow, so each token of the batch is converted once.
        used, places = np.unique(np.fromiter(chain.from_iterable(pieces), np.int64), return_inverse=True)
        rows = model.rows(used)
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
        rows = self._model.rows(used)
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
    try:
        table, lengths = np.load(ROWS, mmap_mode="r"), np.load(LENGTHS)
        digest = hashlib.sha256(table)  # reads all pages at once, so the process does not grow later
        digest.update(lengths)
        digest.update(TOKENIZER.read_bytes())
        tokenizer = Tokenizer.from_file(str(TOKENIZER))
    except Exception as error:  # the libraries raise plain Exceptions
        raise Unavailable(
            f"the built-in embedder's files cannot be read: {error}"[:300],
            next="Reinstall kgd, or choose another embedder in workspaces.yaml.",
        ) from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    with contextlib.suppress(AttributeError):  # its cache would keep 10,000 whole texts (70 MB) without saving time
        tokenizer.model._resize_cache(0)
    return Model(digest.hexdigest()[:12], table, lengths, tokenizer)
