"""A hub's state in SQLite: tokens, used quotas, answers to repeated requests, the audit log.

Unlike the other files of this package it cannot be rebuilt, so a damaged one is refused and never replaced. Tokens and
the audit log are flushed before a call returns; a power cut may lose the latest counters.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import stat
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kgd.errors import Damaged, Forbidden, Unavailable
from kgd.model.access import principal_from
from kgd.model.token import AuditEntry, Quota, TokenRecord

APPLICATION = 0x6B676448
"""`kgdH` in the header of the file."""
SCHEMA_VERSION = 1
BUSY_MS = 5_000
TRAIL_KEPT = 200_000
"""Lines of the audit log in the database; older ones move to files beside it."""
ROTATED = 10_000
"""Lines of one such file."""
DETAIL_LIMIT = 500

SCHEMA = """
CREATE TABLE tokens (
    id TEXT PRIMARY KEY, parent TEXT NOT NULL, holder TEXT NOT NULL, digest BLOB NOT NULL, quota TEXT NOT NULL,
    created INTEGER NOT NULL, revoked INTEGER NOT NULL, last_used INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX children ON tokens (parent);
CREATE TABLE spent (
    token TEXT NOT NULL, what TEXT NOT NULL, window INTEGER NOT NULL, amount INTEGER NOT NULL,
    PRIMARY KEY (token, what)
) WITHOUT ROWID;
CREATE TABLE answers (
    token TEXT NOT NULL, request TEXT NOT NULL, asked BLOB NOT NULL, answer TEXT NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (token, request)
) WITHOUT ROWID;
CREATE INDEX answers_by_age ON answers (at);
CREATE TABLE trail (
    number INTEGER PRIMARY KEY, at INTEGER NOT NULL, token TEXT NOT NULL, action TEXT NOT NULL,
    workspace TEXT NOT NULL, detail TEXT NOT NULL
);
CREATE INDEX trail_of ON trail (token, number);
"""
_LINE = "number, at, token, action, workspace, detail"
_COLUMNS = "id, parent, holder, digest, quota, created, revoked, last_used"
_INSERT = f"INSERT INTO tokens ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_TREE = """
WITH RECURSIVE tree(id) AS (SELECT ? UNION SELECT tokens.id FROM tokens JOIN tree ON tokens.parent = tree.id)
"""


class SqliteHubState:
    """The state of a hub in one SQLite file, readable by its owner only. Safe for threads and processes."""

    def __init__(self, path: Path) -> None:
        """Open or create the file.

        Raises:
            Forbidden: Others can read it.
            Unavailable, Damaged: It cannot be opened. It is unchanged.
        """
        self.path = path
        self._lock = threading.Lock()
        _private(path)
        with _translated(path):
            # Two connections: tokens must survive a power cut, so each commit is flushed; counters are not.
            self._kept, self._counts = self._connect("FULL"), self._connect("NORMAL")
            self._make()

    def add(self, record: TokenRecord) -> None:
        with self._write() as db:
            db.execute(_INSERT, _row(record))

    def add_child(self, record: TokenRecord, now: float) -> bool:
        """Checks the parent in the same transaction: a parent being revoked gets no more children."""
        with self._write() as db:
            row = db.execute(f"SELECT {_COLUMNS} FROM tokens WHERE id = ?", (record.holder.parent,)).fetchone()
            if row is None or not _record(row).is_live(now):
                return False
            db.execute(_INSERT, _row(record))
            return True

    def find(self, id: str) -> TokenRecord | None:
        rows = self._rows(f"SELECT {_COLUMNS} FROM tokens WHERE id = ?", id)
        return _record(rows[0]) if rows else None

    def all(self) -> list[TokenRecord]:
        return [_record(row) for row in self._rows(f"SELECT {_COLUMNS} FROM tokens ORDER BY created, id")]

    def revoke(self, id: str, at: int) -> list[str]:
        with self._write() as db:
            rows = db.execute(
                f"{_TREE} SELECT tokens.id FROM tokens JOIN tree USING (id) WHERE revoked = 0 ORDER BY tokens.id", (id,)
            ).fetchall()
            db.executemany("UPDATE tokens SET revoked = ? WHERE id = ?", [(at, row[0]) for row in rows])
        return [row[0] for row in rows]

    def used(self, id: str, at: int) -> None:
        with self._write(self._counts) as db:
            db.execute("UPDATE tokens SET last_used = ? WHERE id = ? AND last_used < ?", (at, id, at))

    def spend(self, limits: Mapping[str, int], what: str, window: int, amount: int) -> bool:
        with self._write(self._counts) as db:
            rows = []
            for token, limit in limits.items():
                known = "SELECT amount FROM spent WHERE token = ? AND what = ? AND window = ?"
                row = db.execute(known, (token, what, window)).fetchone()
                amount_now = (row[0] if row else 0) + amount
                if amount_now > limit:
                    return False
                rows.append((token, what, window, amount_now))
            db.executemany("INSERT OR REPLACE INTO spent VALUES (?, ?, ?, ?)", rows)
            return True

    def answer(self, token: str, request: str) -> tuple[bytes, str] | None:
        rows = self._rows("SELECT asked, answer FROM answers WHERE token = ? AND request = ?", token, request)
        return (bytes(rows[0][0]), rows[0][1]) if rows else None

    def keep_answer(self, token: str, request: str, asked: bytes, answer: str, at: int, oldest: int) -> None:
        with self._write() as db:
            db.execute("DELETE FROM answers WHERE at < ?", (oldest,))
            db.execute("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?)", (token, request, asked, answer, at))

    def note(self, entry: AuditEntry) -> int:
        with self._write() as db:
            cursor = db.execute(
                "INSERT INTO trail (at, token, action, workspace, detail) VALUES (?, ?, ?, ?, ?)",
                (entry.at, entry.token, entry.action, entry.workspace, entry.detail[:DETAIL_LIMIT]),
            )
            number = cursor.lastrowid or 0
            if number % 100 == 0:
                with contextlib.suppress(OSError):  # on a full disk the lines stay in the database
                    self._rotate(db, number)
            return number

    def renote(self, number: int, detail: str) -> None:
        with self._write(self._counts) as db:
            db.execute("UPDATE trail SET detail = ? WHERE number = ?", (detail[:DETAIL_LIMIT], number))

    def lines(self, after: int, limit: int) -> list[tuple[int, AuditEntry]]:
        for path in sorted(self._audit.glob("*.jsonl")):
            if int(path.stem.rpartition("-")[2]) > after:
                found = [json.loads(line) for line in path.read_text().splitlines()]
                moved = [(one.pop("number"), AuditEntry(**one)) for one in found]
                return [line for line in moved if line[0] > after][:limit]
        rows = self._rows(f"SELECT {_LINE} FROM trail WHERE number > ? ORDER BY number LIMIT ?", after, limit)
        return [(row[0], AuditEntry(*row[1:])) for row in rows]

    def trail(self, token: str | None, limit: int) -> list[AuditEntry]:
        which, names = ("WHERE token = ?", (token,)) if token else ("", ())
        sql = f"SELECT at, token, action, workspace, detail FROM trail {which} ORDER BY number DESC LIMIT ?"
        return [AuditEntry(*row) for row in self._rows(sql, *names, limit)]

    def close(self) -> None:
        with self._lock:
            self._counts.close()
            self._kept.close()

    def _rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with self._lock, _translated(self.path):
            return self._counts.execute(sql, values).fetchall()

    @contextlib.contextmanager
    def _write(self, connection: sqlite3.Connection | None = None) -> Iterator[sqlite3.Connection]:
        db = connection or self._kept
        with self._lock, _translated(self.path):
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise

    @property
    def _audit(self) -> Path:
        return self.path.with_name("audit")

    def _rotate(self, db: sqlite3.Connection, newest: int) -> None:
        """Move the oldest lines to a file, once there are enough. Repeating it writes the same file."""
        (oldest,) = db.execute("SELECT min(number) FROM trail").fetchone()
        if newest - oldest < TRAIL_KEPT + ROTATED:
            return
        rows = db.execute(f"SELECT {_LINE} FROM trail ORDER BY number LIMIT ?", (ROTATED,)).fetchall()
        text = "".join(json.dumps(dict(zip(_LINE.split(", "), row, strict=True))) + "\n" for row in rows)
        self._audit.mkdir(mode=0o700, exist_ok=True)
        _write_whole(self._audit / f"{rows[0][0]:012d}-{rows[-1][0]:012d}.jsonl", text.encode())
        db.execute("DELETE FROM trail WHERE number <= ?", (rows[-1][0],))

    def _connect(self, synchronous: str) -> sqlite3.Connection:
        # Used by many threads, one at a time under the lock.
        db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
        for pragma in (f"busy_timeout = {BUSY_MS}", f"synchronous = {synchronous}", "trusted_schema = OFF"):
            db.execute(f"PRAGMA {pragma}")
        return db

    def _make(self) -> None:
        [(application,), (version,)] = (
            self._kept.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
        )
        if (application, version) == (APPLICATION, SCHEMA_VERSION):
            return
        if application == APPLICATION and version > SCHEMA_VERSION:
            raise Unavailable(
                f"a newer kgd wrote the hub's tokens: format {version}, this kgd reads {SCHEMA_VERSION}",
                at=str(self.path),
                next="Install that version again. Nothing was changed.",
            )
        if application or version or self._kept.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise Damaged(
                "this is not a file of a hub's tokens",
                at=str(self.path),
                next="Restore it from a backup, or move it away to start without tokens.",
            )
        self._kept.executescript(
            f"PRAGMA journal_mode = WAL; BEGIN; {SCHEMA} PRAGMA application_id = {APPLICATION};"
            f"PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
        )


def _write_whole(path: Path, data: bytes) -> None:
    new = path.with_suffix(".new")
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _private(path: Path) -> None:
    try:
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600))
        found = os.lstat(path)
    except OSError as error:
        raise Unavailable(f"the hub's state cannot be opened: {error.strerror}", at=str(path)) from error
    if not stat.S_ISREG(found.st_mode) or found.st_mode & 0o077 or found.st_uid != os.getuid():
        raise Forbidden("others can read or replace the hub's state", at=str(path), next=f"chmod 600 {path}")


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise Unavailable(f"the hub's state cannot be used just now: {error}", at=str(path)) from error
    except sqlite3.DatabaseError as error:
        raise Damaged(
            "the hub's state is damaged; no token is taken",
            at=str(path),
            next="Restore a copy of it, or move it away and mint new tokens.",
        ) from error


def _row(one: TokenRecord) -> tuple[object, ...]:
    holder, quota = json.dumps(one.holder.as_dict()), json.dumps(asdict(one.quota))
    return one.holder.id, one.holder.parent, holder, one.digest, quota, one.created, one.revoked, one.last_used


def _record(row: tuple[Any, ...]) -> TokenRecord:
    _, _, holder, digest, quota, created, revoked, last_used = row
    who = principal_from(json.loads(holder))
    return TokenRecord(who, bytes(digest), created, revoked, last_used, Quota(**json.loads(quota)))
