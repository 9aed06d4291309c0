"""This file is where a transformer of the person's own is run: a folder with `model.onnx` and `tokenizer.json`.

The library is the extra `kgd-daemon[onnx]`. It runs on one thread that does not spin, so that calls come first.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from kgd.errors import Invalid, Unavailable
from kgd.vectors.choosing import Choice
from kgd.vectors.embedder import ANY, Kind, Vectors

SHARE = 0.5
BATCH = 16
TEXT_LIMIT = 32_000
"""Characters that are cut into tokens, of which `max_tokens` are read."""
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_PLACES = ("model.onnx", "onnx/model.onnx")


class Onnx:
    """One model, loaded. Use `load`."""

    def __init__(self, session: Any, tokenizer: Tokenizer, choice: Choice, digest: str) -> None:
        self._session, self._tokenizer, self._choice = session, tokenizer, choice
        self._inputs = {one.name for one in session.get_inputs()}
        outputs = [one.name for one in session.get_outputs()]
        self._output = "sentence_embedding" if "sentence_embedding" in outputs else outputs[0]
        told = "\0".join((choice.query_prefix, choice.document_prefix, choice.pooling, str(choice.max_tokens)))
        self.id = f"onnx/{digest}/{hashlib.sha256(told.encode()).hexdigest()[:12]}"
        self.batch = choice.batch or BATCH
        self.share = SHARE if choice.share is None else choice.share
        self.least = ANY
        self.dim = 0

    @classmethod
    def load(cls, choice: Choice) -> Onnx:
        """Read the model and try it on a word.

        Raises:
            Unavailable: The library or a file is not there, or cannot be read.
            Invalid: The model takes or answers something else than a sentence embedder's.
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
            raise Unavailable(f"the embedder's model cannot be read: {error.strerror}", at=str(model),
                              next="`dir` of `embedder` holds model.onnx and tokenizer.json.") from error  # fmt: skip
        except Exception as error:  # both libraries raise whatever they like
            raise Unavailable(f"the embedder's model cannot be read: {error}"[:300], at=str(folder),
                              next="`dir` of `embedder` holds model.onnx and tokenizer.json.") from error  # fmt: skip
        tokenizer.no_padding()
        tokenizer.enable_truncation(choice.max_tokens)
        found = cls(session, tokenizer, choice, digest)
        if "input_ids" not in found._inputs or not found._inputs <= set(_INPUTS):
            raise Invalid(f"the embedder's model takes {', '.join(sorted(found._inputs))}", at=str(model),
                          next="One for sentences takes input_ids and attention_mask.")  # fmt: skip
        found.dim = int(found.embed(["a"], "document").shape[1])
        return found

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """See `Embedder`. Texts of like length are run together, so that little is padded."""
        prefix = self._choice.query_prefix if kind == "query" else self._choice.document_prefix
        sent = [(prefix + text)[:TEXT_LIMIT].encode("utf-8", "replace").decode() for text in texts]
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

    def close(self) -> None:
        """Nothing is held open."""

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
            raise Invalid(f"the embedder's model answers something of shape {hidden.shape}",
                          next="One for sentences answers a vector for each token or for each text.")  # fmt: skip
        lengths = np.linalg.norm(hidden, axis=1)[:, None]
        return (hidden / np.where(lengths > 0, lengths, 1)).astype(np.float32)
