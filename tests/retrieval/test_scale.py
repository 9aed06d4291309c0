"""With any embedder, search can tell a relevant note from an unrelated one."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from kgd.model.change import Delete
from kgd.model.uri import Uri
from kgd.retrieval import relevance
from kgd.vectors import embedder
from kgd.vectors.choosing import Choice
from kgd.vectors.embedder import BUILTIN, COMPARED, WORDS, Scale, compared, contrast, weight_of_words
from kgd.vectors.nearest import Nearest
from kgd.workspace.workspace import Workspace
from tests.builders import change, upsert, uri
from tests.retrieval.conftest import Asked, uris
from tests.vectors.models import Endpoint, answering, failing, serving

SUBJECTS = {
    "cat": "kitten pet sofa purring nap",
    "money": "revenue income invoice pricing salary",
    "deploy": "release rollout canary server pipeline",
    "database": "table query index migration lock",
    "login": "password session token cookie account",
    "garden": "rose tulip soil watering fence",
    "music": "piano violin concert melody tempo",
    "train": "railway station platform ticket wagon",
    "cooking": "soup oven recipe onion butter",
    "weather": "rain storm cloud wind snow",
    "chess": "knight bishop pawn castle checkmate",
    "boat": "sail anchor harbour mast rudder",
}
PLACES = [
    "Lisbon",
    "Oslo",
    "Madrid",
    "Vienna",
    "Prague",
    "Athens",
    "Dublin",
    "Rome",
    "Paris",
    "Berlin",
    "Warsaw",
    "Bern",
]
NOISE = 16
"""Dimensions without a meaning."""
SOON = 60.0


def embedding(common: float) -> Callable[[str], list[float]]:
    """A model that knows the subjects of words, and that all subjects belong to one field. Any two texts are more
    similar, the larger `common` is."""
    known = {word: n for n, (name, words) in enumerate(SUBJECTS.items()) for word in (name, *words.split())}

    def embed(text: str) -> list[float]:
        vector = np.zeros(1 + len(SUBJECTS) + NOISE)
        for word in re.findall(r"\w+", text.lower()):
            if word in known:
                vector[[0, 1 + known[word]]] += 1.0
            vector[-NOISE:] += np.random.default_rng(zlib.crc32(word.encode())).normal(size=NOISE) / NOISE
        return [common, *(vector / np.linalg.norm(vector)).tolist()]

    return embed


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    yield from serving()


@pytest.fixture
def written(ws: Workspace, endpoint: Endpoint) -> Callable[[float, int], Workspace]:
    """Writes a note about each of some subjects, embedded by a model with a common part."""

    def write(common: float, subjects: int) -> Workspace:
        endpoint.behave = answering(embedding(common))
        ws.meaning.follow(lambda: Choice("openai", url=endpoint.url, model="any"))
        notes = [
            upsert(name, name=f"{name} in {place}", content=f"About {words}, written in {place}.")
            for (name, words), place in zip(list(SUBJECTS.items())[:subjects], PLACES, strict=False)
        ]
        ws.submit(change(*notes))
        assert ws.meaning.catch_up(SOON), ws.meaning.stage()
        return ws

    return write


@pytest.mark.requirement("N1", "U6")
@pytest.mark.parametrize("common", [0.0, 1.0, 3.0])
def test_any_embedder_finds_relevant_notes_alone(
    written: Callable[[float, int], Workspace], asked: Asked, common: float
) -> None:
    written(common, len(SUBJECTS))
    assert uris(asked("how much income from pricing do we expect", max_depth=0)) == [uri("money")]
    assert uris(asked("glaciers of the Himalaya melting quickly", max_depth=0)) == []


def test_with_few_notes_every_similar_note_is_a_hit(written: Callable[[float, int], Workspace], asked: Asked) -> None:
    assert written(1.0, 9).meaning.scale is None
    assert len(uris(asked("how much income from pricing do we expect", max_depth=0))) > 1


def test_the_scale_depends_on_the_notes_alone(written: Callable[[float, int], Workspace], endpoint: Endpoint) -> None:
    ws = written(1.0, len(SUBJECTS))
    scale, asked = ws.meaning.scale, len(endpoint.texts)
    assert scale is not None
    ws.submit(change(upsert("tea", name="Tea", content="About tea.")))
    assert ws.meaning.catch_up(SOON)
    assert ws.meaning.scale != scale
    assert len(endpoint.texts) == asked + 2, "more than the new note and its name were embedded"
    ws.submit(change(Delete(uri("tea"))))
    assert ws.meaning.catch_up(SOON)
    assert ws.meaning.scale == scale


def test_the_scale_is_measured_again_only_for_changes_of_the_considered_notes(
    written: Callable[[float, int], Workspace], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each change would look through all notes."""
    looks, notes = list[int](), Nearest.notes

    def counting(self: Nearest, limit: int) -> list[Uri]:
        looks.append(limit)
        return notes(self, limit)

    monkeypatch.setattr(Nearest, "notes", counting)
    monkeypatch.setattr(embedder, "CONSIDERED", 11)
    ws = written(1.0, len(SUBJECTS))
    was_considered = set[bool]()
    for name in [*(f"extra{n}" for n in range(12)), "extra5", "extra6"]:
        serving = ws.meaning._embedding.serving
        assert serving is not None
        assert serving.nearest is not None
        before = notes(serving.nearest, 11)
        looks.clear()
        is_there = ws.exists(uri(name))
        ws.submit(change(Delete(uri(name)) if is_there else upsert(name, name=f"{name} tea", content="About tea.")))
        assert ws.meaning.catch_up(SOON)
        assert bool(looks) == (notes(serving.nearest, 11) != before), name
        was_considered.add(bool(looks))
    assert was_considered == {True, False}


def test_a_refused_name_does_not_prevent_a_scale(
    written: Callable[[float, int], Workspace], endpoint: Endpoint
) -> None:
    ws = written(1.0, len(SUBJECTS))
    allowed = endpoint.behave

    endpoint.behave = lambda handler, body: (failing(400) if "Forbidden" in body["input"] else allowed)(handler, body)
    ws.submit(change(upsert("forbidden", name="Forbidden", content="About tea.")))
    assert ws.meaning.catch_up(SOON), ws.meaning.stage()
    assert ws.meaning.scale is not None


@pytest.mark.parametrize("common", [0.0, 1.0, 3.0])
def test_no_embedder_pairs_unrelated_notes(written: Callable[[float, int], Workspace], common: float) -> None:
    ws = written(common, len(SUBJECTS))
    same = ws.readable(uri("cat"))
    assert same is not None
    ws.submit(change(upsert("kitty", name=same.name, content=same.content)))
    assert ws.meaning.catch_up(SOON)
    notes = [uri(name) for name in (*SUBJECTS, "kitty")]
    [(one, other, likeness), _] = ws.meaning.pairs(notes, notes, 0.9, 3)
    assert {one, other} == {uri("cat"), uri("kitty")}
    assert likeness == pytest.approx(1.0, abs=0.01)


@pytest.mark.requirement("N1", "U6")
@pytest.mark.parametrize(("knows_subjects", "words"), [(True, WORDS), (False, 1.0)])
def test_words_have_less_weight_beside_a_model_that_knows_more_than_the_built_in_model(
    ws: Workspace, endpoint: Endpoint, knows_subjects: bool, words: float
) -> None:
    """Both models see the same notes, of which most sentences share no word."""
    model = embedding(0.0) if knows_subjects else lambda text: [*np.random.default_rng(len(text)).normal(size=8)]
    endpoint.behave = answering(model)
    ws.meaning.follow(lambda: Choice("openai", url=endpoint.url, model="any"))
    notes = [
        upsert(f"{name}{n}", name=f"{one} in {place}", content=f"About {two}.\n\nNotes about {three}, for {place}.")
        for (name, known), place in zip(SUBJECTS.items(), PLACES, strict=True)
        for n, (one, two, three) in enumerate([known.split()[:3], known.split()[2:]])
    ]
    ws.submit(change(*notes))
    assert ws.meaning.catch_up(SOON), ws.meaning.stage()
    assert ws.meaning.scale is not None
    assert ws.meaning.scale.words == pytest.approx(words, abs=1e-6)


def test_a_weight_of_words_needs_enough_notes(written: Callable[[float, int], Workspace]) -> None:
    scale = written(0.0, len(SUBJECTS)).meaning.scale
    assert scale is not None
    assert scale.words == 1.0


def test_contrast_compares_sentences_of_the_same_note_and_of_others() -> None:
    near, far = [1.0, 0.0], [0.0, 1.0]
    assert contrast([near, near, far, far], [0, 0, 1, 1]) == 0.0, "without a spread nothing can be compared"
    assert contrast([near, near, far, [0.6, 0.8]], [0, 0, 1, 1]) == pytest.approx((0.9 - 0.3) / 0.3)
    assert contrast([near, far], [0, 1]) == contrast([], []) == 0.0


@pytest.mark.parametrize(
    ("own", "builtin", "weight"),
    [(0.7, 1.0, 1.0), (0.9, 1.0, 0.71), (1.0, 1.0, BUILTIN), (2.0, 2.0, BUILTIN), (3.0, 1.0, WORDS), (1.0, 0.0, 1.0)],
)
def test_a_better_contrast_lowers_the_weight_of_words(own: float, builtin: float, weight: float) -> None:
    assert weight_of_words(own, builtin) == pytest.approx(weight, abs=1e-6)


def test_a_question_with_unknown_words_needs_less_beside_a_better_model() -> None:
    assert not relevance.is_answered(0.0, 3.0, 0.6, 6)
    assert relevance.is_answered(0.0, 3.0, 0.6, 6, WORDS)
    assert not relevance.is_answered(0.0, 0.5, 0.0, 3, WORDS), "similarity alone must be clear"


def test_a_similar_note_answers_keywords_of_which_most_are_unknown() -> None:
    assert relevance.is_answered(0.0, 2.8, 2 / 3, 3, BUILTIN)
    assert not relevance.is_answered(0.0, 1.5, 2 / 3, 3, BUILTIN)


def test_names_that_differ_only_in_numbers_are_compared_once() -> None:
    rows = [(Uri(f"note://ws/{n}"), f"Row {n}") for n in range(50)]
    others = [(Uri(f"note://ws/x{n}"), "x" * (n + 1)) for n in range(50)]
    found = compared([*rows, (Uri("note://ws/none"), ""), *others])
    assert list(found.values()) == ["Row 0", *("x" * (n + 1) for n in range(COMPARED - 1))]


def test_relevance_is_linear_between_both_similarities() -> None:
    scale = Scale(0.5, 0.7)
    assert [scale.relevance(one) for one in (0.1, 0.5, 0.7, 0.9)] == pytest.approx([0.0, 0.0, 1.0, 2.0])
