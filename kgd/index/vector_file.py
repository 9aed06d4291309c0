"""Stored vectors: a file of bytes next to the index, interpreted by `kgd.vectors`.

Each row identifies its text by the number in the change feed and by a digest. So a follower of the feed continues where
it stopped, and does not embed any text twice. `key` is a hash of URI and origin, whose index is a quarter as large.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kgd.index.change_feed import Position
from kgd.index.database import Database, Schema, hashed
from kgd.model.uri import Uri

Key = tuple[Uri, str]
"""A URI, and the file of the code tree that its text was read from; empty for stored nodes."""

SCHEMA = Schema(
    0x6B676476,  # `kgdv`
    2,
    ("meta", "embedders", "vectors"),
    """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE embedders (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    choice TEXT NOT NULL,
    dim INTEGER NOT NULL,
    era TEXT NOT NULL,
    number INTEGER NOT NULL,
    gone INTEGER NOT NULL,
    complete INTEGER NOT NULL
);
CREATE TABLE vectors (
    id INTEGER PRIMARY KEY,
    embedder INTEGER NOT NULL,
    number INTEGER NOT NULL,
    key INTEGER NOT NULL,
    uri TEXT NOT NULL,
    origin TEXT NOT NULL,
    digest BLOB NOT NULL,
    vector BLOB NOT NULL,
    tokens BLOB,
    UNIQUE (embedder, key)
);
CREATE INDEX of_number ON vectors (embedder, number);
CREATE INDEX in_sample ON vectors (embedder, digest);
""",
)
_READ = 2_000
_ID = "(SELECT id FROM embedders WHERE name = ?)"


class Known(NamedTuple):
    """A known embedder. `choice` is the setting that chose it; `complete` is true once it has embedded all texts."""

    name: str
    choice: str
    dim: int
    position: Position
    complete: bool


class Row(NamedTuple):
    """An embedded text. `vector` is empty if the text has no words; `number` is its number in the feed."""

    key: Key
    number: int
    digest: bytes
    vector: bytes


class VectorFile(Database):
    """The rows of all embedders of one workspace, for one writer and any number of readers.

    Every method raises IndexDamaged if the file is damaged, and Unavailable if the file or its disk cannot be used.
    """

    def __init__(self, path: Path, *, is_child: bool = False, ticket: str = "") -> None:
        super().__init__(path, SCHEMA, is_child=is_child, ticket=ticket)

    def embedders(self) -> list[Known]:
        rows = self.rows("SELECT name, choice, dim, era, number, gone, complete FROM embedders ORDER BY id")
        return [Known(name, choice, dim, Position(*at), bool(done)) for name, choice, dim, *at, done in rows]

    def begin(self, name: str, choice: str, era: str) -> Known:
        """The entry of an embedder, created if needed. After a rebuild of the index, existing rows are matched to texts
        by digest."""
        with self.write() as connection:
            connection.execute(
                "INSERT INTO embedders (name, choice, dim, era, number, gone, complete) VALUES (?, ?, 0, ?, 0, 0, 0)"
                " ON CONFLICT (name) DO UPDATE SET choice = excluded.choice",
                (name, choice, era),
            )
            [(id, known)] = connection.execute("SELECT id, era FROM embedders WHERE name = ?", (name,))
            if known != era:
                self._unclaim(connection, id, Position(era, 0, 0))
        return next(one for one in self.embedders() if one.name == name)

    def look_again(self, name: str, position: Position) -> None:
        """Make the embedder go through all texts again from `position`, because the record of removals has a gap."""
        with self.write() as connection:
            self._unclaim(connection, self._id(connection, name), position)

    def digests(self, name: str, keys: Collection[Key]) -> dict[Key, bytes]:
        """The digests of the texts that have a row."""
        with self.read() as connection:
            id = self._id(connection, name)
            found = (
                (
                    key,
                    connection.execute(
                        "SELECT digest FROM vectors WHERE embedder = ? AND key = ?", (id, hashed(*key))
                    ).fetchone(),
                )
                for key in keys
            )
            return {key: row[0] for key, row in found if row}

    def store(self, name: str, rows: Sequence[Row], same: Mapping[Key, int], upto: int, dim: int) -> None:
        """Store new rows, new numbers of unchanged texts, and the position in the feed, in one transaction."""
        with self.write() as connection:
            id = self._id(connection, name)
            connection.executemany(
                "INSERT OR REPLACE INTO vectors (embedder, number, key, uri, origin, digest, vector)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                [(id, row.number, hashed(*row.key), *row.key, row.digest, row.vector) for row in rows],
            )
            connection.executemany(
                "UPDATE vectors SET number = ? WHERE embedder = ? AND key = ?",
                [(number, id, hashed(*key)) for key, number in same.items()],
            )
            connection.execute("UPDATE embedders SET number = ?, dim = ? WHERE id = ?", (upto, dim, id))

    def drop(self, name: str, numbers: Sequence[int], gone: int) -> dict[Key, bytes]:
        """Remove the rows of removed texts, and rows that do not match any text; `gone` is the position in the feed of
        removals.

        The embedder is `complete` from then on. Returns the digests of the removed rows.
        """
        with self.write() as connection:
            id = self._id(connection, name)
            rows = connection.execute(
                "SELECT uri, origin, digest FROM vectors WHERE embedder = ? AND number < 0", (id,)
            ).fetchall()
            connection.execute("DELETE FROM vectors WHERE embedder = ? AND number < 0", (id,))
            for number in numbers:
                rows += connection.execute(
                    "DELETE FROM vectors WHERE embedder = ? AND number = ? RETURNING uri, origin, digest", (id, number)
                ).fetchall()
            connection.execute("UPDATE embedders SET gone = ?, complete = 1 WHERE id = ?", (gone, id))
        return {(Uri(uri), origin): digest for uri, origin, digest in rows}

    def drop_others(self, name: str) -> None:
        """Forget all other embedders."""
        with self.write() as connection:
            id = self._id(connection, name)
            connection.execute("DELETE FROM vectors WHERE embedder IN (SELECT id FROM embedders WHERE id <> ?)", (id,))
            connection.execute("DELETE FROM embedders WHERE id <> ?", (id,))

    def vectors(self, name: str) -> Iterator[list[tuple[Key, bytes]]]:
        """All non-empty vectors, some thousand at a time."""
        last = 0
        while True:
            rows = self.rows(
                # `+` excludes the indexes of an embedder, with which SQLite would sort all rows for each part.
                f"SELECT id, uri, origin, vector FROM vectors WHERE id > ? AND +embedder = {_ID} ORDER BY id LIMIT ?",
                last,
                name,
                _READ,
            )
            if not rows:
                return
            last = rows[-1][0]
            yield [((Uri(uri), origin), vector) for _, uri, origin, vector in rows if vector]

    def between(self, name: str, after: int, upto: int) -> list[tuple[Key, bytes]]:
        """The vectors of the texts in a range of numbers, empty ones included."""
        sql = f"SELECT uri, origin, vector FROM vectors WHERE embedder = {_ID} AND number > ? AND number <= ?"
        return [((Uri(uri), origin), vector) for uri, origin, vector in self.rows(sql, name, after, upto)]

    def count(self, name: str) -> int:
        """The number of texts that have a row. O(rows)."""
        [found] = self.column(f"SELECT count(*) FROM vectors WHERE embedder = {_ID}", name)
        return int(found)

    def sample(self, name: str, size: int) -> list[tuple[int, bytes | None]]:
        """Number and tokens (None: not recorded yet) of `size` texts, chosen as a function of the set of all texts."""
        return self.rows(
            f"SELECT number, tokens FROM vectors WHERE embedder = {_ID} AND vector <> x'' ORDER BY digest, uri LIMIT ?",
            name,
            size,
        )

    def digest_of(self, name: str, number: int) -> bytes:
        """The digest of one text; empty if it has no row."""
        row = self.row(f"SELECT digest FROM vectors WHERE embedder = {_ID} AND number = ?", name, number)
        return bytes(row[0]) if row else b""

    def note_tokens(self, name: str, tokens: Mapping[int, bytes]) -> None:
        with self.write() as connection:
            id = self._id(connection, name)
            connection.executemany(
                "UPDATE vectors SET tokens = ? WHERE embedder = ? AND number = ?",
                [(found, id, number) for number, found in tokens.items()],
            )

    @staticmethod
    def _id(connection: sqlite3.Connection, name: str) -> int:
        row = connection.execute("SELECT id FROM embedders WHERE name = ?", (name,)).fetchone()
        return int(row[0]) if row else 0

    @staticmethod
    def _unclaim(connection: sqlite3.Connection, id: int, at: Position) -> None:
        """Give the rows negative numbers, which no feed uses."""
        connection.execute("UPDATE vectors SET number = -id WHERE embedder = ?", (id,))
        connection.execute("UPDATE embedders SET era = ?, number = ?, gone = ? WHERE id = ?", (*at, id))
