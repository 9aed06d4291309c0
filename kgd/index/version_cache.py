"""Version cache: history per node, so that no request walks the commits.

Three tables in the derived file: the number of changes of each path and their authors, the blob behind each version
number that was served, and requests that were already carried out. All of it can be derived again or, for requests,
forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter

from kgd.index.database import Database
from kgd.model.uri import Uri

_HEAD = "versions_head"
_COLUMNS = "count, created_at, created_by, updated_at, updated_by, updated_commit"


@dataclass(frozen=True, slots=True)
class VersionRow:
    """History of one path. Times are Unix seconds, `by` names an author, the commit is in hex."""

    count: int
    created_at: int
    created_by: str
    updated_at: int
    updated_by: str
    updated_commit: str


values_of = attrgetter(*_COLUMNS.split(", "))
"""The fields of a row, or of an object that has them; ten times as fast as `dataclasses.astuple`, which copies."""


class Versions:
    """The cached versions of one workspace. Any thread may read; group writes with `Database.write`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def head(self) -> str | None:
        """The commit (hex) up to which history was counted; None if it never was."""
        return self._database.meta(_HEAD)

    def versions(self, paths: Iterable[str]) -> dict[str, VersionRow]:
        """The known rows of these paths. O(paths)."""
        sql = f"SELECT path, {_COLUMNS} FROM versions WHERE path IN ({{}})"
        rows = self._database.rows_in(sql, [_bytes(path) for path in paths])
        return {path.decode("utf-8", "surrogateescape"): VersionRow(*row) for path, *row in rows}

    def version(self, path: str) -> VersionRow | None:
        return self.versions([path]).get(path)

    def bump(self, rows: Iterable[tuple[str, VersionRow]], *, head: str, removed: Iterable[str] = ()) -> None:
        """Replace the rows of these paths; all rows then hold for commit `head`. Joins the caller's transaction."""
        with self._database.write() as connection:
            connection.executemany("DELETE FROM versions WHERE path = ?", ((_bytes(path),) for path in removed))
            connection.executemany(
                "INSERT OR REPLACE INTO versions VALUES (?, ?, ?, ?, ?, ?, ?)",
                ((_bytes(path), *values_of(row)) for path, row in rows),
            )
            self._database.set_meta(_HEAD, head)

    def replace(self, rows: Iterable[tuple[str, VersionRow]], *, head: str) -> None:
        """Replace all rows, after history was counted from its beginning."""
        with self._database.write() as connection:
            connection.execute("DELETE FROM versions")
            self.bump(rows, head=head)

    def serve(self, rows: Iterable[tuple[Uri, int, bytes]]) -> None:
        """Record the blob behind each served (URI, version). A later record replaces an earlier one."""
        with self._database.write() as connection:
            connection.executemany("INSERT OR REPLACE INTO served VALUES (?, ?, ?)", rows)

    def served(self, uri: Uri, version: int) -> bytes | None:
        """The blob that this version number meant when it was last served; used to check an edit that expects it."""
        row = self._database.row("SELECT blob FROM served WHERE uri = ? AND version = ?", uri, version)
        return bytes(row[0]) if row else None

    def remember(self, request_id: str, answer: str) -> None:
        """Record a request that was carried out; `answer` is the commit (hex). The first record stays."""
        with self._database.write() as connection:
            connection.execute("INSERT OR IGNORE INTO requests (id, answer) VALUES (?, ?)", (request_id, answer))

    def request(self, request_id: str) -> str | None:
        """The answer to a request that was carried out; None if it is unknown or forgotten."""
        row = self._database.row("SELECT answer FROM requests WHERE id = ?", request_id)
        return str(row[0]) if row else None


def _bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")  # SQLite's text type cannot hold every path
