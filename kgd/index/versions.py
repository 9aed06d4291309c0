"""This file is where what history says of each node is kept, so that nobody walks the history to answer a question.

Three tables in the derived file: how often each path was changed and by whom, which blob a version number meant when it
was served, and which requests were already carried out. All of it can be derived again or, for requests, forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import attrgetter

from kgd.index.database import Database
from kgd.model.uri import Uri

BATCH = 500
"""Paths asked for in one statement."""
_HEAD = "versions_head"
_COLUMNS = "count, created_at, created_by, updated_at, updated_by, updated_commit"


@dataclass(frozen=True, slots=True)
class VersionRow:
    """What history says of one path. Times are seconds of Unix; `by` names an author; the commit is in hex."""

    count: int
    created_at: int
    created_by: str
    updated_at: int
    updated_by: str
    updated_commit: str


values_of = attrgetter("count", "created_at", "created_by", "updated_at", "updated_by", "updated_commit")
"""The fields of a row, or of what has the same ones; `dataclasses.astuple` copies each of them, and takes ten times as
long."""


class Versions:
    """The cached versions of one workspace. Any thread may read; group writes with `Database.write`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def head(self) -> str | None:
        """The commit (hex) up to which history was counted; None when it was never counted."""
        return self._database.meta(_HEAD)

    def versions(self, paths: Iterable[str]) -> dict[str, VersionRow]:
        """The rows of those paths that have one. O(paths)."""
        found: dict[str, VersionRow] = {}
        with self._database.read() as connection:
            for some in _batches(paths):
                rows = connection.execute(
                    f"SELECT path, {_COLUMNS} FROM versions WHERE path IN ({', '.join('?' * len(some))})",
                    [_bytes(path) for path in some],
                )
                found |= {_text(path): VersionRow(*row) for path, *row in rows}
        return found

    def version(self, path: str) -> VersionRow | None:
        with self._database.read() as connection:
            row = connection.execute(f"SELECT {_COLUMNS} FROM versions WHERE path = ?", (_bytes(path),)).fetchone()
            return VersionRow(*row) if row else None

    def bump(self, rows: Iterable[tuple[str, VersionRow]], *, head: str, removed: Iterable[str] = ()) -> None:
        """Replace the rows of these paths and say up to which commit all rows are true; in the caller's transaction."""
        with self._database.write() as connection:
            connection.executemany("DELETE FROM versions WHERE path = ?", ((_bytes(path),) for path in removed))
            connection.executemany(
                "INSERT OR REPLACE INTO versions VALUES (?, ?, ?, ?, ?, ?, ?)",
                ((_bytes(path), *values_of(row)) for path, row in rows),
            )
            self._database.set_meta(_HEAD, head)

    def replace(self, rows: Iterable[tuple[str, VersionRow]], *, head: str) -> None:
        """Forget all rows and take these: after the history was counted from its beginning."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM versions")
            self.bump(rows, head=head)

    def serve(self, rows: Iterable[tuple[Uri, int, bytes]]) -> None:
        """Note which blob each (URI, version) meant to whoever was just given it; a later note replaces an earlier."""
        with self._database.write() as connection:
            connection.executemany("INSERT OR REPLACE INTO served VALUES (?, ?, ?)", rows)

    def served(self, uri: Uri, version: int) -> bytes | None:
        """The blob that this version number meant when it was served last; an edit that expects it is checked by it."""
        with self._database.read() as connection:
            row = connection.execute("SELECT blob FROM served WHERE uri = ? AND version = ?", (uri, version)).fetchone()
            return bytes(row[0]) if row else None

    def remember(self, request_id: str, answer: str) -> None:
        """Note that a request was carried out; `answer` is the commit (hex). The first note stays."""
        with self._database.write() as connection:
            connection.execute("INSERT OR IGNORE INTO requests (id, answer) VALUES (?, ?)", (request_id, answer))

    def request(self, request_id: str) -> str | None:
        """What a request that was carried out was answered with; None for one that is not known (any more)."""
        with self._database.read() as connection:
            row = connection.execute("SELECT answer FROM requests WHERE id = ?", (request_id,)).fetchone()
            return str(row[0]) if row else None

    def forget(self, *, keep_requests: int, keep_served: int) -> None:
        """Drop all but the latest requests, and all but the highest served versions of each node."""
        with self._database.write() as connection:
            connection.execute(
                "DELETE FROM requests WHERE number <= (SELECT max(number) FROM requests) - ?", (keep_requests,)
            )
            connection.execute(
                "DELETE FROM served"
                " WHERE version <= (SELECT max(version) FROM served AS other WHERE other.uri = served.uri) - ?",
                (keep_served,),
            )


def _batches(paths: Iterable[str]) -> Iterator[Sequence[str]]:
    rest = iter(paths)
    while some := list(islice(rest, BATCH)):
        yield some


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")  # as bytes, since SQLite's text could not hold every path


def _text(path: bytes) -> str:
    return path.decode("utf-8", "surrogateescape")
