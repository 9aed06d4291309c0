"""Text search, measured against a scan in Python and a plain FTS5 OR.

The text is made up (a vocabulary of 30,000 words by Zipf's law, 60 words a node), so the overlap measures the loss by
the short cut for common words, not the quality of answers. Figures are CPU time of one thread, variants in turn.
`python -m bench.search [nodes]` prints one JSON object a row.
"""

from __future__ import annotations

import itertools
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import orjson

from kgd.index.database import Database
from kgd.index.ranking import TABLES, TEXT_WEIGHTS
from kgd.index.text import Doc, TextIndex
from kgd.model.uri import Lane, Uri

NOTES = TABLES[Lane.NOTES]
TOP = 10
ROUNDS = 40
LARGE_ROUNDS = 15
"""Questions at a size where a plain OR takes a tenth of a second."""


def documents(count: int) -> list[Doc]:
    chance = random.Random(2)
    syllables = [a + b for a in "bcdfghklmnprstvz" for b in "aeiou"]
    vocabulary = ["".join(chance.choices(syllables, k=chance.randint(2, 4))) + "wxyjq"[n % 5] for n in range(30_000)]
    weights = list(itertools.accumulate(1 / (n + 3) for n in range(len(vocabulary))))
    made = []
    for number in range(count):
        said = chance.choices(vocabulary, cum_weights=weights, k=60)
        tags = tuple(set(chance.choices(vocabulary[:2000], cum_weights=weights[:2000], k=4)))
        uri = Uri(f"concept://bench/a/node-{number:07d}")
        made.append(Doc(uri, "concept", " ".join(said[:3]), "", " ".join(said[3:]), tags, "", number))
    return made


def rows(nodes: int = 100_000) -> list[dict[str, Any]]:
    docs = documents(nodes)
    with tempfile.TemporaryDirectory() as folder:
        database = Database(Path(folder) / "index.db")
        index = TextIndex(database)
        begun = time.process_time()
        index.apply(docs)
        build = (time.process_time() - begun) / nodes * 1e6
        try:
            return [
                {"what": "index one node", "nodes": nodes, "us": round(build, 1)},
                _two_words(index, docs),
                _question(index, database, docs),
                _tags(index, docs),
            ]
        finally:
            database.close()


def _two_words(index: TextIndex, docs: Sequence[Doc]) -> dict[str, Any]:
    """Two words that each are in about 1 % of the nodes."""
    chance = random.Random(4)
    counts: dict[str, int] = {}
    for doc in docs:
        for word in set(f"{doc.name} {doc.content}".split()):
            counts[word] = counts.get(word, 0) + 1
    middling = [word for word, count in sorted(counts.items()) if 0.008 < count / len(docs) < 0.015]
    texts = [f"{doc.uri} {doc.name} {' '.join(doc.tags)} {doc.content}" for doc in docs]

    def scan(query: str) -> list[int]:
        one, two = query.split()
        return [number for number, text in enumerate(texts) if one in text and two in text][:TOP]

    queries = [" ".join(chance.sample(middling, 2)) for _ in range(ROUNDS)]
    taken, _ = _interleaved({"kgd": index.search, "scan": scan}, queries)
    return _compare("two words", "python substring scan", taken["kgd"], taken["scan"], 1 / 50, len(docs))


def _question(index: TextIndex, database: Database, docs: Sequence[Doc]) -> dict[str, Any]:
    """Eight words of one node, common ones among them, as a question in plain language has."""
    chance = random.Random(5)

    def plain(query: str) -> list[str]:
        match = " OR ".join(f'"{word}"' for word in query.split())
        with database.read() as connection:
            found = connection.execute(
                f"SELECT docs.uri FROM {NOTES} JOIN docs ON docs.id = {NOTES}.rowid WHERE {NOTES} MATCH ?"
                f" ORDER BY bm25({NOTES}, {TEXT_WEIGHTS}) LIMIT ?",
                (match, TOP),
            )
            return [uri for (uri,) in found]

    queries = [" ".join(chance.sample(chance.choice(docs).content.split(), 8)) for _ in range(LARGE_ROUNDS)]
    taken, answers = _interleaved({"kgd": index.search, "plain": plain}, queries)
    overlaps = [
        len({hit.uri for hit in ours} & set(theirs)) / max(1, len(theirs))
        for ours, theirs in zip(answers["kgd"], answers["plain"], strict=True)
    ]
    row = _compare("eight-word question", "plain FTS5 OR", taken["kgd"], taken["plain"], 0.3, len(docs))
    return {**row, "top10_overlap": round(sum(overlaps) / len(overlaps), 3), "overlap_target": 0.85}


def _tags(index: TextIndex, docs: Sequence[Doc]) -> dict[str, Any]:
    chance = random.Random(6)
    tags = [(set(doc.tags), doc.updated, doc.uri) for doc in docs]

    def scan(query: str) -> list[Any]:
        asked = set(query.split())
        ranked = sorted((-len(asked & own), -updated, uri) for own, updated, uri in tags if asked & own)
        return ranked[:TOP]

    queries = [" ".join(chance.choice(docs).tags[:2]) for _ in range(LARGE_ROUNDS)]
    taken, answers = _interleaved({"kgd": lambda q: index.by_tags(q.split()), "scan": scan}, queries)
    assert [hit.uri for hit in answers["kgd"][0]] == [uri for _, _, uri in answers["scan"][0]]
    return _compare("two tags", "python scan", taken["kgd"], taken["scan"], None, len(docs))


def _interleaved(
    variants: dict[str, Callable[[str], Any]], queries: Sequence[str]
) -> tuple[dict[str, list[int]], dict[str, list[Any]]]:
    taken: dict[str, list[int]] = {name: [] for name in variants}
    answers: dict[str, list[Any]] = {name: [] for name in variants}
    for query in queries:
        for name, ask in variants.items():
            begun = time.thread_time_ns()
            answers[name].append(ask(query))
            taken[name].append(time.thread_time_ns() - begun)
    return taken, answers


def _compare(
    what: str, peer: str, mine: list[int], theirs: list[int], target: float | None, nodes: int
) -> dict[str, Any]:
    ours, others = (sorted(times)[len(times) // 2] / 1e6 for times in (mine, theirs))
    return {
        "what": what,
        "nodes": nodes,
        "peer": peer,
        "ms": round(ours, 3),
        "peer_ms": round(others, 3),
        "ratio": round(ours / others, 4),
        "target": target,
    }


if __name__ == "__main__":
    for row in rows(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000):
        print(orjson.dumps(row).decode())
