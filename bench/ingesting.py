"""Ingesting documents: the cost of one, and of a second import without changes.

The documents are made, like small pages of a handbook. `python -m bench.ingesting` prints one JSON object a row.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.row import Row, compare, line, value
from kgd.config import Home
from kgd.daemon.daemon import Daemon
from kgd.git.layout import locate
from kgd.tools import call
from kgd.tools.session import Session
from kgd.workspace.workspace import Workspace

DOCUMENTS = 300
AGAIN = 0.1
"""Share of the first import's time."""


def rows(folder: Path, documents: int = DOCUMENTS) -> Iterator[Row]:
    write(folder / "handbook", documents)
    home = Home.at(str(folder / "home"))
    home.prepare()
    (folder / "code").mkdir()
    daemon = Daemon(home, since="2026-01-01T00:00:00Z", locate=locate, open_workspace=Workspace.open)
    try:
        session = Session(daemon, cwd=folder / "code", client="bench", context_id=None)
        workspace = daemon.workspace(call(session, "up", {"standalone": True, "id": "bench"})["workspace"])
        first = _taken_in(session, folder / "handbook")
        tip = workspace.tip
        again = _taken_in(session, folder / "handbook")
        assert workspace.tip == tip, "a second time changes nothing"
    finally:
        daemon.close()
    yield value("ingest one document", "ms", first / documents * 1000, documents=documents)
    yield compare("ingest unchanged documents", "the first ingest", "s", again, first, AGAIN, documents=documents)


def write(folder: Path, documents: int) -> None:
    chance = random.Random(11)
    words = ["".join(chance.choices("abcdefghiklmnoprstuvwy", k=chance.randint(3, 9))) for _ in range(4_000)]
    folder.mkdir(parents=True)
    for number in range(documents):
        parts = [f"# Page {number}\n"]
        for section in range(6):
            parts.append(f"## {' '.join(chance.choices(words, k=3))} {section}\n")
            parts += [f"{' '.join(chance.choices(words, k=60)).capitalize()}.\n" for _ in range(2)]
        (folder / f"page-{number:04d}.md").write_text("\n".join(parts))


def _taken_in(session: Session, folder: Path) -> float:
    begun = time.perf_counter()
    answer = call(session, "ingest", {"source": str(folder), "kind": "document"})
    while answer.get("state") in ("waiting", "running"):
        answer = call(session, "ingest", {"source": str(folder), "kind": "document"})
    return time.perf_counter() - begun


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="kgd-bench-", ignore_cleanup_errors=True) as place:
        for row in rows(Path(place)):
            print(line(row))
