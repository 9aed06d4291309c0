"""Embeddings: their cost for a workspace and for a question.

All figures are CPU time: of the process while it embeds, of the asking thread while it asks. The texts are made up, so
they do not measure the quality of answers (`make bench-retrieval` does). `python -m bench.meaning [nodes]` prints them.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import corpus
from bench.corpus import Made
from bench.row import Row, line, value
from kgd.config import one_thread_each
from kgd.git.layout import locate
from kgd.retrieval.query import Question
from kgd.retrieval.retrieve import retrieve
from kgd.workspace.workspace import Workspace

QUESTIONS = 40
WORDS = 8
ENOUGH = 900.0
EMBEDDING_SECONDS = 5.0
"""For 10,000 nodes."""
ANSWER_MS = {10_000: 8.0, 100_000: 40.0}


def rows(made: Sequence[Made], folder: Path) -> Iterator[Row]:
    """For each workspace: embedding it from nothing, reading the vectors again after a restart, and questions."""
    one_thread_each()  # as the daemon does
    for one in made:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(one.layout.git_dir, folder / ".git", symlinks=True)
        yield from _of(folder, one.nodes)
    shutil.rmtree(folder, ignore_errors=True)


def _of(folder: Path, nodes: int) -> Iterator[Row]:
    ws = _opened(folder)
    (ws.layout.derived_dir / "vectors.sqlite").unlink(missing_ok=True)
    ws.text().count()
    begun = time.process_time()
    ws.meaning.follow()
    assert ws.meaning.catch_up(ENOUGH), ws.meaning.stage().blocker
    target = EMBEDDING_SECONDS if nodes == 10_000 else None
    yield value("embed a workspace", "s", time.process_time() - begun, target, nodes=nodes)
    ws.close()

    ws = _opened(folder)
    ws.text().count()
    begun = time.process_time()
    ws.meaning.follow()
    assert ws.meaning.catch_up(ENOUGH)
    yield value("read the vectors after a restart", "s", time.process_time() - begun, nodes=nodes)
    questions = _questions(nodes)
    for what, ask in (
        ("nearest 50 in meaning", lambda question: ws.meaning.nearest(question, 50)),
        ("question by words and meaning", lambda question: retrieve(ws, Question(question))),
    ):
        taken = []
        for question in questions:
            begun = time.thread_time()
            ask(f"{question} {what}")  # a new question each time, since vectors of questions are cached
            taken.append((time.thread_time() - begun) * 1e3)
        target = ANSWER_MS.get(nodes) if "words" in what else None
        yield value(what, "ms", sorted(taken)[len(taken) // 2], target, nodes=nodes)
    ws.close()


def _opened(folder: Path) -> Workspace:
    layout = locate(folder)
    assert layout is not None
    return Workspace.open(layout, publish=False)


def _questions(nodes: int) -> list[str]:
    """Eight words of one node's text, as a question in plain language has them."""
    chance = random.Random(7)
    made = (corpus.node(chance.randrange(nodes), nodes, chance) for _ in range(QUESTIONS))
    return [" ".join(chance.sample(one.content.replace(".", "").lower().split(), WORDS)) for one in made]


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory() as place:
        workspace = corpus.build(Path(place) / "made", count, work_tree=False)
        for row in rows([workspace], Path(place) / "meaning"):
            print(line(row))
