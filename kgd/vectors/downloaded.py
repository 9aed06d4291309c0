"""This file is where models of `fastembed` are used: an extra, which fetches a model by its name on its first use."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from kgd.errors import Unavailable
from kgd.vectors import halves
from kgd.vectors.choosing import Choice
from kgd.vectors.embedder import ANY, Kind, Vectors

SHARE = 0.5
BATCH = 16
TEXT_LIMIT = 32_000


class Downloaded:
    """One model of that library. Use `load`."""

    def __init__(self, model: Any, choice: Choice) -> None:
        self._model, self._choice = model, choice
        told = "\0".join((choice.query_prefix, choice.document_prefix))
        self.id = f"fastembed/{choice.model}/{hashlib.sha256(told.encode()).hexdigest()[:12]}"
        self.batch = choice.batch or BATCH
        self.share = SHARE if choice.share is None else choice.share
        self.least = ANY
        self.dim = 0

    @classmethod
    def load(cls, choice: Choice) -> Downloaded:
        """Read the model; the first time it is downloaded, which takes minutes.

        Raises:
            Unavailable: The library is not there, knows no such model, or cannot fetch it.
        """
        try:
            library: Any = importlib.import_module("fastembed")
        except ImportError as error:
            raise Unavailable(
                "an embedder of kind fastembed needs that library",
                next="Run `uv tool install '.[fastembed]'` in the clone of kgd.",
            ) from error
        try:
            return cls(library.TextEmbedding(model_name=choice.model, threads=1), choice)
        except Exception as error:  # it raises whatever the hub, the disk or the model made of it
            raise Unavailable(f"fastembed cannot load this model: {error}"[:300], at=choice.model) from error

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """See `Embedder`. The library puts prefixes of its own before texts, where it knows a model to want them."""
        prefix = self._choice.query_prefix if kind == "query" else self._choice.document_prefix
        sent = [(prefix + text)[:TEXT_LIMIT].encode("utf-8", "replace").decode() for text in texts]
        ask = self._model.query_embed if kind == "query" else self._model.passage_embed
        try:
            vectors = np.array(list(ask(sent)), np.float32)
        except Exception as error:
            raise Unavailable(f"fastembed cannot run this model: {error}"[:300], at=self._choice.model) from error
        vectors[[not text.strip() for text in texts]] = 0
        vectors = halves.checked(vectors, len(texts), self.dim)
        self.dim = int(vectors.shape[1])
        return vectors

    def close(self) -> None:
        """Nothing is held open."""
