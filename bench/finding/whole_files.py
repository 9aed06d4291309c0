"""The baseline: SQLite FTS5 over whole files, `porter unicode61`, BM25 with its defaults, any content word."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from bench.finding.stems import content_words


class WholeFiles:
    """The text of each source file as one row; neither paths nor symbols are indexed."""

    def __init__(self, code: Path, suffix: str) -> None:
        self._table = sqlite3.connect(":memory:")
        self._table.execute("CREATE VIRTUAL TABLE t USING fts5 (path UNINDEXED, text, tokenize = 'porter unicode61')")
        files = sorted(code.rglob(f"*{suffix}"))
        rows = [(file.relative_to(code).as_posix(), file.read_text(errors="replace")) for file in files]
        self._table.executemany("INSERT INTO t VALUES (?, ?)", rows)
        self.files = len(rows)

    def ask(self, question: str, limit: int) -> list[str]:
        """Paths, best first."""
        match = " OR ".join(f'"{word}"' for word in content_words(question))
        query = "SELECT path FROM t WHERE t MATCH ? ORDER BY rank LIMIT ?"
        return [path for (path,) in self._table.execute(query, (match, limit))] if match else []
