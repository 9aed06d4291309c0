"""Change feed of the index, for readers that derive other data from it.

Every text that is stored or replaced gets a new number, higher than all before. Removals are numbered separately. A
reader that remembers both numbers continues where it stopped, also after a restart.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from kgd.index import grams
from kgd.index.database import Database, placeholders
from kgd.index.ranking import TABLES
from kgd.model.uri import Uri

GONE_KEPT = 100_000
"""Removals that are remembered; a reader that missed more has to compare everything."""


class Indexed(NamedTuple):
    """An indexed text. `source` and `origin` may be empty; `aliases` are other names."""

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
    """Progress of a reader. `era` identifies one build of the index; a rebuilt index starts its numbers again."""

    era: str
    number: int
    gone: int


_QUOTES = re.compile('["\0\ud800-\udfff]')
_SELECT = (
    "SELECT docs.id, docs.uri, docs.type, text.name, text.summary, text.content, docs.aliases,"
    " coalesce(docs.source_type || char(10) || docs.source_id, ''), docs.origin"
    " FROM docs CROSS JOIN text ON text.id = docs.id"
)


class Feed:
    """The changes of one index, for any number of readers in any threads.

    CROSS JOIN fixes the order of joins: SQLite cannot know that few texts are asked for.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def end(self) -> Position:
        """The position of a reader that has everything. A few look-ups."""
        row = self._database.row("SELECT value FROM meta WHERE key = 'era'")
        [number] = self._database.column("SELECT coalesce(max(id), 0) FROM docs")
        [gone] = self._database.column("SELECT coalesce(max(number), 0) FROM gone")
        return Position(row[0] if row else self._begin_era(), number, gone)

    def stored(self, after: int, limit: int) -> list[Indexed]:
        """Texts with a number above `after`, in order; of a replaced text only the current one."""
        return self._indexed("WHERE docs.id > ? ORDER BY docs.id LIMIT ?", after, limit)

    def waiting(self, after: int) -> int:
        """The number of texts numbered above `after`. O(answer)."""
        [count] = self._database.column("SELECT count(*) FROM docs WHERE id > ?", after)
        return int(count)

    def newest(self, limit: int) -> list[Indexed]:
        """The texts stored last, newest first."""
        return self._indexed("ORDER BY docs.id DESC LIMIT ?", limit)

    def named(self, limit: int, but: Collection[str]) -> list[tuple[Uri, str, str, tuple[str, ...]]]:
        """URI, type, name and other names of stored nodes of other types than `but`, newest first."""
        rows = self._database.rows(
            "SELECT docs.uri, docs.type, text.name, docs.aliases FROM docs CROSS JOIN text ON text.id = docs.id"
            f" WHERE origin = '' AND docs.type NOT IN ({placeholders(but)}) ORDER BY docs.id DESC LIMIT ?",
            *sorted(but),
            limit,
        )
        return [(Uri(uri), type, name, tuple(filter(None, also.split("\n")))) for uri, type, name, also in rows]

    def gone(self, after: int) -> list[int] | None:
        """The numbers of texts removed after a position; None if the record of removals no longer reaches that far."""
        [first] = self._database.column("SELECT coalesce(min(number), 0) FROM gone")
        numbers = self._database.column("SELECT doc FROM gone WHERE number > ? ORDER BY number", after)
        return numbers if first <= after + 1 else None

    def numbers(self) -> set[int]:
        """The numbers of all texts. O(index)."""
        return set(self._database.column("SELECT id FROM docs"))

    def read(self, numbers: Collection[int]) -> list[Indexed]:
        """The texts of these numbers that still exist, in order."""
        return [
            _text(row) for row in self._database.rows_in(f"{_SELECT} WHERE docs.id IN ({{}}) ORDER BY docs.id", numbers)
        ]

    def with_phrase(self, ways: Sequence[str]) -> list[int]:
        """The numbers of texts that contain the words of one of these phrases side by side, in any inflection.
        O(answer).

        The phrase is tokenized like the texts, so every text that has it is included. For scripts without blanks, other
        texts may be included too.
        """
        phrases = [" ".join(_QUOTES.sub(" ", way).split()) for way in ways]
        quoted = [
            grams.phrase_of(phrase) or f'"{phrase}"'
            for phrase in dict.fromkeys(phrases)
            if any(map(str.isalnum, phrase))
        ]
        if not quoted:
            return []
        match = f"{{name summary content parts}} : ({' OR '.join(quoted)})"
        lanes = (f"SELECT rowid FROM {table} WHERE {table} MATCH ?1" for table in TABLES.values())
        return self._database.column(f"{' UNION ALL '.join(lanes)} ORDER BY 1", match)

    def files_called(self, name: str, limit: int) -> list[Uri]:
        """Files of the code tree whose last segment is `name`, by URI."""
        uris = self._database.column("SELECT uri FROM files WHERE name = ? ORDER BY uri LIMIT ?", name, limit)
        return [Uri(uri) for uri in uris]

    def _indexed(self, condition: str, *values: int) -> list[Indexed]:
        return [_text(row) for row in self._database.rows(f"{_SELECT} {condition}", *values)]

    def _begin_era(self) -> str:
        with self._database.write() as connection:
            connection.execute("INSERT OR IGNORE INTO meta VALUES ('era', ?)", (secrets.token_hex(8),))
            [era] = connection.execute("SELECT value FROM meta WHERE key = 'era'").fetchone()
        return str(era)


def note_gone(connection: sqlite3.Connection, number: int) -> None:
    """Record the removal of a text, in the transaction that removes it."""
    last = connection.execute("INSERT INTO gone (doc) VALUES (?)", (number,)).lastrowid or 0
    connection.execute("DELETE FROM gone WHERE number <= ?", (last - GONE_KEPT,))


def _text(row: tuple[Any, ...]) -> Indexed:
    number, uri, type, name, summary, content, aliases, source, origin = row
    names = tuple(filter(None, aliases.split("\n")))
    return Indexed(number, Uri(uri), type, name, summary, content, names, source, origin)
