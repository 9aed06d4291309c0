"""Change feed of the index, for readers that derive other data from it.

Every text that is stored or replaced gets a new number, higher than all earlier ones. Removals are numbered separately.
A reader that remembers both numbers continues where it stopped, even after a restart.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
from collections.abc import Collection, Sequence
from typing import NamedTuple

import orjson

from kgd.index import words
from kgd.index.database import Database, placeholders
from kgd.index.doc_texts import Read, Texts
from kgd.index.ranking import TABLES
from kgd.model.uri import Uri

GONE_KEPT = 100_000
"""Maximum number of recorded removals; a reader that missed more has to compare everything."""


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
_SELECT = "SELECT id, type, aliases, coalesce(source_type || char(10) || source_id, ''), origin FROM docs"


class Feed:
    """The changes of one index, for any number of readers in any threads. `read` is as in `TextIndex`."""

    def __init__(self, database: Database, read: Read | None = None) -> None:
        self._database, self._texts = database, Texts(read)

    def end(self) -> Position:
        """The position of a reader that is up to date. Takes a few look-ups."""
        row = self._database.row("SELECT value FROM meta WHERE key = 'era'")
        [number] = self._database.column("SELECT coalesce(max(id), 0) FROM docs")
        [gone] = self._database.column("SELECT coalesce(max(number), 0) FROM gone")
        return Position(row[0] if row else self._begin_era(), number, gone)

    def stored(self, after: int, limit: int) -> list[Indexed]:
        """Texts with a number above `after`, in order; for a replaced text, only its current version."""
        return self._indexed("WHERE id > ? ORDER BY id LIMIT ?", after, limit)

    def waiting(self, after: int) -> int:
        """The number of texts numbered above `after`. O(answer)."""
        [count] = self._database.column("SELECT count(*) FROM docs WHERE id > ?", after)
        return int(count)

    def newest(self, limit: int) -> list[Indexed]:
        """The most recently stored texts, newest first."""
        return self._indexed("ORDER BY docs.id DESC LIMIT ?", limit)

    def named(self, limit: int, but: Collection[str]) -> list[tuple[Uri, str, str, tuple[str, ...]]]:
        """URI, type, name and other names of stored nodes, newest first, except nodes of the types in `but`."""
        rows = self._database.rows(
            f"SELECT uri, type, name, aliases FROM docs WHERE origin = '' AND type NOT IN ({placeholders(but)})"
            " ORDER BY docs.id DESC LIMIT ?",
            *sorted(but),
            limit,
        )
        return [(Uri(uri), type, name, tuple(filter(None, also.split("\n")))) for uri, type, name, also in rows]

    def names(self, uris: Collection[Uri]) -> dict[Uri, str]:
        """The names of stored nodes."""
        sql = "SELECT uri, name FROM docs WHERE uri IN ({}) AND origin = ''"
        return {Uri(uri): name for uri, name in self._database.rows_in(sql, uris)}

    def notes(self, uris: Collection[Uri]) -> list[Indexed]:
        """The texts of stored nodes, in order."""
        condition = "WHERE uri IN (SELECT value FROM json_each(?)) AND origin = '' ORDER BY id"
        return self._indexed(condition, orjson.dumps([*uris]).decode())

    def gone(self, after: int) -> list[int] | None:
        """The numbers of texts removed after a position; None if the record of removals no longer reaches that far."""
        [first] = self._database.column("SELECT coalesce(min(number), 0) FROM gone")
        numbers = self._database.column("SELECT doc FROM gone WHERE number > ? ORDER BY number", after)
        return numbers if first <= after + 1 else None

    def numbers(self) -> set[int]:
        """The numbers of all texts. O(index)."""
        return set(self._database.column("SELECT id FROM docs"))

    def read(self, numbers: Collection[int]) -> list[Indexed]:
        """The texts with these numbers that still exist, in order."""
        return self._indexed(
            "WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id", orjson.dumps([*numbers]).decode()
        )

    def with_phrase(self, ways: Sequence[str]) -> list[int]:
        """The numbers of texts that contain the words of one of these phrases next to each other, in any inflection.
        O(answer).

        The phrase is tokenized like the texts, so every text that has it is included. For scripts without spaces, other
        texts may be included as well.
        """
        phrases = [" ".join(_QUOTES.sub(" ", way).split()) for way in ways]
        quoted = [
            words.gram_phrase_of(phrase) or f'"{phrase}"'
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

    def _indexed(self, condition: str, *values: int | str) -> list[Indexed]:
        with self._database.read() as connection:
            rows = connection.execute(f"{_SELECT} {condition}", values).fetchall()
            texts = self._texts.of(connection, [id for id, *_ in rows])
        found = []
        for id, type, aliases, *source in rows:
            uri, text = texts[id]
            names = tuple(filter(None, aliases.split("\n")))
            found.append(Indexed(id, uri, type, text.name, text.summary, text.content, names, *source))
        return found

    def _begin_era(self) -> str:
        with self._database.write() as connection:
            connection.execute("INSERT OR IGNORE INTO meta VALUES ('era', ?)", (secrets.token_hex(8),))
            [era] = connection.execute("SELECT value FROM meta WHERE key = 'era'").fetchone()
        return str(era)


def note_gone(connection: sqlite3.Connection, number: int) -> None:
    """Record the removal of a text, in the transaction that removes it."""
    last = connection.execute("INSERT INTO gone (doc) VALUES (?)", (number,)).lastrowid or 0
    connection.execute("DELETE FROM gone WHERE number <= ?", (last - GONE_KEPT,))
