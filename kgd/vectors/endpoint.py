"""This file is where an endpoint is asked for vectors: `/embeddings`, as OpenAI, Ollama, vLLM and many others speak it.

What it answers is untrusted: bounded in time and size, no redirect followed, numbers looked at before they are used.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence

import numpy as np
import orjson

from kgd.errors import Invalid, KgdError, Limit, Unauthorized, Unavailable
from kgd.http_client import Address, HttpClient, Response
from kgd.vectors import halves
from kgd.vectors.choosing import Choice
from kgd.vectors.embedder import ANY, Kind, Vectors

SHARE = 0.5
BATCH = 64
TEXT_LIMIT = 8_000
"""Characters of a text that are sent."""
ANSWER_LIMIT = 32 << 20
"""Bytes of one answer: 64 vectors of 4,096 numbers are a fifth of it."""
QUESTION_SECONDS = 2.0
"""A question waits no longer, whatever the settings allow for a batch of texts: it then goes by words."""
_EXCERPT = 120


class Endpoint:
    """One model behind one address. Every call makes one request."""

    def __init__(self, choice: Choice, secret: Callable[[str], str]) -> None:
        self._choice, self._secret = choice, secret
        told = "\0".join((choice.url, choice.query_prefix, choice.document_prefix))
        self.id = f"openai/{choice.model}/{hashlib.sha256(told.encode()).hexdigest()[:12]}"
        self.batch = choice.batch or BATCH
        self.share = SHARE if choice.share is None else choice.share
        self.least = ANY
        self.dim = 0
        self._client = HttpClient(Address.parse(choice.url, of="model"), called="the embedder's endpoint")
        self._key: str | None = None
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str], kind: Kind) -> Vectors:
        """See `Embedder`.

        Raises:
            Unavailable: It cannot be reached, is too slow, or answers with an error that may pass.
            Unauthorized: It does not know the credential, or there is none under its reference.
            Limit: It refuses these texts; fewer or shorter ones may do.
            Invalid: Its answer is not one of this protocol, or knows no such model.
        """
        prefix = self._choice.query_prefix if kind == "query" else self._choice.document_prefix
        sent = [(prefix + text.strip())[:TEXT_LIMIT].encode("utf-8", "replace").decode() for text in texts]
        if not any(text.strip() for text in texts):
            return np.zeros((len(texts), max(1, self.dim)), np.float32)
        body = orjson.dumps({"model": self._choice.model, "input": sent, "encoding_format": "float"})
        seconds = min(self._choice.seconds, QUESTION_SECONDS) if kind == "query" else self._choice.seconds
        try:
            response = self._client.request(
                "POST", "/embeddings", body, self._headers(), deadline=seconds, limit=ANSWER_LIMIT
            )
        except Limit as error:  # of the answer: other texts would not help
            raise Unavailable(error.message, at=error.at) from error
        if response.status != 200:
            raise self._refusal(response)
        vectors = halves.checked(_vectors(response.body, len(texts)), len(texts), self.dim)
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
        said = _said(response.body)
        told = f"the embedder's endpoint answers with HTTP status {status}" + (f": {said}" if said else "")
        if status in (401, 403):
            with self._lock:
                self._key = None  # a new one may be there the next time
            return Unauthorized(told, at=at, next="Look at `key` of `embedder` in workspaces.yaml.")
        if status in (400, 413, 422):
            return Limit(told, at=at, next="Look at `model` and `batch` of `embedder` in workspaces.yaml.")
        if status in (404, 405, 501):
            return Invalid(told, at=at, next="Look at `url` and `model` of `embedder` in workspaces.yaml.")
        if 300 <= status < 400:
            return Unavailable(
                f"{told}, which leads elsewhere and is not followed", at=at,
                next="Name the address it leads to as `url` of `embedder`, if that is meant.",
            )  # fmt: skip
        return Unavailable(told, at=at)


def _vectors(body: bytes, count: int) -> Vectors:
    try:
        rows = orjson.loads(body)["data"]
        rows = sorted(rows, key=lambda row: row["index"])
        if [row["index"] for row in rows] != list(range(count)):
            raise Invalid(f"the embedder's endpoint answers {len(rows)} vectors for {count} texts")
        with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused with that
            return np.array([row["embedding"] for row in rows], np.float64).astype(np.float32)
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise Invalid("the embedder's endpoint does not answer as /v1/embeddings does",
                      next="Look at `url` of `embedder`: it usually ends in /v1.") from error  # fmt: skip


def _said(body: bytes) -> str:
    """What a refusal says in words, if it is one of this protocol."""
    try:
        error = orjson.loads(body)["error"]
        return str(error["message"] if isinstance(error, dict) else error)[:_EXCERPT]
    except (ValueError, KeyError, TypeError):
        return ""
