"""The nearest vectors are found as looking at every one of them would find them, however many there are."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest
from numpy.typing import NDArray

from kgd.model.uri import Uri
from kgd.vectors.embedder import from_bytes, to_bytes, unit
from kgd.vectors.nearest import Nearest

DIM = 64


def some(count: int, seed: int = 0, dim: int = DIM) -> NDArray[np.float32]:
    """Vectors in groups, as texts about a few things are."""
    chance = np.random.default_rng(seed)
    middles = chance.normal(size=(20, dim))
    found = middles[chance.integers(0, 20, count)] + chance.normal(size=(count, dim)) * 0.7
    units: NDArray[np.float64] = found / np.linalg.norm(found, axis=1)[:, None]
    return from_bytes(to_bytes(units.astype(np.float32)), dim)


def name(number: int) -> Uri:
    return Uri(f"concept://ws/{number:06d}")


def keys(count: int) -> list[tuple[Uri, str]]:
    return [(name(number), "") for number in range(count)]


def same(hits: list[tuple[Uri, float]], expected: list[tuple[Uri, float]]) -> bool:
    """Whether the same nodes were found, with the same similarities up to the last digit."""
    values = [value for _, value in hits]
    return [uri for uri, _ in hits] == [uri for uri, _ in expected] and values == pytest.approx(
        [value for _, value in expected], abs=2e-6
    )


def exact(vectors: dict[Uri, NDArray[np.float32]], query: NDArray[np.float32], limit: int) -> list[tuple[Uri, float]]:
    told = [(uri, round(float((vector * query).sum()), 6)) for uri, vector in vectors.items()]
    return sorted(told, key=lambda hit: (-hit[1], hit[0]))[:limit]


@pytest.mark.requirement("U6")
@pytest.mark.parametrize("seed", range(4))
def test_after_any_changes_the_answer_equals_a_full_scan(seed: int) -> None:
    chance, vectors = random.Random(seed), some(600, seed)
    nearest, known = Nearest(DIM), dict[Uri, NDArray[np.float32]]()
    for _ in range(40):
        put = chance.sample(range(200), chance.randint(1, 30))
        rows = np.array([chance.randrange(600) for _ in put])
        nearest.put([(name(number), "") for number in put], vectors[rows])
        known.update({name(number): vectors[row] for number, row in zip(put, rows, strict=True)})
        gone = [name(chance.randrange(200)) for _ in range(chance.randint(0, 25))]
        nearest.drop([(uri, "") for uri in gone])
        for uri in gone:
            known.pop(uri, None)
        query, limit = vectors[chance.randrange(600)], chance.randint(1, 12)
        expected = exact(known, query, limit)
        found = nearest.search(query, limit)
        assert same(found.hits, expected)
        assert found.floor == pytest.approx(min([v for _, v in exact(known, query, 999)], default=0), abs=1e-5)
        within = chance.sample(range(250), 60)
        some_of = {name(number): known[name(number)] for number in within if name(number) in known}
        assert same(nearest.search(query, limit, [name(n) for n in within]).hits, exact(some_of, query, limit))
        similar = nearest.similarity(query, [name(n) for n in within])
        assert similar == pytest.approx(dict(exact(some_of, query, 999)), abs=2e-6)
    assert len(nearest) == len(known)


def test_equal_texts_come_in_the_order_of_their_uris_and_all_of_them_count() -> None:
    nearest, [vector] = Nearest(DIM), some(1)
    nearest.put([(name(number), "") for number in (5, 3, 9, 1)], np.repeat(vector[None], 4, axis=0))
    assert [uri for uri, _ in nearest.search(vector, 3).hits] == [name(1), name(3), name(5)]


def test_a_uri_with_two_texts_counts_once_with_the_nearer() -> None:
    nearest, [one, two] = Nearest(DIM), some(2)
    nearest.put([(name(1), ""), (name(1), "file://ws/a.md")], np.stack([one, two]))
    [(found, likeness)] = nearest.search(two, 5).hits
    assert found == name(1)
    assert likeness == pytest.approx(1.0, abs=1e-3)
    nearest.drop([(name(1), "file://ws/a.md")])
    [(found, likeness)] = nearest.search(two, 5).hits
    assert found == name(1)
    assert likeness == pytest.approx(float(one @ two), abs=1e-3)


def test_nothing_is_found_among_nothing() -> None:
    nearest, [vector] = Nearest(DIM), some(1)
    assert nearest.search(vector, 5) == ([], 0.0)
    nearest.put(keys(1), vector[None])
    assert nearest.search(vector, 5, []) == ([], 0.0)
    assert nearest.search(vector, 0) == ([], 0.0)
    nearest.drop(keys(1))
    assert nearest.search(vector, 5).hits == []


def test_pairs_equal_an_exhaustive_comparison() -> None:
    vectors, nearest = some(120), Nearest(DIM)
    nearest.put(keys(120), vectors)
    nearest.put([(name(7), "file://ws/a.md")], vectors[:1])  # texts of the code tree are compared elsewhere
    asked, within = [name(n) for n in (3, 7, 40, 500)], [name(n) for n in range(0, 130, 2)]
    expected = []
    for number in (3, 7, 40):
        told = exact({name(n): vectors[n] for n in range(0, 120, 2) if n != number}, vectors[number], 120)
        expected += [(name(number), uri, value) for uri, value in told if value > 0.5][:2]
    found = nearest.pairs(asked, within, 0.5, 2)
    assert [pair[:2] for pair in found] == [pair[:2] for pair in expected]
    assert [pair[2] for pair in found] == pytest.approx([pair[2] for pair in expected], abs=1e-5)
    assert nearest.pairs([], within, 0.5, 2) == nearest.pairs(asked, [], 0.5, 2) == []


@pytest.mark.slow
def test_with_sketches_almost_the_same_is_found() -> None:
    count, gone = 8_000, 50
    vectors = some(count, dim=256)
    nearest = Nearest(256, 3_000)
    for start in range(0, count, 700):
        part = slice(start, min(start + 700, count))
        nearest.put(keys(count)[part], vectors[part])
    nearest.drop(keys(gone))
    shares = []
    for number in range(0, count, 500):
        query = vectors[number] + 0.5 * vectors[count - 1 - number]
        query /= np.linalg.norm(query)
        similarity = vectors[gone:] @ query
        expected = {name(gone + int(row)) for row in np.argsort(-similarity)[:20]}
        found = nearest.search(query, 20)
        assert len(found.hits) == 20
        shares.append(len({uri for uri, _ in found.hits} & expected) / 20)
        assert found.hits[0][1] == pytest.approx(float(similarity.max()), abs=0.02)
        assert found.floor == pytest.approx(float(similarity.min()), abs=0.1)
        assert {uri for uri, _ in nearest.search(query, 3, [name(n) for n in range(90)]).hits} <= {
            name(n) for n in range(gone, 90)
        }
    assert sum(shares) / len(shares) >= 0.85


def test_fewer_bits_are_used_from_a_number_of_rows_on_and_all_of_them_are_still_there() -> None:
    vectors, nearest = some(900), Nearest(DIM, 600)
    for start in range(0, 900, 100):
        nearest.put(keys(900)[start : start + 100], vectors[start : start + 100])
        for number in (0, start + 99):
            assert nearest.search(vectors[number], 1).hits[0][0] == name(number)


def test_questions_beside_changes_name_nothing_with_the_similarity_of_another() -> None:
    vectors, done = some(400), threading.Event()
    nearest, wrong = Nearest(DIM), list[object]()
    owned = {name(number): vectors[number] for number in range(400)}

    def ask() -> None:
        while not done.is_set():
            for uri, value in nearest.search(vectors[0], 10).hits:
                if abs(value - float((owned[uri] * vectors[0]).sum())) > 2e-6:
                    wrong.append((uri, value))

    asking = threading.Thread(target=ask)
    asking.start()
    chance = random.Random(3)
    for _ in range(600):
        number = chance.randrange(400)
        if chance.random() < 0.5:
            nearest.put([(name(number), "")], vectors[number][None])
        else:
            nearest.drop([(name(number), "")])
    done.set()
    asking.join()
    assert not wrong


def test_a_stored_vector_has_a_byte_per_number_and_nearly_the_same_direction() -> None:
    vectors = np.concatenate([some(200, seed=7), np.zeros((1, DIM), np.float32), np.eye(1, DIM, dtype=np.float32)])
    stored = to_bytes(vectors)
    assert [len(one) for one in stored] == [DIM] * 200 + [0, DIM]
    spoken = [*range(200), 201]
    again = from_bytes([stored[at] for at in spoken], DIM)
    assert (again * vectors[spoken]).sum(axis=1).min() > 0.9995
    assert to_bytes(again) == [stored[at] for at in spoken]
    assert np.allclose(again, unit(again))
