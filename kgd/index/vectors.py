"""This file is where vectors are kept beside the index, as bytes: what they mean is `kgd.vectors`' business.

Each row says which text it was made from, by its number in the feed and by a digest. So whoever follows the feed goes
on where it was, and makes nothing twice.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kgd.index.database import Database, Schema
from kgd.index.feed import Position
from kgd.model.uri import Uri

Key = tuple[Uri, str]
"""A URI, and the file of the code tree that its text was read from; empty for what is stored."""

SCHEMA = Schema(
    0x6B676476,  # `kgdv`
    1,
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
    uri TEXT NOT NULL,
    origin TEXT NOT NULL,
    digest BLOB NOT NULL,
    vector BLOB NOT NULL,
    tokens BLOB,
    UNIQUE (embedder, uri, origin)
);
CREATE INDEX of_number ON vectors (embedder, number);
CREATE INDEX in_sample ON vectors (embedder, digest);
""",
)
_READ = 2_000


class Known(NamedTuple):
    """An embedder that rows are kept of. `choice` is how it was chosen, `complete` whether it ever had all texts."""

    name: str
    choice: str
    dim: int
    position: Position
    complete: bool


class Row(NamedTuple):
    """What became of a text. `vector` is empty for one that says nothing; `number` is its place in the feed."""

    key: Key
    number: int
    digest: bytes
    vector: bytes


class VectorFile:
    """The rows of all embedders of one workspace, for one that writes and any number that read.

    Every method raises IndexDamaged where the file is unsound, and Unavailable where it or its disk cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database = Database.open(path, SCHEMA)

    def recreate(self) -> None:
        """Begin with nothing."""
        self._database.recreate()

    def close(self) -> None:
        self._database.close()

    def embedders(self) -> list[Known]:
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT name, choice, dim, era, number, gone, complete FROM embedders ORDER BY id"
            ).fetchall()
        return [Known(name, choice, dim, Position(*at), bool(done)) for name, choice, dim, *at, done in rows]

    def begin(self, name: str, choice: str, era: str) -> Known:
        """An embedder's entry; where the index was made anew since, its rows wait to be claimed by their digests."""
        with self._database.write() as connection:
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
        """Have all texts gone through once more from `position`, since it is not known what went."""
        with self._database.write() as connection:
            self._unclaim(connection, self._id(connection, name), position)

    def digests(self, name: str, keys: Collection[Key]) -> dict[Key, bytes]:
        """Of the texts whose rows are there."""
        with self._database.read() as connection:
            id = self._id(connection, name)
            found = (
                (key, connection.execute(
                    "SELECT digest FROM vectors WHERE embedder = ? AND uri = ? AND origin = ?", (id, *key)
                ).fetchone())
                for key in keys
            )  # fmt: skip
            return {key: row[0] for key, row in found if row}

    def store(self, name: str, rows: Sequence[Row], same: Mapping[Key, int], upto: int, dim: int) -> None:
        """One transaction: new rows, new numbers of those whose text is the same, how far the feed was followed."""
        with self._database.write() as connection:
            id = self._id(connection, name)
            connection.executemany(
                "INSERT OR REPLACE INTO vectors (embedder, number, uri, origin, digest, vector)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                [(id, row.number, *row.key, row.digest, row.vector) for row in rows],
            )
            connection.executemany(
                "UPDATE vectors SET number = ? WHERE embedder = ? AND uri = ? AND origin = ?",
                [(number, id, *key) for key, number in same.items()],
            )
            connection.execute("UPDATE embedders SET number = ?, dim = ? WHERE id = ?", (upto, dim, id))

    def drop(self, name: str, numbers: Sequence[int], gone: int) -> dict[Key, bytes]:
        """Remove the rows of texts that went, and those nobody claimed; `gone` is how far the feed's end was followed.

        With this it is `complete`. Answers the digests of what was removed.
        """
        with self._database.write() as connection:
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
        """Forget all embedders but this one."""
        with self._database.write() as connection:
            id = self._id(connection, name)
            connection.execute("DELETE FROM vectors WHERE embedder <> ?", (id,))
            connection.execute("DELETE FROM embedders WHERE id <> ?", (id,))

    def vectors(self, name: str) -> Iterator[list[tuple[Key, bytes]]]:
        """All that say something, some thousand at a time."""
        last = 0
        while True:
            with self._database.read() as connection:
                rows = connection.execute(
                    "SELECT id, uri, origin, vector FROM vectors WHERE id > ? AND embedder = ? ORDER BY id LIMIT ?",
                    (last, self._id(connection, name), _READ),
                ).fetchall()
            if not rows:
                return
            last = rows[-1][0]
            yield [((Uri(uri), origin), vector) for _, uri, origin, vector in rows if vector]

    def count(self, name: str) -> int:
        """Texts that have a row. O(rows)."""
        with self._database.read() as connection:
            [found] = connection.execute(
                "SELECT count(*) FROM vectors WHERE embedder = ?", (self._id(connection, name),)
            ).fetchone()
        return int(found)

    def sample(self, name: str, size: int) -> list[tuple[int, bytes | None]]:
        """Number and tokens (None: not noted yet) of so many texts, which ones is a function of all texts alone."""
        with self._database.read() as connection:
            return connection.execute(
                "SELECT number, tokens FROM vectors WHERE embedder = ? AND vector <> x'' ORDER BY digest, uri LIMIT ?",
                (self._id(connection, name), size),
            ).fetchall()

    def digest_of(self, name: str, number: int) -> bytes:
        """Of one text; empty where it has no row."""
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT digest FROM vectors WHERE embedder = ? AND number = ?", (self._id(connection, name), number)
            ).fetchone()
        return bytes(row[0]) if row else b""

    def note_tokens(self, name: str, tokens: Mapping[int, bytes]) -> None:
        with self._database.write() as connection:
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
        """Numbers below zero mean nothing in any feed."""
        connection.execute("UPDATE vectors SET number = -id WHERE embedder = ?", (id,))
        connection.execute("UPDATE embedders SET era = ?, number = ?, gone = ? WHERE id = ?", (*at, id))
