"""Commit index: messages, times and changed paths of the code repository's commits.

This is a derived file, which may be deleted. One process writes, and any number of processes read. Newer commits have
higher numbers. The former path of a renamed file is treated as its current path.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from sqlite3 import Connection
from typing import NamedTuple

from kgd.index import words
from kgd.index.database import Database, Schema, placeholders
from kgd.index.ranking import LAST_SECOND
from kgd.index.words import Term

VERSION = 2
APPLICATION = 0x6B676368
TABLES = ("meta", "commits", "messages", "paths", "path_words", "touches", "renames")
FIRST_NUMBER = 1 << 40
"""Number of the newest commit at the first reading. Older commits count down from it, later ones up."""
NARROW = 30
"""Maximum number of paths in a commit that is used as evidence of which files belong together. Wider commits vendor,
reformat or import code."""
LISTED = 300
"""Maximum number of changed paths to store with a commit; for wider commits only the text is kept."""
STEPS = 8
"""Maximum number of renames to follow from a former path to the current one."""
SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE commits (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    at INTEGER NOT NULL,
    files INTEGER NOT NULL,
    kind TEXT NOT NULL,
    reverts TEXT NOT NULL,
    author TEXT NOT NULL,
    subject TEXT NOT NULL,
    body TEXT NOT NULL,
    parts TEXT NOT NULL
);
CREATE INDEX widths ON commits (number, files);
CREATE INDEX reverting ON commits (reverts) WHERE reverts <> '';
CREATE INDEX subjects ON commits (subject);
CREATE VIRTUAL TABLE messages USING fts5 (
    subject, body, parts, content = 'commits', content_rowid = 'number',
    tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE TABLE paths (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    present INTEGER NOT NULL,
    current INTEGER NOT NULL
);
CREATE INDEX former ON paths (current);
CREATE VIRTUAL TABLE path_words USING fts5 (
    name, folders, tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE TABLE touches (path INTEGER NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (path, number)) WITHOUT ROWID;
CREATE INDEX touched_by ON touches (number);
CREATE TABLE renames (was INTEGER PRIMARY KEY, path INTEGER NOT NULL, number INTEGER NOT NULL);
CREATE INDEX renamed_by ON renames (number);
"""
_MESSAGE = "messages, 2.0, 1.0, 1.0"
"""Weights of the subject, the body, and the parts of identifiers."""
_PATH = "path_words, 2.0, 1.0"
_RENAMED = "paths AS was JOIN paths AS now ON now.id = was.current WHERE now.id <> was.id"
"""Former paths that the tree no longer has, and the current path of each."""


class NewCommit(NamedTuple):
    """A commit to store. `kind` is ``fix``, ``revert`` or empty; `reverts` is an id, or the subject of the commit that
    it reverts. `files` counts all its changed paths; `renames` are pairs of the former and the new path."""

    id: str
    at: int
    author: str
    subject: str
    body: str
    kind: str = ""
    reverts: str = ""
    files: int = 0
    paths: Sequence[str] = ()
    renames: Sequence[tuple[str, str]] = ()


class CommitRow(NamedTuple):
    """A stored commit. `files` is 0 for a merge."""

    number: int
    id: str
    at: int
    files: int
    kind: str
    reverts: str
    author: str
    subject: str
    body: str


_COLUMNS = "number, id, at, files, kind, reverts, author, subject, body"


class CommitIndex(Database):
    """The index of one code repository. Any thread and process may read; one writes. Each call sees the last committed
    state.

    Every method raises the errors of `Database`: IndexDamaged, Unavailable.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path, Schema(APPLICATION, VERSION, TABLES, SCHEMA))

    # Reading

    def tip(self) -> str:
        """The commit whose history the index reflects; empty until that history has been read completely."""
        return self.meta("tip") or ""

    def boundary(self) -> str:
        """A digest of the oldest commits of the shallow clone that was read; empty if its history was complete."""
        return self.meta("boundary") or ""

    def ids(self) -> set[str]:
        """All stored commits. O(commits)."""
        return set(self.column("SELECT id FROM commits"))

    def count(self) -> int:
        """Number of stored commits. O(commits)."""
        return int(self.column("SELECT count(*) FROM commits")[0])

    def newest(self) -> CommitRow | None:
        row = self.row(f"SELECT {_COLUMNS} FROM commits ORDER BY number DESC LIMIT 1")
        return CommitRow(*row) if row else None

    def commits(self, numbers: Collection[int]) -> dict[int, CommitRow]:
        rows = self.rows_in(f"SELECT {_COLUMNS} FROM commits WHERE number IN ({{}})", numbers)
        return {row[0]: CommitRow(*row) for row in rows}

    def with_ids(self, ids: Collection[str]) -> dict[str, CommitRow]:
        rows = self.rows_in(f"SELECT {_COLUMNS} FROM commits WHERE id IN ({{}})", ids)
        return {row[1]: CommitRow(*row) for row in rows}

    def reverting(self, named: Collection[str]) -> list[CommitRow]:
        """The commits that revert one of these ids or subjects, newest first."""
        rows = self.rows_in(f"SELECT {_COLUMNS} FROM commits WHERE reverts IN ({{}}) AND reverts <> ''", named)
        return sorted((CommitRow(*row) for row in rows), reverse=True)

    def frequencies(self, terms: Sequence[Term]) -> dict[Term, int]:
        """The number of messages with each word."""
        sql = "SELECT count(*) FROM messages WHERE messages MATCH ?"
        with self.read() as connection:
            return {term: int(connection.execute(sql, (term.match,)).fetchone()[0]) for term in terms}

    def matching(self, terms: Sequence[Term], limit: int) -> list[tuple[int, float]]:
        """Commits with any of the words in their message, best first by BM25 (more is better)."""
        if not terms:
            return []
        sql = (
            f"SELECT rowid, bm25({_MESSAGE}) AS score FROM messages WHERE messages MATCH ?"
            " ORDER BY score, rowid DESC LIMIT ?"
        )
        rows = self.rows(sql, " OR ".join(term.match for term in terms), limit)
        return [(number, -score) for number, score in rows]

    def with_word(self, term: Term, numbers: Collection[int]) -> set[int]:
        """The commits among these whose message has the word."""
        sql = "SELECT rowid FROM messages WHERE messages MATCH ? AND rowid IN (SELECT value FROM json_each(?))"
        return set(self.column(sql, term.match, f"[{','.join(map(str, numbers))}]"))

    def files_called(self, terms: Sequence[Term], limit: int) -> list[tuple[str, float]]:
        """Paths in the tree with any of the words, best first by BM25."""
        if not terms:
            return []
        sql = (
            f"SELECT paths.path, bm25({_PATH}) AS score FROM path_words JOIN paths ON paths.id = path_words.rowid"
            " WHERE path_words MATCH ? ORDER BY score, paths.path LIMIT ?"
        )
        return [(path, -score) for path, score in self.rows(sql, " OR ".join(t.match for t in terms), limit)]

    def paths_of(self, numbers: Collection[int], *, widest: int = LISTED) -> dict[int, list[str]]:
        """The current paths that each of these commits touched, without commits that touched more than `widest`."""
        rows = self.rows_in(
            "SELECT touches.number, now.path FROM touches JOIN paths ON paths.id = touches.path"
            " JOIN paths AS now ON now.id = paths.current"
            " JOIN commits INDEXED BY widths ON commits.number = touches.number"
            f" WHERE commits.files <= {int(widest)} AND touches.number IN ({{}})",
            numbers,
        )
        found: dict[int, list[str]] = {}
        for number, path in rows:
            found.setdefault(number, []).append(path)
        return {number: sorted(set(paths)) for number, paths in found.items()}

    def touching(
        self,
        paths: Collection[str],
        limit: int,
        *,
        widest: int = LISTED,
        since: int | None = None,
        until: int | None = None,
    ) -> list[int]:
        """The newest commits that touched one of these files, newest first. A path that ends in a slash is a folder, an
        empty path the whole tree. `since` and `until` (Unix seconds, both included) limit the time."""
        period = f" AND commits.at BETWEEN {int(since or 0)} AND {int(LAST_SECOND if until is None else until)}"
        found: set[int] = set()
        sql = (
            "SELECT DISTINCT touches.number FROM paths AS now CROSS JOIN paths ON paths.current = now.id"
            " CROSS JOIN touches ON touches.path = paths.id"
            " CROSS JOIN commits INDEXED BY widths ON commits.number = touches.number"
            f" WHERE {{}} AND commits.files <= {int(widest)}{period} ORDER BY touches.number DESC LIMIT ?"
        )
        for path in paths:
            if not path:
                found.update(
                    self.column(
                        f"SELECT number FROM commits WHERE files > 0 AND files <= ?{period}"
                        " ORDER BY number DESC LIMIT ?",
                        widest,
                        limit,
                    )
                )
            elif path.endswith("/"):
                found.update(self.column(sql.format("now.path >= ? AND now.path < ?"), path, f"{path[:-1]}0", limit))
            else:
                found.update(self.column(sql.format("now.path = ?"), path, limit))
        return sorted(found, reverse=True)[:limit]

    def changed_with(self, path: str, newest: int, widest: int) -> tuple[int, dict[str, float]]:
        """The number of recent commits that changed a file (of at most `newest` commits, with at most `widest` paths
        each), and the current files that changed with it. Each commit has one vote, divided among its other files."""
        ids = self.column("SELECT id FROM paths WHERE current = (SELECT current FROM paths WHERE path = ?)", path)
        if not ids:
            return 0, {}
        mine = (
            "SELECT DISTINCT touches.number, commits.files FROM touches"
            " JOIN commits INDEXED BY widths ON commits.number = touches.number"
            f" WHERE touches.path {'= ?' if len(ids) == 1 else f'IN ({placeholders(ids)})'}"
            " AND commits.files <= ? ORDER BY touches.number DESC LIMIT ?"
        )
        values = (*ids, widest, newest)
        with self.read() as connection:
            [total] = connection.execute(f"SELECT count(*) FROM ({mine})", values).fetchone()
            rows = connection.execute(
                f"SELECT now.path, sum(1.0 / (mine.files - 1)) FROM ({mine}) AS mine"
                " JOIN touches ON touches.number = mine.number JOIN paths ON paths.id = touches.path"
                " JOIN paths AS now ON now.id = paths.current"
                " WHERE mine.files > 1 AND now.path <> ? AND now.present = 1 GROUP BY now.id",
                (*values, path),
            ).fetchall()
        return int(total), dict(rows)

    def counts(self, paths: Collection[str], since: int = 0) -> dict[str, int]:
        """For each of these files, the number of narrow commits that touched it, from number `since` on."""
        rows = self.rows_in(
            "SELECT now.path, count(DISTINCT touches.number) FROM paths AS now JOIN paths ON paths.current = now.id"
            " JOIN touches ON touches.path = paths.id JOIN commits INDEXED BY widths ON commits.number = touches.number"
            f" WHERE commits.files <= {NARROW} AND touches.number >= {int(since)} AND now.path IN ({{}})"
            " GROUP BY now.id",
            paths,
        )
        return dict(rows)

    def narrow_count(self, since: int = 0) -> int:
        """The number of commits from number `since` on that touched at least one and at most `NARROW` paths."""
        sql = "SELECT count(*) FROM commits WHERE files BETWEEN 1 AND ? AND number >= ?"
        return int(self.column(sql, NARROW, since)[0])

    def renamed(self, paths: Collection[str]) -> dict[str, str]:
        """The current path of each of these former paths of files."""
        sql = f"SELECT was.path, now.path FROM {_RENAMED} AND was.path IN ({{}})"
        return dict(self.rows_in(sql, paths))

    def renamed_below(self, folder: str, limit: int) -> dict[str, str]:
        """The current paths of files that were renamed, by their former path in this folder."""
        sql = f"SELECT was.path, now.path FROM {_RENAMED} AND was.path > ? AND was.path < ? LIMIT ?"
        return dict(self.rows(sql, f"{folder}/", f"{folder}0", limit))

    def former(self, paths: Collection[str]) -> dict[str, list[str]]:
        """The former paths of each of these files that was renamed, sorted."""
        found: dict[str, list[str]] = {}
        for was, now in self.rows_in(f"SELECT was.path, now.path FROM {_RENAMED} AND now.path IN ({{}})", paths):
            found.setdefault(now, []).append(was)
        return {now: sorted(some) for now, some in found.items()}

    def is_present(self, paths: Collection[str]) -> set[str]:
        """The paths among these that exist in the tree."""
        return {row[0] for row in self.rows_in("SELECT path FROM paths WHERE present = 1 AND path IN ({})", paths)}

    # Writing

    def add(self, commits: Sequence[NewCommit], *, newer: bool) -> None:
        """Add commits, given newest first: above all others if `newer`, otherwise below. Known commits are ignored."""
        with self.write() as connection:
            ends = "SELECT (SELECT min(number) FROM commits), (SELECT max(number) FROM commits)"
            low, high = connection.execute(ends).fetchone()
            first = FIRST_NUMBER if low is None else high + len(commits) if newer else low - 1
            ids = _PathIds(connection)
            for place, commit in enumerate(commits):
                _add(connection, ids, first - place, commit)

    def drop(self, gone: Collection[str]) -> None:
        """Forget these commits. Unknown commits are ignored."""
        with self.write() as connection:
            for id in gone:
                row = connection.execute(
                    "SELECT number, subject, body, parts FROM commits WHERE id = ?", (id,)
                ).fetchone()
                if row:
                    _drop(connection, row)

    def keep_newest(self, limit: int) -> None:
        """Forget the oldest commits beyond `limit`."""
        ids = self.column("SELECT id FROM commits ORDER BY number DESC LIMIT -1 OFFSET ?", limit)
        if ids:
            self.drop(ids)

    def note_files(self, present: Collection[str], absent: Collection[str] | None = None) -> None:
        """Record which paths the tree has. Without `absent`, `present` lists all paths of the tree."""
        with self.write() as connection:
            ids = _PathIds(connection)
            for path in present:
                ids[path]
            sql, values = "SELECT path, id FROM paths WHERE present = 1", list[str]()
            if absent is not None:
                sql += " AND path IN (SELECT value FROM json_each(?))"
                values.append(json.dumps([*present, *absent]))
            known = dict(connection.execute(sql, values).fetchall())
            gone = known.keys() - present
            for path in gone:
                connection.execute("UPDATE paths SET present = 0 WHERE id = ?", (known[path],))
                connection.execute("DELETE FROM path_words WHERE rowid = ?", (known[path],))
            for path in sorted(set(present) - known.keys()):
                connection.execute("UPDATE paths SET present = 1 WHERE id = ?", (ids[path],))
                connection.execute(
                    "INSERT INTO path_words (rowid, name, folders) VALUES (?, ?, ?)", (ids[path], *_path_words(path))
                )
            _follow_renames(connection)

    def set_boundary(self, boundary: str) -> None:
        self.set_meta("boundary", boundary)

    def set_tip(self, tip: str) -> None:
        """Record that the index has the complete history of this commit."""
        self.set_meta("tip", tip)


class _PathIds(dict[str, int]):
    """The id of a path, cached; an unknown path is added."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection

    def __missing__(self, path: str) -> int:
        row = self._connection.execute("SELECT id FROM paths WHERE path = ?", (path,)).fetchone()
        if row is None:
            row = self._connection.execute(
                "INSERT INTO paths (path, present, current) VALUES (?, 0, 0) RETURNING id", (path,)
            ).fetchone()
            self._connection.execute("UPDATE paths SET current = id WHERE id = ?", row)
        self[path] = found = int(row[0])
        return found


def _add(connection: Connection, ids: _PathIds, number: int, commit: NewCommit) -> None:
    subject, body = words.clean(commit.subject), words.clean(commit.body)
    parts = words.parts_text((subject, body))
    done = connection.execute(
        f"INSERT OR IGNORE INTO commits ({_COLUMNS}, parts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            number,
            commit.id,
            commit.at,
            commit.files,
            commit.kind,
            words.clean(commit.reverts),
            words.clean(commit.author),
            subject,
            body,
            parts,
        ),
    )
    if not done.rowcount:
        return
    connection.execute(
        "INSERT INTO messages (rowid, subject, body, parts) VALUES (?, ?, ?, ?)", (number, subject, body, parts)
    )
    if commit.files <= LISTED:
        connection.executemany(
            "INSERT OR IGNORE INTO touches VALUES (?, ?)", [(ids[path], number) for path in commit.paths]
        )
    connection.executemany(
        "INSERT INTO renames VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET path = excluded.path, number = excluded.number"
        " WHERE excluded.number > number",
        [(ids[was], ids[path], number) for was, path in commit.renames],
    )


def _drop(connection: Connection, row: tuple[int, str, str, str]) -> None:
    connection.execute(
        "INSERT INTO messages (messages, rowid, subject, body, parts) VALUES ('delete', ?, ?, ?, ?)", row
    )
    for table in ("touches", "renames", "commits"):
        connection.execute(f"DELETE FROM {table} WHERE number = ?", row[:1])


def _follow_renames(connection: Connection) -> None:
    """Point each former path of a renamed file to its current path. O(renames)."""
    renames = dict(connection.execute("SELECT was, path FROM renames").fetchall())
    sql = "SELECT id FROM paths WHERE present = 1 AND id IN (SELECT was FROM renames UNION SELECT path FROM renames)"
    present = {id for (id,) in connection.execute(sql)}
    known = dict(connection.execute("SELECT id, current FROM paths WHERE current <> id").fetchall())
    for id in renames.keys() | known.keys():
        end = id
        for _ in range(STEPS):
            if end in present or end not in renames:
                break
            end = renames[end]
        current = end if end in present else id
        if known.get(id, id) != current:
            connection.execute("UPDATE paths SET current = ? WHERE id = ?", (current, id))


def _path_words(path: str) -> tuple[str, str]:
    folders, _, name = path.rpartition("/")
    return f"{name} {words.parts_text([name])}", f"{folders} {words.parts_text([folders])}"
