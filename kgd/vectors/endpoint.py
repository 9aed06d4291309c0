"""An embedding endpoint: `/embeddings` in the protocol of OpenAI, Ollama, vLLM and others.

Answers are untrusted: their time and size are limited, redirects are not followed, and numbers are checked before use.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import numpy as np
import orjson

from kgd.errors import MALFORMED, Invalid, KgdError, Limit, Unauthorized, Unavailable
from kgd.http_client import Address, HttpClient, Response
from kgd.vectors.choosing import Choice
from kgd.vectors.embedder import Configured, Kind, Vectors, checked

BATCH = 64
TEXT_LIMIT = 8_000
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
        super().__init__(choice, choice.model, BATCH, choice.url, choice.query_prefix, choice.document_prefix)
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
        sent = self.prefixed([text.strip() for text in texts], kind, TEXT_LIMIT)
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
