"""This file is where whoever derives something from the index learns what came into it and what went out of it.

Every text that is stored or replaced gets a new number, higher than all before; what goes is noted under one too. So
a reader that remembers two numbers goes on where it was, also after a restart.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
from collections.abc import Collection, Sequence
from typing import NamedTuple

from kgd.index.database import Database
from kgd.model.uri import Uri

GONE_KEPT = 100_000
"""What went last; a reader that missed more looks through everything."""


class Indexed(NamedTuple):
    """A text as it is in the index. `source` and `origin` are empty where it has none; `aliases` are other names."""

    number: int
    uri: Uri
    type: str
    name: str
    summary: str
    content: str
    aliases: tuple[str, ...]
    source: str
    origin: str


class Position(NamedTuple):
    """Where a reader is. `era` tells one making of the index from the next: its numbers begin anew."""

    era: str
    number: int
    gone: int


_QUOTES = re.compile('["\0\ud800-\udfff]')
_COLUMNS = (
    "docs.id, docs.uri, docs.type, text.name, text.summary, text.content, docs.aliases,"
    " coalesce(docs.source_type || char(10) || docs.source_id, ''), docs.origin"
)


class Feed:
    """The changes of one index, for any number of readers in any threads.

    Joins are written as SQLite is to carry them out (CROSS JOIN): it cannot know that few texts are asked for.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def end(self) -> Position:
        """Where a reader is that has everything. A few look-ups."""
        with self._database.read() as connection:
            era = connection.execute("SELECT value FROM meta WHERE key = 'era'").fetchone()
            [number] = connection.execute("SELECT coalesce(max(id), 0) FROM docs").fetchone()
            [gone] = connection.execute("SELECT coalesce(max(number), 0) FROM gone").fetchone()
        return Position(era[0] if era else self._begin_era(), number, gone)

    def stored(self, after: int, limit: int) -> list[Indexed]:
        """What was stored behind a number, in order; of what was replaced since, only what is there now."""
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM docs CROSS JOIN text ON text.rowid = docs.id WHERE docs.id > ?"
                " ORDER BY docs.id LIMIT ?",
                (after, limit),
            ).fetchall()
        return [_indexed(row) for row in rows]

    def waiting(self, after: int) -> int:
        """How many were stored behind a number. O(answer)."""
        with self._database.read() as connection:
            return int(connection.execute("SELECT count(*) FROM docs WHERE id > ?", (after,)).fetchone()[0])

    def newest(self, limit: int) -> list[Indexed]:
        """What was stored last, the newest first."""
        with self._database.read() as connection:
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM docs CROSS JOIN text ON text.rowid = docs.id ORDER BY docs.id DESC LIMIT ?",
                (limit,),
            ).fetchall()
        return [_indexed(row) for row in rows]

    def named(self, limit: int, but: Collection[str]) -> list[tuple[Uri, str, str, tuple[str, ...]]]:
        """URI, type, name and other names of stored nodes that are of none of these types, the newest first."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT docs.uri, docs.type, text.name, docs.aliases FROM docs CROSS JOIN text ON text.rowid = docs.id"
                f" WHERE origin = '' AND docs.type NOT IN ({', '.join('?' * len(but))}) ORDER BY docs.id DESC LIMIT ?",
                (*sorted(but), limit),
            ).fetchall()
        return [(Uri(uri), type, name, tuple(filter(None, also.split("\n")))) for uri, type, name, also in rows]

    def gone(self, after: int) -> list[int] | None:
        """The numbers that went since; None where so many did that it is not known any more."""
        with self._database.read() as connection:
            [first] = connection.execute("SELECT coalesce(min(number), 0) FROM gone").fetchone()
            rows = connection.execute("SELECT doc FROM gone WHERE number > ? ORDER BY number", (after,)).fetchall()
        return [number for (number,) in rows] if first <= after + 1 else None

    def numbers(self) -> set[int]:
        """All that is there. O(index)."""
        with self._database.read() as connection:
            return {number for (number,) in connection.execute("SELECT id FROM docs")}

    def read(self, numbers: Collection[int]) -> list[Indexed]:
        """What is there under these numbers, in order."""
        found = []
        asked = sorted(numbers)
        with self._database.read() as connection:
            for start in range(0, len(asked), 500):
                some = asked[start : start + 500]
                found += connection.execute(
                    f"SELECT {_COLUMNS} FROM docs CROSS JOIN text ON text.rowid = docs.id"
                    f" WHERE docs.id IN ({', '.join('?' * len(some))}) ORDER BY docs.id",
                    some,
                ).fetchall()
        return [_indexed(row) for row in found]

    def with_phrase(self, ways: Sequence[str]) -> list[int]:
        """The numbers of the texts in which the words of one of these stand side by side, in any form of theirs.

        Full text takes them apart as it does the texts, so nothing that has them is left out. O(answer).
        """
        phrases = [" ".join(_QUOTES.sub(" ", way).split()) for way in ways]
        quoted = [f'"{phrase}"' for phrase in dict.fromkeys(phrases) if any(map(str.isalnum, phrase))]
        if not quoted:
            return []
        match = f"{{name summary content parts}} : ({' OR '.join(quoted)})"
        with self._database.read() as connection:
            rows = connection.execute("SELECT rowid FROM text WHERE text MATCH ? ORDER BY rowid", (match,))
            return [number for (number,) in rows]

    def files_called(self, name: str, limit: int) -> list[Uri]:
        """Files of the code tree whose last segment is `name`, by URI."""
        with self._database.read() as connection:
            rows = connection.execute("SELECT uri FROM files WHERE name = ? ORDER BY uri LIMIT ?", (name, limit))
            return [Uri(uri) for (uri,) in rows]

    def _begin_era(self) -> str:
        with self._database.write() as connection:
            connection.execute("INSERT OR IGNORE INTO meta VALUES ('era', ?)", (secrets.token_hex(8),))
            [era] = connection.execute("SELECT value FROM meta WHERE key = 'era'").fetchone()
        return str(era)


def note_gone(connection: sqlite3.Connection, number: int) -> None:
    """In the transaction that removes a text."""
    last = connection.execute("INSERT INTO gone (doc) VALUES (?)", (number,)).lastrowid or 0
    connection.execute("DELETE FROM gone WHERE number <= ?", (last - GONE_KEPT,))


def _indexed(row: tuple[int, str, str, str, str, str, str, str, str]) -> Indexed:
    number, uri, type, name, summary, content, aliases, source, origin = row
    return Indexed(
        number, Uri(uri), type, name, summary, content, tuple(filter(None, aliases.split("\n"))), source, origin
    )
