"""Usage counts of this machine: which nodes were read together. A small SQLite file that may be deleted.

The file is never stored in the repository, and contains only URIs and counts: no words, no queries, no names of people.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from kgd.errors import Unavailable
from kgd.index.database import Database, IndexDamaged, Schema
from kgd.model.uri import Uri
from kgd.model.usage import Tally

MOST_NODES, MOST_PAIRS, MOST_LINKS = 20_000, 50_000, 20_000
"""Maximum number of rows of each kind; rare and old rows are removed first."""

_SQL = """
CREATE TABLE totals (name TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE nodes (uri TEXT PRIMARY KEY, count INTEGER NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE pairs (a TEXT NOT NULL, b TEXT NOT NULL, count INTEGER NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (a, b))
    WITHOUT ROWID;
CREATE TABLE links (source TEXT NOT NULL, target TEXT NOT NULL, type TEXT NOT NULL, offered INTEGER NOT NULL,
    followed INTEGER NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (source, target, type)) WITHOUT ROWID;
CREATE TABLE decided (id TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
"""
_SCHEMA = Schema(0, 1, ("totals", "nodes", "pairs", "links", "decided"), _SQL)
_TOTALS = ("conversations", "reads", "squares")
_TABLES = (("nodes", MOST_NODES, "count"), ("pairs", MOST_PAIRS, "count"), ("links", MOST_LINKS, "offered"))


class UsageFile:
    """The counts of one workspace. Opened for each use, so there is nothing to close. One writer at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, tally: Tally, now: int) -> None:
        """Add counts, in one transaction.

        Raises:
            Unavailable: The file cannot be written, or it was damaged and is now empty.
        """
        with self._open() as connection:
            for name in _TOTALS:
                connection.execute(
                    "INSERT INTO totals VALUES (?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
                    (name, getattr(tally, name)),
                )
            connection.executemany(
                "INSERT INTO nodes VALUES (?, ?, ?)"
                " ON CONFLICT DO UPDATE SET count = count + excluded.count, at = excluded.at",
                [(uri, count, now) for uri, count in tally.nodes.items()],
            )
            connection.executemany(
                "INSERT INTO pairs VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET count = count + excluded.count, at = excluded.at",
                [(*pair, count, now) for pair, count in tally.pairs.items()],
            )
            connection.executemany(
                "INSERT INTO links VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE"
                " SET offered = offered + excluded.offered, followed = followed + excluded.followed, at = excluded.at",
                [(*link, tally.offered[link], tally.followed[link], now) for link in {*tally.offered, *tally.followed}],
            )
            for table, most, count in _TABLES:
                self._prune(connection, table, most, count)

    def tally(self, least: int) -> Tally:
        """All counts, except pairs with fewer than `least`. O(rows)."""
        with self._open() as connection:
            totals: dict[str, int] = dict(connection.execute("SELECT name, count FROM totals").fetchall())
            conversations, reads, squares = (totals.get(name, 0) for name in _TOTALS)
            found = Tally(conversations, reads, squares)
            found.nodes = Counter({Uri(uri): n for uri, n in connection.execute("SELECT uri, count FROM nodes")})
            pairs = connection.execute("SELECT a, b, count FROM pairs WHERE count >= ?", (least,))
            found.pairs = Counter({(Uri(a), Uri(b)): count for a, b, count in pairs})
            for source, target, type, offered, followed in connection.execute(
                "SELECT source, target, type, offered, followed FROM links"
            ):
                link = (Uri(source), Uri(target), type)
                found.offered[link] = offered
                if followed:
                    found.followed[link] = followed
            return found

    def read_since(self, at: int) -> set[Uri]:
        """The nodes that a conversation read at `at` or later."""
        with self._open() as connection:
            return {Uri(uri) for (uri,) in connection.execute("SELECT uri FROM nodes WHERE at >= ?", (at,))}

    def decide(self, id: str, count: int) -> None:
        """Record that a suggestion was accepted or dismissed, and how many conversations supported it at that time."""
        with self._open() as connection:
            connection.execute("INSERT OR REPLACE INTO decided VALUES (?, ?)", (id, count))

    def decided(self) -> Mapping[str, int]:
        with self._open() as connection:
            return dict(connection.execute("SELECT id, count FROM decided").fetchall())

    def _prune(self, connection: sqlite3.Connection, table: str, most: int, count: str) -> None:
        """Remove a tenth of the rows if there are too many, so that most flushes remove nothing."""
        (rows,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        if rows <= most:
            return
        key = {"nodes": "uri", "pairs": "a, b", "links": "source, target, type"}[table]
        connection.execute(
            f"DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} ORDER BY {count}, at, {key} LIMIT ?)",
            (rows - most + most // 10,),
        )

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            database = Database(self.path, _SCHEMA)
        except OSError as error:
            raise Unavailable(f"the usage counts cannot be stored: {error.strerror}", at=str(self.path)) from error
        try:
            with database.write() as connection:
                yield connection
        except IndexDamaged as error:
            database.recreate()
            raise Unavailable("the usage counts were damaged and start again from zero", at=str(self.path)) from error
        finally:
            database.close()
