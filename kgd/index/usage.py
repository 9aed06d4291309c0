"""This file is where it is kept on this machine what was read together: a small SQLite file that may be deleted.

It never enters the repository, and holds URIs and counts alone: no words, no questions, no names of people.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from kgd.errors import Unavailable
from kgd.model.uri import Uri
from kgd.model.usage import Tally

VERSION = 1
MOST_NODES, MOST_PAIRS, MOST_LINKS = 20_000, 50_000, 20_000
"""Rows that are kept; the seldom and old ones go first."""
BUSY_MS = 5_000

_SCHEMA = """
CREATE TABLE totals (name TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE nodes (uri TEXT PRIMARY KEY, count INTEGER NOT NULL, at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE pairs (a TEXT NOT NULL, b TEXT NOT NULL, count INTEGER NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (a, b))
    WITHOUT ROWID;
CREATE TABLE links (source TEXT NOT NULL, target TEXT NOT NULL, type TEXT NOT NULL, offered INTEGER NOT NULL,
    followed INTEGER NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (source, target, type)) WITHOUT ROWID;
CREATE TABLE decided (id TEXT PRIMARY KEY, count INTEGER NOT NULL) WITHOUT ROWID;
"""
_TOTALS = ("conversations", "reads", "squares")
_TABLES = (("nodes", MOST_NODES, "count"), ("pairs", MOST_PAIRS, "count"), ("links", MOST_LINKS, "offered"))


class UsageFile:
    """The counts of one workspace. Opened for each use, so that nothing has to be closed. One writer at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, tally: Tally, now: int) -> None:
        """Add counts to what is there. One transaction.

        Raises:
            Unavailable: The disk refuses. A damaged file is begun anew.
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
        """All that was counted, of pairs and relations those with at least so many. O(rows)."""
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
        """The nodes that some conversation read then or later."""
        with self._open() as connection:
            return {Uri(uri) for (uri,) in connection.execute("SELECT uri FROM nodes WHERE at >= ?", (at,))}

    def decide(self, id: str, count: int) -> None:
        """Note that somebody accepted or dismissed a suggestion when so many conversations were behind it."""
        with self._open() as connection:
            connection.execute("INSERT OR REPLACE INTO decided VALUES (?, ?)", (id, count))

    def decided(self) -> Mapping[str, int]:
        with self._open() as connection:
            return dict(connection.execute("SELECT id, count FROM decided").fetchall())

    def _prune(self, connection: sqlite3.Connection, table: str, most: int, count: str) -> None:
        """What goes is a tenth, so that not every flush has to."""
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
            connection = self._connected()
        except sqlite3.DatabaseError:
            self._drop()
            connection = self._connected()
        try:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            raise Unavailable("what is read together cannot be counted just now", at=str(self.path)) from error
        except sqlite3.DatabaseError as error:
            self._drop()
            raise Unavailable("the counts of use were damaged and begin anew", at=str(self.path)) from error
        finally:
            connection.close()

    def _connected(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
        except OSError as error:
            raise Unavailable(f"the counts of use cannot be kept: {error.strerror}", at=str(self.path)) from error
        connection = sqlite3.connect(self.path, isolation_level=None)
        try:
            connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version not in (0, VERSION):
                raise sqlite3.DatabaseError("another version")
            if not version:
                connection.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
        except BaseException:
            connection.close()
            raise
        return connection

    def _drop(self) -> None:
        for suffix in ("", "-journal", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                Path(f"{self.path}{suffix}").unlink()
