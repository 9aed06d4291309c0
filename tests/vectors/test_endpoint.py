"""Any endpoint that speaks /v1/embeddings is an embedder, and nothing that it answers can hold or mislead kgd."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import numpy as np
import pytest

from kgd.errors import Invalid, KgdError, Limit, Unauthorized, Unavailable
from kgd.vectors.choosing import Choice
from kgd.vectors.configured import opened
from kgd.vectors.embedder import Embedder
from tests.vectors.models import Endpoint, answering, by_words, failing, reply, serving

Behave = Callable[[BaseHTTPRequestHandler, Any], None]


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    yield from serving()


def embedder(endpoint: Endpoint, **how: Any) -> Embedder:
    secrets = {"env:KEY": "s3cret"}
    return opened(Choice("openai", url=endpoint.url, model="small", **how), secrets.__getitem__)


@pytest.mark.requirement("U6")
def test_texts_are_sent_in_one_request_and_come_back_in_their_order(endpoint: Endpoint) -> None:
    model = embedder(endpoint, key="env:KEY", query_prefix="q: ", document_prefix="d: ")
    found = model.embed(["one two", "three"], "document")
    expected = np.array([by_words("d: one two"), by_words("d: three")])
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected, axis=1)[:, None], atol=1e-6)
    model.embed(["four"], "query")
    (path, headers, body), (_, _, question) = endpoint.asked
    assert (path, headers["authorization"]) == ("/v1/embeddings", "Bearer s3cret")
    assert body == {"model": "small", "input": ["d: one two", "d: three"], "encoding_format": "float"}
    assert question["input"] == ["q: four"]


def test_without_a_key_none_is_sent(endpoint: Endpoint) -> None:
    embedder(endpoint).embed(["one"], "document")
    assert "authorization" not in endpoint.asked[0][1]


def answer(data: Any) -> Behave:
    return lambda handler, body: reply(handler, data)


def rows(*vectors: Any) -> Behave:
    return answer({"data": [{"index": n, "embedding": vector} for n, vector in enumerate(vectors)]})


@pytest.mark.parametrize(
    ("behave", "error", "said"),
    [
        (failing(500), Unavailable, "status 500"),
        (failing(503, b"<html>busy</html>"), Unavailable, "status 503"),
        (failing(429), Unavailable, "status 429"),
        (failing(302, Location="http://127.0.0.1:1/v1/embeddings"), Unavailable, "does not follow"),
        (failing(401), Unauthorized, "key"),
        (failing(404, {"error": {"message": "no such model: small"}}), Invalid, "no such model: small"),
        (failing(400, {"error": "too long"}), Limit, "too long"),
        (failing(413), Limit, "status 413"),
        (answer(b"not json"), Invalid, "/v1"),
        (answer({"data": []}), Invalid, "0 vectors for 2 texts"),
        (answer({"data": [{"index": 0, "embedding": [1.0]}] * 2}), Invalid, "2 vectors for 2 texts"),
        (answer({"data": [{"index": 0}, {"index": 1}]}), Invalid, "/v1"),
        (answer({"data": None}), Invalid, "/v1"),
        (answer([1, 2]), Invalid, "/v1"),
        (rows([1.0, 2.0], [1.0]), Invalid, "/v1"),
        (rows([], []), Invalid, "shape"),
        (rows(["a"], ["b"]), Invalid, "/v1"),
        (rows([1.0, None], [1.0, 2.0]), Invalid, "not finite"),
        (rows([1e39, 1.0], [1.0, 2.0]), Invalid, "not finite"),
        (rows([[1.0]], [[2.0]]), Invalid, "shape"),
        (answer(b'{"data":' + b"[" * 100_000), Invalid, "/v1"),
        (answer(b" " * (33 << 20)), Unavailable, "more than"),
    ],
)
def test_an_invalid_answer_is_one_error_with_its_reason(
    endpoint: Endpoint, behave: Behave, error: type[KgdError], said: str
) -> None:
    endpoint.behave = behave
    with pytest.raises(error, match=said):
        embedder(endpoint).embed(["one", "two"], "document")


def test_vectors_of_another_size_than_before_are_refused(endpoint: Endpoint) -> None:
    model = embedder(endpoint)
    model.embed(["one"], "document")
    endpoint.behave = answering(lambda text: by_words(text, 5))
    with pytest.raises(Invalid, match="5 numbers instead of 16"):
        model.embed(["one"], "document")


def test_a_slow_or_dead_endpoint_costs_at_most_its_seconds(endpoint: Endpoint) -> None:
    endpoint.behave = lambda handler, body: endpoint.stopped.wait(100)
    start = time.monotonic()
    with pytest.raises(Unavailable, match="did not answer within"):
        embedder(endpoint, seconds=0.2).embed(["one"], "document")
    assert time.monotonic() - start < 60
    endpoint.close()
    with pytest.raises(Unavailable, match="cannot be reached"):
        embedder(endpoint).embed(["one"], "document")


def test_an_endpoint_that_trickles_bytes_does_not_extend_the_deadline(endpoint: Endpoint) -> None:
    def drip(handler: BaseHTTPRequestHandler, body: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        while not endpoint.stopped.wait(0.05):
            handler.wfile.write(b" ")

    endpoint.behave = drip
    with pytest.raises(Unavailable, match="did not answer within"):
        embedder(endpoint, seconds=0.2).embed(["one"], "document")


def test_a_missing_key_is_reported_and_a_new_one_is_used_without_a_restart(endpoint: Endpoint) -> None:
    keys = {"env:KEY": "old"}
    model = opened(Choice("openai", url=endpoint.url, model="small", key="env:KEY"), keys.__getitem__)
    endpoint.behave = failing(401)
    with pytest.raises(Unauthorized):
        model.embed(["one"], "document")
    keys["env:KEY"], endpoint.behave = "new", answering(by_words)
    model.embed(["one"], "document")
    assert [headers["authorization"] for _, headers, _ in endpoint.asked] == ["Bearer old", "Bearer new"]


def test_plain_http_to_another_machine_is_refused() -> None:
    with pytest.raises(Invalid, match="address of a model"):
        opened(Choice("openai", url="http://example.org/v1", model="m"), str)
