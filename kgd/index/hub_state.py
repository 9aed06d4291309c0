"""A hub's state in SQLite: tokens, used quotas, answers to repeated requests, and the audit log.

Unlike the other files of this package, this file cannot be rebuilt, so kgd refuses a damaged file and never replaces
it. Tokens and the audit log are flushed before a call returns; a power cut may lose the latest counters.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from kgd.errors import Damaged, Forbidden, Unavailable
from kgd.model.token import (
    DETAIL_LIMIT,
    SEAL_SECONDS,
    SEALED_AT_ONCE,
    AuditEntry,
    HubContents,
    Moved,
    TokenRecord,
    from_row,
    sealed,
    storable,
    to_row,
)

APPLICATION = 0x6B676448
"""The application id in the header of the file: `kgdH`."""
SCHEMA_VERSION = 1
MOVED_VERSION = 2
"""The version of a file whose contents were moved, so that no kgd accepts its tokens any more."""
BUSY_MS = 5_000
TRAIL_KEPT = 200_000
"""Maximum lines of the audit log in the database; older lines are moved to files next to it."""
PART = 1_000
"""Number of lines of the audit log that are moved at a time."""
ROTATED = 10_000
"""Number of lines in such a file."""

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
LATER = """
CREATE TABLE IF NOT EXISTS keys (name TEXT PRIMARY KEY, key BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sign_ins (id TEXT PRIMARY KEY, until INTEGER NOT NULL, kept BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS sign_ins_by_end ON sign_ins (until);
CREATE TABLE IF NOT EXISTS seals (number INTEGER PRIMARY KEY, hash TEXT NOT NULL);
"""
"""Tables that earlier versions of kgd ignore, so that they can still use the file. `seals` chains the audit log."""
TURN_SECONDS = 25.0
"""Longest wait in seconds for a turn: longer than two requests to a sign-in server."""
_LINE = "number, at, token, action, workspace, detail"
_SEALED_LINE = "number, at, token, action, workspace, detail, coalesce(hash, '')"
_SEALED = "trail LEFT JOIN seals USING (number)"
_COLUMNS = "id, parent, holder, digest, quota, created, revoked, last_used"
_INSERT = f"INSERT INTO tokens ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_TREE = """
WITH RECURSIVE tree(id) AS (SELECT ? UNION SELECT tokens.id FROM tokens JOIN tree ON tokens.parent = tree.id)
"""


class SqliteHubState:
    """The state of a hub in one SQLite file, readable only by its owner. Implements `HubState`; thread-safe and
    processes."""

    def __init__(self, path: Path, *, even_moved: bool = False) -> None:
        """Open or create the file; with `even_moved`, also a file whose contents were moved.

        Raises:
            Forbidden: Other users can read the file.
            Unavailable, Damaged: The file cannot be opened, and is unchanged.
        """
        self.path, self._even_moved = path, even_moved
        self._lock = threading.Lock()
        self._turns: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        _private(path)
        with _translated(path):
            # Two connections: commits of tokens are flushed, to survive a power cut; commits of counters are not.
            self._kept, self._counts = self._connect("FULL"), self._connect("NORMAL")
            self._make()

    def add(self, record: TokenRecord) -> None:
        with self._write() as db:
            db.execute(_INSERT, to_row(record))

    def add_child(self, record: TokenRecord, now: float) -> bool:
        """Add a child token. The parent is checked in the same transaction, so that a parent that is being revoked gets
        no more children."""
        with self._write() as db:
            row = db.execute(f"SELECT {_COLUMNS} FROM tokens WHERE id = ?", (record.holder.parent,)).fetchone()
            if row is None or not from_row(row).is_live(now):
                return False
            db.execute(_INSERT, to_row(record))
            return True

    def find(self, id: str) -> TokenRecord | None:
        rows = self._rows(f"SELECT {_COLUMNS} FROM tokens WHERE id = ?", storable(id))
        return from_row(rows[0]) if rows else None

    def all(self) -> list[TokenRecord]:
        return [from_row(row) for row in self._rows(f"SELECT {_COLUMNS} FROM tokens ORDER BY created, id")]

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

    def spend(self, limits: Mapping[str, int], what: str, seconds: int, amount: int, at: float) -> int:
        window, since = divmod(int(at), seconds)
        with self._write(self._counts) as db:
            rows = []
            for token, limit in limits.items():
                known = "SELECT amount FROM spent WHERE token = ? AND what = ? AND window = ?"
                row = db.execute(known, (token, what, window)).fetchone()
                amount_now = (row[0] if row else 0) + amount
                if amount_now > limit:
                    return seconds - since
                rows.append((token, what, window, amount_now))
            db.executemany("INSERT OR REPLACE INTO spent VALUES (?, ?, ?, ?)", rows)
            return 0

    def answer(self, token: str, request: str) -> tuple[bytes, str] | None:
        rows = self._rows("SELECT asked, answer FROM answers WHERE token = ? AND request = ?", token, storable(request))
        return (bytes(rows[0][0]), rows[0][1]) if rows else None

    def keep_answer(self, token: str, request: str, asked: bytes, answer: str, at: int, oldest: int) -> None:
        with self._write() as db:
            db.execute("DELETE FROM answers WHERE at < ?", (oldest,))
            db.execute(
                "INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?)",
                (token, storable(request), asked, storable(answer), at),
            )

    def note(self, entry: AuditEntry) -> int:
        with self._write() as db:
            cursor = db.execute(
                "INSERT INTO trail (at, token, action, workspace, detail) VALUES (?, ?, ?, ?, ?)",
                (entry.at, *map(storable, (entry.token, entry.action, entry.workspace, entry.detail[:DETAIL_LIMIT]))),
            )
            number = cursor.lastrowid or 0
            if number % 100 == 0:
                with contextlib.suppress(OSError):  # on a full disk the lines stay in the database
                    self._rotate(db, number)
            return number

    def renote(self, number: int, detail: str) -> None:
        text = storable(detail[:DETAIL_LIMIT])
        with self._write(self._counts) as db:
            if db.execute("SELECT 1 FROM seals WHERE number = ?", (number,)).fetchone():
                copied = "at, token, action, workspace"
                sql = f"INSERT INTO trail ({copied}, detail) SELECT {copied}, ? FROM trail WHERE number = ?"
                db.execute(sql, (text, number))
            else:
                db.execute("UPDATE trail SET detail = ? WHERE number = ?", (text, number))

    def seal(self, now: int) -> int:
        with self._write() as db:
            ripe = "SELECT number FROM trail WHERE at < ? ORDER BY number DESC LIMIT 1"
            row = db.execute(ripe, (now - SEAL_SECONDS,)).fetchone()
            return _seal(db, row[0], SEALED_AT_ONCE) if row else 0

    def lines(self, after: int, limit: int) -> list[tuple[int, AuditEntry]]:
        with self._lock, _translated(self.path):
            return self._lines(after, limit)

    def _lines(self, after: int, limit: int) -> list[tuple[int, AuditEntry]]:
        for path in sorted(self._audit.glob("*.jsonl")):
            if int(path.stem.rpartition("-")[2]) > after:
                found = [json.loads(line) for line in path.read_text().splitlines()]
                moved = [(one.pop("number"), AuditEntry(**one)) for one in found]
                return [line for line in moved if line[0] > after][:limit]
        sql = f"SELECT {_SEALED_LINE} FROM {_SEALED} WHERE number > ? ORDER BY number LIMIT ?"
        rows = self._counts.execute(sql, (after, limit)).fetchall()
        return [(row[0], AuditEntry(*row[1:])) for row in rows]

    def trail(self, token: str | None, limit: int) -> list[AuditEntry]:
        which, names = ("WHERE token = ?", (token,)) if token else ("", ())
        sql = f"SELECT at, token, action, workspace, detail FROM trail {which} ORDER BY number DESC LIMIT ?"
        return [AuditEntry(*row) for row in self._rows(sql, *names, limit)]

    def key(self, name: str, proposed: bytes) -> bytes:
        with self._write() as db:
            db.execute("INSERT OR IGNORE INTO keys VALUES (?, ?)", (name, proposed))
            return bytes(db.execute("SELECT key FROM keys WHERE name = ?", (name,)).fetchone()[0])

    def add_sign_in(self, record: TokenRecord, kept: bytes, until: int, oldest: int) -> None:
        with self._write() as db:
            gone = db.execute("SELECT id FROM sign_ins WHERE until < ?", (oldest,)).fetchall()
            db.executemany("DELETE FROM sign_ins WHERE id = ?", gone)
            db.executemany("DELETE FROM tokens WHERE id = ?", gone)
            db.execute(_INSERT, to_row(record))
            db.execute("INSERT INTO sign_ins VALUES (?, ?, ?)", (record.holder.id, until, kept))

    def sign_in(self, id: str) -> bytes | None:
        rows = self._rows("SELECT kept FROM sign_ins WHERE id = ?", storable(id))
        return bytes(rows[0][0]) if rows else None

    def renew(self, record: TokenRecord, kept: bytes) -> bool:
        id, _, holder, digest, *_ = to_row(record)
        with self._write() as db:
            sql = "UPDATE tokens SET holder = ?, digest = ? WHERE id = ? AND revoked = 0"
            if not db.execute(sql, (holder, digest, id)).rowcount:
                return False
            db.execute("UPDATE sign_ins SET kept = ? WHERE id = ?", (kept, id))
            return True

    @contextlib.contextmanager
    def turn(self, name: str) -> Iterator[None]:
        with self._lock:
            turn = self._turns.setdefault(name, threading.Lock())
        if not turn.acquire(timeout=TURN_SECONDS):
            raise Unavailable(
                "another request of the same sign-in is still running", next="Repeat the call in a moment."
            )
        try:
            yield
        finally:
            turn.release()

    def hand_over(self, take: Callable[[HubContents], Moved], to: str) -> Moved:
        """Give the contents to `take`, and accept no token from this file afterwards.

        If `take` raises, the file stays in use. After a kill, or to check the result, repeat the call: `take` gets the
        same id, and must not take anything twice.

        Args:
            to: The name of the new database, for later errors.
        """
        with self._write() as db:
            db.execute("CREATE TABLE IF NOT EXISTS moved (id TEXT NOT NULL, target TEXT NOT NULL)")
            if not db.execute("SELECT id FROM moved").fetchall():
                db.execute("INSERT INTO moved VALUES (?, '')", (secrets.token_hex(16),))
        with self._write() as db:
            moved = take(self._contents(db))
            db.execute("UPDATE moved SET target = ?", (to,))
            db.execute(f"PRAGMA user_version = {MOVED_VERSION}")
        return moved

    def _contents(self, db: sqlite3.Connection) -> HubContents:
        [(id,)] = db.execute("SELECT id FROM moved")
        return HubContents(
            id,
            [from_row(row) for row in db.execute(f"SELECT {_COLUMNS} FROM tokens ORDER BY created, id")],
            db.execute("SELECT token, what, window, amount FROM spent").fetchall(),
            iter(db.execute("SELECT token, request, asked, answer, at FROM answers")),
            self._parts,
            db.execute("SELECT name, key FROM keys").fetchall(),
            db.execute("SELECT id, until, kept FROM sign_ins").fetchall(),
        )

    def _parts(self, after: int) -> Iterator[list[tuple[int, AuditEntry]]]:
        while part := self._lines(after, PART):
            yield part
            after = part[-1][0]

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
        """Move the oldest lines to a file, once there are enough lines. If this is interrupted, the next attempt writes
        the same file."""
        (oldest,) = db.execute("SELECT min(number) FROM trail").fetchone()
        if newest - oldest < TRAIL_KEPT + ROTATED:
            return
        _seal(db, oldest + ROTATED, ROTATED)
        sql = f"SELECT {_SEALED_LINE} FROM {_SEALED} ORDER BY number LIMIT ?"
        rows = db.execute(sql, (ROTATED,)).fetchall()
        names = [*_LINE.split(", "), "hash"]
        text = "".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows)
        self._audit.mkdir(mode=0o700, exist_ok=True)
        _write_whole(self._audit / f"{rows[0][0]:012d}-{rows[-1][0]:012d}.jsonl", text.encode())
        db.execute("DELETE FROM trail WHERE number <= ?", (rows[-1][0],))
        db.execute("DELETE FROM seals WHERE number < ?", (rows[-1][0],))  # the next line continues from the last one

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
            known = "SELECT count(*) FROM sqlite_master WHERE name IN ('sign_ins_by_end', 'seals')"
            if self._kept.execute(known).fetchone()[0] < 2:
                self._kept.executescript(f"BEGIN IMMEDIATE; {LATER} COMMIT;")
            return
        if (application, version) == (APPLICATION, MOVED_VERSION):
            if self._even_moved:
                return
            [(_, to)] = self._kept.execute("SELECT id, target FROM moved")
            raise Unavailable(
                "the tokens of this hub were moved to another database",
                at=to,
                next="Start the hub with --state and this database.",
            )
        if application == APPLICATION and version > SCHEMA_VERSION:
            raise Unavailable(
                f"a newer kgd wrote the hub's tokens: format {version}; this kgd reads {SCHEMA_VERSION}",
                at=str(self.path),
                next="Install the newer kgd. Nothing was changed.",
            )
        if application or version or self._kept.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise Damaged(
                "this is not a file with a hub's tokens",
                at=str(self.path),
                next="Restore it from a backup, or move it away to start without tokens.",
            )
        self._kept.executescript(
            f"PRAGMA journal_mode = WAL; BEGIN; {SCHEMA} {LATER} PRAGMA application_id = {APPLICATION};"
            f"PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
        )


def _seal(db: sqlite3.Connection, newest: int, limit: int) -> int:
    """Continue the chain up to the line `newest`; returns the number of lines added."""
    last, before = db.execute("SELECT number, hash FROM seals ORDER BY number DESC LIMIT 1").fetchone() or (0, "")
    sql = f"SELECT {_LINE} FROM trail WHERE number > ? AND number <= ? ORDER BY number LIMIT ?"
    rows = db.execute(sql, (last, newest, limit)).fetchall()
    hashes = sealed(before, [(row[0], AuditEntry(*row[1:])) for row in rows])
    db.executemany("INSERT INTO seals VALUES (?, ?)", hashes)
    return len(hashes)


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
        raise Forbidden("other users can read or replace the hub's state", at=str(path), next=f"chmod 600 {path}")


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.OperationalError, sqlite3.ProgrammingError) as error:  # the latter: it has just been closed
        raise Unavailable(f"the hub's state cannot be used at the moment: {error}", at=str(path)) from error
    except sqlite3.DatabaseError as error:
        raise Damaged(
            "the hub's state is damaged; no token is accepted",
            at=str(path),
            next="Restore a copy of it, or move it away and create new tokens.",
        ) from error
