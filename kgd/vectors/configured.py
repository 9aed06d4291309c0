"""Creation of the configured embedder: an endpoint, a folder with an ONNX model, or a model that `fastembed` downloads.

An endpoint speaks `/embeddings` in the protocol of OpenAI, Ollama, vLLM and others. Its answers are untrusted: their
time and size are limited, redirects are not followed, and numbers are checked before use.

The libraries of local models are the extras `onnx` and `fastembed`. A model runs on one thread without busy waiting, so
that it does not slow down requests.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray
from tokenizers import Tokenizer

from kgd.errors import MALFORMED, Invalid, KgdError, Limit, Unauthorized, Unavailable
from kgd.http_client import Address, HttpClient, Response
from kgd.vectors.builtin import Builtin
from kgd.vectors.choosing import Choice
from kgd.vectors.embedder import Configured, Embedder, Kind, Vectors, checked, unit

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


ENDPOINT_BATCH = 64
ENDPOINT_TEXT_LIMIT = 8_000
"""Maximum number of characters to send of a text."""
ANSWER_LIMIT = 32 << 20
"""Maximum bytes of an answer: 64 vectors of 4,096 numbers need a fifth of this."""
QUESTION_SECONDS = 2.0
"""Maximum seconds that a query waits for its vector, less than for a batch of texts; without a vector, search uses only
words."""
_EXCERPT = 120


class Endpoint(Configured):
    """A model behind a URL. Every call makes one request."""

    def __init__(self, choice: Choice, secret: Callable[[str], str]) -> None:
        super().__init__(choice, choice.model, ENDPOINT_BATCH, choice.url, choice.query_prefix, choice.document_prefix)
        self._secret = secret
        self._client = HttpClient(Address.parse(choice.url, of="model"), called="the embedder's endpoint")
        self._key: str | None = None
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """See `Embedder`.

        Raises:
            Unavailable: The endpoint cannot be reached, is too slow, or returns a temporary error.
            Unauthorized: The credential is refused or missing.
            Limit: The endpoint refuses these texts; fewer or shorter texts may succeed.
            Invalid: The answer does not follow the protocol, or the model is unknown.
        """
        sent = self.prefixed([text.strip() for text in texts], kind, ENDPOINT_TEXT_LIMIT)
        if not any(text.strip() for text in texts):
            return np.zeros((len(texts), max(1, self.dim)), np.float32)
        body = orjson.dumps({"model": self._choice.model, "input": sent, "encoding_format": "float"})
        seconds = min(self._choice.seconds, QUESTION_SECONDS) if kind == "query" else self._choice.seconds
        try:
            response = self._client.request(
                "POST", "/embeddings", body, self._headers(), deadline=seconds, limit=ANSWER_LIMIT
            )
        except Limit as error:  # the answer is too large; other texts would not help
            raise Unavailable(error.message, at=error.at) from error
        if response.status != 200:
            raise self._refusal(response)
        vectors = checked(_vectors(response.body, len(texts)), len(texts), self.dim)
        self.dim = int(vectors.shape[1])
        return vectors

    def close(self) -> None:
        self._client.close()

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        with self._lock:
            if self._choice.key and self._key is None:
                self._key = self._secret(self._choice.key)
            if self._key:
                headers["Authorization"] = f"Bearer {self._key}"
        return headers

    def _refusal(self, response: Response) -> KgdError:
        status, at = response.status, self._choice.url
        reason = _reason(response.body)
        message = f"the embedder's endpoint answers with HTTP status {status}" + (f": {reason}" if reason else "")
        if status in (401, 403):
            with self._lock:
                self._key = None  # the stored credential may be replaced before the next call
            return Unauthorized(message, at=at, next="Check `key` of `embedder` in workspaces.yaml.")
        if status in (400, 413, 422):
            return Limit(message, at=at, next="Check `model` and `batch` of `embedder` in workspaces.yaml.")
        if status in (404, 405, 501):
            return Invalid(message, at=at, next="Check `url` and `model` of `embedder` in workspaces.yaml.")
        if 300 <= status < 400:
            return Unavailable(
                f"{message}, a redirect, which kgd does not follow",
                at=at,
                next="Set `url` of `embedder` to the new address if you trust it.",
            )
        return Unavailable(message, at=at)


def _vectors(body: bytes, count: int) -> Vectors:
    try:
        rows = orjson.loads(body)["data"]
        rows = sorted(rows, key=lambda row: row["index"])
        if [row["index"] for row in rows] != list(range(count)):
            raise Invalid(f"the embedder's endpoint returned {len(rows)} vectors for {count} texts")
        with np.errstate(over="ignore"):  # a number that is too large becomes infinite, and `checked` refuses it
            return np.array([row["embedding"] for row in rows], np.float64).astype(np.float32)
    except MALFORMED as error:
        raise Invalid(
            "the embedder's endpoint does not follow the protocol of /v1/embeddings",
            next="Check `url` of `embedder`: it usually ends in /v1.",
        ) from error


def _reason(body: bytes) -> str:
    """The message of an error answer, or an empty string."""
    try:
        error = orjson.loads(body)["error"]
        return str(error["message"] if isinstance(error, dict) else error)[:_EXCERPT]
    except MALFORMED:
        return ""


def opened(choice: Choice, secret: Callable[[str], str]) -> Embedder:
    """The chosen embedder, which must not be `off`. Local models are read now; an endpoint is contacted on use.

    Args:
        secret: Returns a credential by its reference.

    Raises:
        Unavailable: A file or a library is missing.
        Invalid: The model cannot be used.
        Unauthorized: The credential does not exist.
    """
    if choice.kind == "builtin":
        return Builtin.load(choice.share)
    if choice.kind == "onnx":
        return Onnx.load(choice)
    if choice.kind == "fastembed":
        return Downloaded.load(choice)
    if choice.kind == "openai":
        return Endpoint(choice, secret)
    raise Invalid("no embedder is chosen")
