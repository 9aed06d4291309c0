"""Transformer models on this machine: a folder with an ONNX model, or a model that `fastembed` downloads.

The libraries are the extras `onnx` and `fastembed`. A model runs on one thread without busy
waiting, so that it does not slow down requests.
"""

from __future__ import annotations

import hashlib
import importlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from kgd.errors import Invalid, Unavailable
from kgd.vectors.choosing import Choice
from kgd.vectors.embedder import Configured, Kind, Vectors, checked, unit

BATCH = 16
TEXT_LIMIT = 32_000
"""Maximum number of characters to tokenize; the model then reads at most `max_tokens` tokens."""
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_PLACES = ("model.onnx", "onnx/model.onnx")
_FILES = "`dir` of `embedder` must contain model.onnx and tokenizer.json."


class Onnx(Configured):
    """A loaded model folder. Use `load`."""

    def __init__(self, session: Any, tokenizer: Tokenizer, choice: Choice, digest: str) -> None:
        super().__init__(
            choice, digest, BATCH, choice.query_prefix, choice.document_prefix, choice.pooling, choice.max_tokens
        )
        self._session, self._tokenizer = session, tokenizer

        self._inputs = {one.name for one in session.get_inputs()}
        outputs = [one.name for one in session.get_outputs()]
        self._output = "sentence_embedding" if "sentence_embedding" in outputs else outputs[0]

    @classmethod
    def load(cls, choice: Choice) -> Onnx:
        """Read the model and test it with a word.

        Raises:
            Unavailable: The library or a file is missing or cannot be read.
            Invalid: The model is not a sentence model: its inputs or outputs differ.
        """
        try:
            import onnxruntime
        except ImportError as error:
            raise Unavailable(
                "an embedder of kind onnx needs onnxruntime",
                next="Run `uv tool install '.[onnx]'` in the clone of kgd.",
            ) from error
        folder = Path(os.path.expanduser(choice.dir))
        model = next((folder / place for place in _PLACES if (folder / place).is_file()), folder / _PLACES[0])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 4
        try:
            with open(model, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()[:12]
            tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        except OSError as error:
            raise Unavailable(
                f"the embedder's model cannot be read: {error.strerror}", at=str(model), next=_FILES
            ) from error
        except Exception as error:  # both libraries raise plain Exceptions
            raise Unavailable(
                f"the embedder's model cannot be read: {error}"[:300], at=str(folder), next=_FILES
            ) from error
        tokenizer.no_padding()
        tokenizer.enable_truncation(choice.max_tokens)
        found = cls(session, tokenizer, choice, digest)
        if "input_ids" not in found._inputs or not found._inputs <= set(_INPUTS):
            raise Invalid(
                f"the embedder's model has the inputs {', '.join(sorted(found._inputs))}",
                at=str(model),
                next="A sentence model takes input_ids and attention_mask.",
            )
        found.dim = int(found.embed(["a"], "document").shape[1])
        return found

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """See `Embedder`. Texts of similar length run together, to keep padding short."""
        sent = self.prefixed(texts, kind, TEXT_LIMIT)
        pieces = [list(self._tokenizer.encode(text).ids) for text in sent]
        order = sorted(range(len(texts)), key=lambda number: (len(pieces[number]), number))
        found: NDArray[np.float32] | None = None
        for start in range(0, len(order), self.batch):
            some = [number for number in order[start : start + self.batch] if texts[number].strip() and pieces[number]]
            if not some:
                continue
            vectors = self._run([pieces[number] for number in some])
            if found is None:
                found = np.zeros((len(texts), vectors.shape[1]), np.float32)
            found[some] = vectors
        return found if found is not None else np.zeros((len(texts), max(1, self.dim)), np.float32)

    def _run(self, pieces: list[list[int]]) -> Vectors:
        width = max(map(len, pieces))
        ids, mask = np.zeros((2, len(pieces), width), np.int64)
        for row, own in enumerate(pieces):
            ids[row, : len(own)] = own
            mask[row, : len(own)] = 1
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        try:
            [raw] = self._session.run([self._output], {name: given[name] for name in self._inputs})
        except Exception as error:
            raise Invalid(f"the embedder's model cannot be run: {error}"[:300]) from error
        hidden = np.asarray(raw, np.float32)
        if hidden.ndim == 3 and hidden.shape[:2] == ids.shape:
            if self._choice.pooling == "cls":
                hidden = hidden[:, 0]
            else:
                shown = mask[:, :, None].astype(np.float32)
                hidden = (hidden * shown).sum(axis=1) / shown.sum(axis=1)
        if hidden.ndim != 2 or len(hidden) != len(pieces):
            raise Invalid(
                f"the embedder's model returned an array of shape {hidden.shape}",
                next="A sentence model returns a vector for each token or for each text.",
            )
        return unit(hidden)


class Downloaded(Configured):
    """A model of `fastembed`. Use `load`."""

    def __init__(self, model: Any, choice: Choice) -> None:
        super().__init__(choice, choice.model, BATCH, choice.query_prefix, choice.document_prefix)
        self._model = model

    @classmethod
    def load(cls, choice: Choice) -> Downloaded:
        """Read the model. The first use downloads it, which takes minutes.

        Raises:
            Unavailable: The library is missing, does not know the model, or cannot download it.
        """
        try:
            library: Any = importlib.import_module("fastembed")
        except ImportError as error:
            raise Unavailable(
                "an embedder of kind fastembed needs the library fastembed",
                next="Run `uv tool install '.[fastembed]'` in the clone of kgd.",
            ) from error
        try:
            return cls(library.TextEmbedding(model_name=choice.model, threads=1), choice)
        except Exception as error:  # plain Exceptions from the hub, the disk or the model
            raise Unavailable(f"fastembed cannot load this model: {error}"[:300], at=choice.model) from error

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """See `Embedder`. The library itself adds prefixes for models that it knows to need them."""
        ask = self._model.query_embed if kind == "query" else self._model.passage_embed
        try:
            vectors = np.array(list(ask(self.prefixed(texts, kind, TEXT_LIMIT))), np.float32)
        except Exception as error:
            raise Unavailable(f"fastembed cannot run this model: {error}"[:300], at=self._choice.model) from error
        vectors[[not text.strip() for text in texts]] = 0
        vectors = checked(vectors, len(texts), self.dim)
        self.dim = int(vectors.shape[1])
        return vectors
