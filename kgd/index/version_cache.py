"""Version cache: the history of each node, so that requests need not read the commits.

A derived file: the number of changes of each path and their authors, and requests that were already carried out. All of
it can be derived again or, for old requests, forgotten. A path is stored as its hash.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from kgd.index.database import Database, Schema

SCHEMA = Schema(
    0x6B676463,  # `kgdc`
    4,
    ("meta", "authors", "versions", "requests"),
    """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE authors (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE versions (
    path BLOB PRIMARY KEY,
    count INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    created_by INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by INTEGER NOT NULL,
    updated_commit BLOB NOT NULL,
    written_at INTEGER NOT NULL,
    written_by INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE requests (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, answer TEXT NOT NULL);
""",
)
_HEAD, _SEAL = "head", "seal"
_FIRST = itemgetter(0)
_ROWS = (
    "SELECT path, count, created_at, creator.name, updated_at, updater.name, lower(hex(updated_commit)),"
    " written_at, writer.name"
    " FROM versions JOIN authors AS creator ON creator.id = created_by"
    " JOIN authors AS updater ON updater.id = updated_by"
    " JOIN authors AS writer ON writer.id = written_by WHERE path IN ({})"
)
_ROW = _ROWS.format("?")


@dataclass(frozen=True, slots=True)
class VersionRow:
    """The history of one path. Times are in Unix seconds, the fields with `by` are authors, and the commit is in
    hex."""

    count: int
    created_at: int
    created_by: str
    updated_at: int
    updated_by: str
    updated_commit: str
    written_at: int = 0
    written_by: str = ""
    """Time and author of the newest other change if the newest change is a verification; otherwise 0 and empty."""

    @property
    def author(self) -> str:
        """The author of the newest change that is not a verification."""
        return self.written_by or self.updated_by


class VersionFile(Database):
    """The cached versions of one workspace. Any thread may read; use `write` to group writes."""

    def __init__(self, path: Path, *, is_child: bool = False) -> None:
        super().__init__(path, SCHEMA, is_child=is_child)

    def head(self) -> str | None:
        """The commit (hex) up to which history was counted; None if it was never counted."""
        return self.meta(_HEAD)

    def seal(self) -> str | None:
        """The name of the key with which the requests of history were recognised."""
        return self.meta(_SEAL)

    def note_seal(self, name: str) -> None:
        self.set_meta(_SEAL, name)

    def versions(self, paths: Iterable[str]) -> dict[str, VersionRow]:
        """The known rows of these paths. O(paths)."""
        path_of = {_digest(path): path for path in paths}
        return {path_of[path]: VersionRow(*row) for path, *row in self.rows_in(_ROWS, path_of)}

    def version(self, path: str) -> VersionRow | None:
        row = self.row(_ROW, _digest(path))
        return VersionRow(*row[1:]) if row else None

    def bump(self, rows: Iterable[tuple[str, VersionRow]], *, head: str) -> None:
        """Replace the rows of these paths; all rows are then valid for commit `head`. Joins the caller's
        transaction."""
        with self.write() as connection:
            authors = _Authors(connection)
            connection.executemany(
                "INSERT OR REPLACE INTO versions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                # In order of the keys, so that pages are filled.
                (_values(*one, authors) for one in sorted(((_digest(path), row) for path, row in rows), key=_FIRST)),
            )
            self.set_meta(_HEAD, head)

    def replace(self, rows: Iterable[tuple[str, VersionRow]], *, head: str) -> None:
        """Replace all rows, after history was counted from its beginning."""
        with self.write() as connection:
            connection.execute("DELETE FROM versions")
            self.bump(rows, head=head)

    def remember(self, request_id: str, answer: str) -> None:
        """Record a request that was carried out; `answer` is the commit (hex). The first record stays."""
        with self.write() as connection:
            connection.execute("INSERT OR IGNORE INTO requests (id, answer) VALUES (?, ?)", (request_id, answer))

    def request(self, request_id: str) -> str | None:
        """The answer to a request that was carried out; None if it is unknown or forgotten."""
        row = self.row("SELECT answer FROM requests WHERE id = ?", request_id)
        return str(row[0]) if row else None


class _Authors(dict[str, int]):
    """The id of an author, cached; an unknown author is added."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        self._connection = connection

    def __missing__(self, name: str) -> int:
        self._connection.execute("INSERT OR IGNORE INTO authors (name) VALUES (?)", (name,))
        [self[name]] = self._connection.execute("SELECT id FROM authors WHERE name = ?", (name,)).fetchone()
        return self[name]


def _values(path: bytes, row: VersionRow, authors: _Authors) -> tuple[bytes | int, ...]:
    creator, updater, writer = authors[row.created_by], authors[row.updated_by], authors[row.written_by]
    commit = bytes.fromhex(row.updated_commit)
    return path, row.count, row.created_at, creator, row.updated_at, updater, commit, row.written_at, writer


def _digest(path: str) -> bytes:
    """A hash that stands for a path, to save space: paths are about three times as long."""
    return hashlib.blake2b(path.encode("utf-8", "surrogateescape"), digest_size=16).digest()
