"""A folder with an ONNX model is an embedder; other folders are refused with the reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kgd.errors import Invalid, KgdError, Unavailable
from kgd.vectors.choosing import Choice
from kgd.vectors.configured import opened
from kgd.vectors.embedder import Embedder
from tests.vectors.models import DIM, TABLE, WORDS, write_onnx

pytest.importorskip("onnxruntime")


def load(folder: Path, **how: object) -> Embedder:
    return opened(Choice("onnx", dir=str(folder), **how), lambda name: "")  # type: ignore[arg-type]


def row(word: str) -> np.ndarray:
    found: np.ndarray = TABLE[WORDS.index(word)]
    return found


def unit(vector: np.ndarray) -> np.ndarray:
    found: np.ndarray = vector / np.linalg.norm(vector)
    return found


@pytest.mark.requirement("U6")
def test_a_text_is_the_mean_of_its_tokens_however_long_its_neighbours_are(tmp_path: Path) -> None:
    embedder = load(write_onnx(tmp_path))
    assert embedder.dim == DIM
    found = embedder.embed(["cat money", "cat dog money dog money", "", "kitten"], "document")
    np.testing.assert_allclose(found[0], unit(row("cat") + row("money")), atol=1e-6)
    np.testing.assert_allclose(found[3], unit(row("cat")), atol=1e-6)
    assert not found[2].any()
    np.testing.assert_array_equal(found[:1], embedder.embed(["cat money"], "document"))


def test_pooling_prefixes_and_the_number_of_tokens_are_the_persons(tmp_path: Path) -> None:
    folder = write_onnx(tmp_path)
    first = load(folder, pooling="cls").embed(["dog cat cat"], "document")
    np.testing.assert_allclose(first[0], unit(row("dog")), atol=1e-6)
    prefixed = load(folder, query_prefix="query: ", document_prefix="text: ", pooling="cls")
    assert np.argmax(prefixed.embed(["cat"], "query")) == WORDS.index("query:")
    assert np.argmax(prefixed.embed(["cat"], "document")) == WORDS.index("text:")
    cut = load(folder, max_tokens=16).embed(["dog " * 16 + "cat " * 99], "document")
    np.testing.assert_allclose(cut[0], unit(row("dog")), atol=1e-6)


def test_settings_that_change_vectors_change_the_id(tmp_path: Path) -> None:
    folder = write_onnx(tmp_path)
    ways: list[dict[str, Any]] = [
        {},
        {"pooling": "cls"},
        {"query_prefix": "q"},
        {"document_prefix": "q"},
        {"max_tokens": 99},
    ]
    assert len({load(folder, **how).id for how in ways}) == len(ways)
    assert load(folder, batch=3, share=0.9).id == load(folder).id


@pytest.mark.parametrize(
    ("spoil", "error", "said"),
    [
        (lambda folder: (folder / "model.onnx").unlink(), Unavailable, "No such file"),
        (lambda folder: (folder / "tokenizer.json").unlink(), Unavailable, "dir"),
        (lambda folder: (folder / "model.onnx").write_bytes(b"\x00" * 100), Unavailable, "cannot be read"),
        (lambda folder: (folder / "tokenizer.json").write_bytes(b"{"), Unavailable, "cannot be read"),
        (lambda folder: write_onnx(folder, input="pixels"), Invalid, "takes"),
    ],
    ids=["no model", "no tokenizer", "no such bytes", "broken tokenizer", "a model of pictures"],
)
def test_an_unusable_model_is_named(
    tmp_path: Path, spoil: Callable[[Path], object], error: type[KgdError], said: str
) -> None:
    spoil(write_onnx(tmp_path))
    with pytest.raises(error, match=said) as refused:
        load(tmp_path)
    assert refused.value.next
