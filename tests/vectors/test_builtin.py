"""The built-in model needs no download, and weighs the words of a query by their rarity in the workspace."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kgd.vectors.builtin import FEWEST, TEXT_LIMIT, Builtin
from kgd.vectors.embedder import Weighing

TEXTS = [
    "The kitten sleeps on the sofa.",
    "Quarterly revenue grew.",
    "x",
    "naïve café – déjà vu",
    "東京の天気はどうですか",
    "🙂" * 50,
    "def open(path): return Path(path)",
    "a" * 3_000,
    "line one\nline two\n\n\ttabbed",
    "The the THE",
]


@pytest.fixture(scope="module")
def embedder() -> Builtin:
    return Builtin.load()


@pytest.mark.requirement("U6")
def test_texts_that_say_the_same_in_other_words_are_near(embedder: Builtin) -> None:
    query, same, other = embedder.embed(["a cat on the couch", *TEXTS[:2]], "document")
    assert query @ same > 0.5 > 0.2 > query @ other


def test_a_vector_does_not_depend_on_the_rest_of_its_batch(embedder: Builtin) -> None:
    together = embedder.embed(TEXTS, "document")
    alone = np.concatenate([embedder.embed([text], "document") for text in TEXTS])
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)


@pytest.mark.parametrize(
    ("text", "same", "other"),
    [
        ("ระบบจัดเก็บข้อมูลเซสชัน", "จัดเก็บเซสชัน", "ใบแจ้งหนี้"),
        ("会话存储在缓存里", "缓存的会话", "发票编号连续"),
        ("🙂", "a 🙂 b", "🚀"),
    ],
    ids=["Thai", "Chinese", "emoji"],
)
def test_texts_in_unknown_scripts_are_near_if_they_share_characters(
    embedder: Builtin, text: str, same: str, other: str
) -> None:
    query, near, far = embedder.embed([text, same, other], "document")
    assert query @ near > query @ far + 0.2


@pytest.mark.parametrize("text", ["", " ", "\ud800", "\x00\x01", "word " * 100_000, "🙂" * 10_000], ids=range(6))
def test_any_text_has_a_vector_or_says_nothing(embedder: Builtin, text: str) -> None:
    [vector] = embedder.embed([text], "query")
    assert np.isfinite(vector).all()
    assert (
        float(np.linalg.norm(vector)) == pytest.approx(1 if text.strip() or text else 0, abs=1e-5) or not vector.any()
    )


def test_the_nearest_sentence_of_a_text_is_as_near_as_its_own_vector(embedder: Builtin) -> None:
    [query] = embedder.embed(["a cat on the couch"], "query")
    texts = [["Quarterly revenue grew.", "The kitten sleeps on the sofa."], ["x"], ["", " "], [], TEXTS[4:8]]
    alone = [[float(embedder.embed([" ".join(one.split())], "document")[0] @ query) for one in text] for text in texts]
    assert embedder.closest(query, texts) == pytest.approx([max(own, default=0.0) for own in alone], abs=1e-5)
    assert embedder.closest(query, []) == []


def test_no_texts_are_no_vectors(embedder: Builtin) -> None:
    assert embedder.embed([], "document").shape == (0, embedder.dim)


def test_long_texts_are_read_up_to_a_limit(embedder: Builtin) -> None:
    text = "one two three " * 1_000
    longer, same = embedder.embed([text[:TEXT_LIMIT] + "zebra", text[:TEXT_LIMIT]], "document")
    np.testing.assert_array_equal(longer, same)


def test_queries_are_weighed_by_local_rarity_independent_of_order(embedder: Builtin) -> None:
    here = Builtin.load()
    assert isinstance(here, Weighing)
    texts = [f"the server says {word} again" for word in ("apple", "lamp", "river", "stone") for _ in range(FEWEST)]
    learned = [here.tokens(text) for text in texts]
    here.learn(learned)
    [plain, weighed] = embedder.embed(["the server says lamp"], "query"), here.embed(["the server says lamp"], "query")
    [lamp] = embedder.embed(["lamp"], "document")
    assert float(weighed[0] @ lamp) > float(plain[0] @ lamp) + 0.1
    np.testing.assert_array_equal(here.embed(TEXTS, "document"), embedder.embed(TEXTS, "document"))
    random.Random(1).shuffle(learned)
    again = Builtin.load()
    again.learn(learned)
    np.testing.assert_array_equal(again.embed(["the server says lamp"], "query"), weighed)


def test_few_texts_do_not_show_which_words_are_rare(embedder: Builtin) -> None:
    here = Builtin.load()
    here.learn([here.tokens("the server")] * (FEWEST - 1))
    np.testing.assert_array_equal(here.embed(TEXTS, "query"), embedder.embed(TEXTS, "query"))
