"""After any events in any order, the vectors equal the vectors of a fresh workspace with the same texts."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from kgd.model.change import Delete
from kgd.vectors.choosing import Choice
from tests.builders import change, upsert, uri
from tests.vectors.conftest import Desk
from tests.vectors.models import write_onnx

pytestmark = pytest.mark.slow

SOON = 60.0
WORDS = ("cat", "dog", "money", "kitten", "sofa", "server", "release", "apple")


@pytest.mark.parametrize("seed", range(2))
def test_vectors_match_the_texts_after_changes_restarts_damage_and_other_embedders(
    desk: Desk, tmp_path: Path, seed: int
) -> None:
    chance, live = random.Random(seed), dict[str, str]()
    other = Choice("onnx", dir=str(write_onnx(tmp_path / "model")))
    ws = desk.open()
    for step in range(120):
        kind = chance.random()
        if kind < 0.55 or not live:
            some = {f"n{step}x{n}": " ".join(chance.choices(WORDS, k=4)) for n in range(chance.randint(1, 5))}
            ws.submit(change(*[upsert(name, content=text) for name, text in some.items()]))
            live.update(some)
        elif kind < 0.75:
            gone = chance.sample(sorted(live), min(len(live), 3))
            ws.submit(change(*[Delete(uri(name)) for name in gone]))
            live = {name: text for name, text in live.items() if name not in gone}
        elif kind < 0.85:
            desk.choice = chance.choice([Choice(), other, Choice("off"), Choice(share=0.5)])
        elif kind < 0.9:
            ws = desk.open(follow=chance.random() < 0.7)
        elif kind < 0.93:
            desk.file.unlink(missing_ok=True)
        elif kind < 0.95:
            ws.reindex()
        else:
            ws.meaning.catch_up(SOON)
    desk.choice = Choice()
    ws.meaning.follow(lambda: desk.choice)
    assert ws.meaning.catch_up(SOON), ws.meaning.stage()
    fresh = Desk(tmp_path / "fresh")
    try:
        as_it_is = fresh.open()
        as_it_is.submit(change(*[upsert(name, content=text) for name, text in live.items()]))
        assert as_it_is.meaning.catch_up(SOON)
        for question in WORDS:
            assert ws.meaning.nearest(question, 999) == as_it_is.meaning.nearest(question, 999)
        assert len(ws.meaning.nearest("cat", 999).hits) == len(live)
    finally:
        fresh.close()
