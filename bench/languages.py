"""Search in six languages: 40 questions about 42 notes of a team (`languages.jsonl`).

All notes are in one workspace. A question counts as answered if its note is among the first three hits of `search` with
its defaults, with the built-in embedder and by words alone. `python -m bench.languages` also prints the unanswered
questions.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from bench.row import Row, line, value
from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.git.layout import locate
from kgd.tools import call
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace

SET = Path(__file__).with_name("languages.jsonl")
FIRST = 3
EMBEDDING = 60.0
"""Seconds for the notes to be embedded."""
MISSED = {"German": 1, "French": 1, "Chinese": 0, "Japanese": 0, "Korean": 0, "Thai": 0}
"""Most unanswered questions."""


def rows(folder: Path) -> Iterator[Row]:
    for embedder in ("builtin", "off"):
        missed: dict[str, list[str]] = {language: [] for language in MISSED}
        for question, place in asked(folder / embedder, embedder):
            if not 0 < place <= FIRST:
                missed[question["language"]].append(question["text"])
        for language, questions in missed.items():
            what = f"unanswered questions, {language}, embedder {embedder}"
            yield value(what, "questions", len(questions), MISSED[language], unanswered=questions)


def asked(folder: Path, embedder: str) -> Iterator[tuple[dict[str, Any], int]]:
    """Each question with the place of its answer among ten hits; 0 if it is not among them."""
    found = [orjson.loads(text) for text in SET.read_bytes().splitlines()]
    home = Home.at(str(folder / "home"))
    home.prepare()
    Path(home.registry).write_text(f"settings:\n  embedder: {embedder}\n")
    code = folder / "code"
    code.mkdir(parents=True)
    daemon = Daemon(home, since="2026-01-01T00:00:00Z", locate=locate, open_workspace=Workspace.open)
    try:
        session = Session(daemon, cwd=code, client="bench", context_id=None)
        workspace = daemon.workspace(call(session, "up", {"standalone": True, "id": "bench"})["workspace"])
        notes = [one for one in found if one["kind"] == "note"]
        changes = [{"op": "upsert", **{key: one[key] for key in ("type", "name", "content")}} for one in notes]
        call(session, "put", {"changes": changes})
        assert embedder == "off" or workspace.meaning.catch_up(EMBEDDING), workspace.meaning.stage()
        ids = {one["name"]: one["id"] for one in notes}
        for question in found:
            if question["kind"] == "question":
                hits = call(session, "search", {"query": question["text"]})["hits"]
                places = [ids.get(hit["name"]) for hit in hits]
                yield question, places.index(question["answer"]) + 1 if question["answer"] in places else 0
    finally:
        daemon.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="kgd-bench-", ignore_cleanup_errors=True) as place:
        for row in rows(Path(place)):
            print(line(row))
            for text in row["unanswered"]:
                print(f"{'':16}{text}")
