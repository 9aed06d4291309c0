"""This file is where a derived SQLite file is opened, written and read; what is in it can always be made again.

One writer at a time, any number of readers that never wait for it (WAL). What SQLite raises is told apart here: a file
that is damaged must be made anew, a full disk or a lock must not.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, RLock

from kgd.errors import Damaged, Unavailable

APPLICATION = 0x6B676431
"""`kgd1` in the header of the file."""
SCHEMA_VERSION = 7
IDLE_READERS = 4
CACHE_KB = 8_000
"""Pages a connection keeps; SQLite's own 2 MB are too few for the inner pages of 100k documents."""
BUSY_MS = 10_000

_TABLES = (
    "meta", "docs", "gone", "tags", "text", "people", "wholes", "whole_text", "beside", "files", "file_text",
    "versions", "served", "requests",
)  # fmt: skip
_DAMAGE = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
"""SQLITE_ERROR is among them: our statements are fixed, so they fail only where a table is not what it should be."""

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE docs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uri TEXT NOT NULL,
    origin TEXT NOT NULL,
    type TEXT NOT NULL,
    path TEXT NOT NULL,
    updated INTEGER NOT NULL,
    source_type TEXT,
    source_id TEXT,
    aliases TEXT NOT NULL,
    UNIQUE (uri, origin)
);
CREATE TABLE gone (number INTEGER PRIMARY KEY AUTOINCREMENT, doc INTEGER NOT NULL);
CREATE INDEX of_origin ON docs (origin) WHERE origin <> '';
CREATE INDEX in_path ON docs (path);
CREATE INDEX newest ON docs (type, updated DESC, uri);
CREATE INDEX of_source ON docs (source_type, source_id, uri) WHERE source_type IS NOT NULL;
CREATE TABLE tags (tag TEXT NOT NULL, doc INTEGER NOT NULL, PRIMARY KEY (tag, doc)) WITHOUT ROWID;
CREATE INDEX tags_of ON tags (doc);
CREATE VIRTUAL TABLE text USING fts5 (
    name, tags, summary, content, data, parts, tokenize = 'porter unicode61 remove_diacritics 2'
);

CREATE TABLE people (person TEXT NOT NULL, doc INTEGER NOT NULL, PRIMARY KEY (person, doc)) WITHOUT ROWID;
CREATE INDEX people_of ON people (doc);
CREATE TABLE wholes (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE);
CREATE VIRTUAL TABLE whole_text USING fts5 (content, tokenize = 'porter unicode61 remove_diacritics 2');
CREATE VIRTUAL TABLE beside USING fts5 (content, tokenize = 'porter unicode61 remove_diacritics 2');

CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    uri TEXT NOT NULL UNIQUE,
    type TEXT NOT NULL,
    kind TEXT NOT NULL,
    path TEXT NOT NULL,
    name TEXT NOT NULL
);
CREATE INDEX files_called ON files (name, uri);
CREATE VIRTUAL TABLE file_text USING fts5 (path, parts, tokenize = 'unicode61 remove_diacritics 2');

CREATE TABLE versions (
    path BLOB PRIMARY KEY,
    count INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    updated_by TEXT NOT NULL,
    updated_commit TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE served (uri TEXT NOT NULL, version INTEGER NOT NULL, blob BLOB NOT NULL, PRIMARY KEY (uri, version))
    WITHOUT ROWID;
CREATE TABLE requests (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, answer TEXT NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Schema:
    """What one kind of derived file holds. The two numbers stand in its header: a file with others is made anew."""

    application: int
    version: int
    tables: tuple[str, ...]
    sql: str


INDEX = Schema(APPLICATION, SCHEMA_VERSION, _TABLES, SCHEMA)


class IndexDamaged(Damaged):
    """The file is not a sound index. Nothing is lost: call `Database.recreate` and fill it again."""


class Database:
    """One derived file. Use `open`; close it when the workspace closes."""

    def __init__(self, path: Path, schema: Schema = INDEX) -> None:
        self.path = path
        self._schema = schema
        self._writing = RLock()
        self._writer: sqlite3.Connection | None = None
        self._depth = 0
        self._idle: list[sqlite3.Connection] = []
        self._pool = Lock()
        self._naming = RLock()
        """Held while the path is given another file, and while a connection finds its file, log and shared memory by
        path: one that found the old file and the new log would make both unsound."""
        self._era = 0
        self._met_read_only = False
        self.on_damage: Callable[[], None] = lambda: None
        """Called when somebody who reads meets damage, before they are told of it. It must not block."""

    @classmethod
    def open(cls, path: Path, schema: Schema = INDEX) -> Database:
        """The file at `path`, made anew (empty) where it is missing, damaged, or of another version of kgd.

        Raises:
            Unavailable: It is locked, or the disk refuses. The file is as it was.
        """
        database = cls(path, schema)
        if path.is_dir() and not path.is_symlink():  # nobody but a person makes one here; what is in it is theirs
            with contextlib.suppress(OSError):
                path.rename(path.with_name(f"{path.name}.folder-{secrets.token_hex(4)}"))
        try:
            if not database._is_sound():
                database.recreate()
        except IndexDamaged:
            database.recreate()
        return database

    def recreate(self) -> None:
        """Drop everything and begin with an empty file.

        Raises:
            Unavailable: The disk refuses.
        """
        # Closed inside: who connects takes the era, then the file, and an old file in a new era would stay in the pool.
        with self._writing, self._naming:
            self.close()
            with _told_apart(self.path):
                try:
                    for suffix in ("", "-wal", "-shm", "-journal"):
                        Path(f"{self.path}{suffix}").unlink(missing_ok=True)
                    self.path.parent.mkdir(exist_ok=True)
                    os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                except OSError as error:
                    raise Unavailable(f"the index cannot be made: {error.strerror}", at=str(self.path)) from error
                connection = self._connect()
                self._writer = connection
                connection.executescript(
                    f"PRAGMA journal_mode = WAL; BEGIN; {self._schema.sql}"
                    f"PRAGMA application_id = {self._schema.application};"
                    f"PRAGMA user_version = {self._schema.version}; COMMIT;"
                )

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction: everything inside becomes visible, or nothing does. May be nested; the outermost commits.

        Raises:
            IndexDamaged: The file is unsound.
            Unavailable: It is locked by another process, or the disk refuses.
        """
        with self._writing, _told_apart(self.path):
            if self._writer is None:
                self._writer = self._connect()
            connection = self._writer
            if self._depth:
                yield connection
                return
            self._depth += 1
            try:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
            except BaseException as error:
                self._met_read_only |= _code(error) == sqlite3.SQLITE_READONLY
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            finally:
                self._depth -= 1

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection that sees what was committed last; never waits for a writer. Errors as for `write`."""
        try:
            with self._reading() as connection:
                yield connection
        except IndexDamaged:
            self.on_damage()
            raise

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with _told_apart(self.path):
            with self._pool:
                era = self._era
                connection = self._idle.pop() if self._idle else None
            connection = connection or self._connect()
            try:
                yield connection
            finally:
                with self._pool:
                    keep = era == self._era and len(self._idle) < IDLE_READERS
                    if keep:
                        self._idle.append(connection)
                if not keep:
                    with self._naming:  # SQLite looks for log and shared memory by path as it closes
                        connection.close()

    def close(self) -> None:
        """Close what is open; using the database again opens it again."""
        with self._writing:
            with self._pool:
                self._era += 1
                idle, self._idle = self._idle, []
            for connection in idle:
                connection.close()
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def reopen(self) -> None:
        """New connections for those that may have met a full disk, or one that was read-only; reads go on meanwhile.

        With its last connection SQLite deletes log and shared memory. On a full disk somebody else takes the space, and
        nobody could read any more: so one stays open. Only what was opened on a read-only disk has to go as a whole.
        """
        with self._writing:
            keeper = None
            if not self._met_read_only:
                with contextlib.suppress(Unavailable, IndexDamaged), _told_apart(self.path):
                    keeper = self._connect()
            self.close()
            self._met_read_only = False
            if keeper is not None:
                with self._pool:
                    self._idle.append(keeper)

    def meta(self, key: str) -> str | None:
        """A remark in the table `meta`, which whoever calls this has among its own."""
        with self.read() as connection:
            row = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
            return row[0] if row else None

    def set_meta(self, key: str, value: str) -> None:
        with self.write() as connection:
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def _is_sound(self) -> bool:
        if not self.path.exists():
            return False
        self.path.chmod(0o600)
        with self.read() as connection:
            [(application,), (version,)] = (
                connection.execute(f"PRAGMA {name}").fetchone() for name in ("application_id", "user_version")
            )
            if (application, version) != (self._schema.application, self._schema.version):
                return False
            for table in self._schema.tables:
                connection.execute(f"SELECT * FROM {table} LIMIT 1").fetchone()
            return True

    def _connect(self) -> sqlite3.Connection:
        with self._naming:
            if not self.path.exists():  # SQLite would make an empty one
                raise IndexDamaged("the index file is gone", at=str(self.path))
            # Connections move between threads, one at a time: the pool and the writer's lock see to that.
            connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            try:
                connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute(f"PRAGMA cache_size = -{CACHE_KB}")
                connection.execute("PRAGMA trusted_schema = OFF")
                connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()  # opens log and shared memory
            except sqlite3.Error:
                connection.close()
                raise
            return connection


@contextlib.contextmanager
def _told_apart(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:  # what SQLite says of the damage, with bytes of it
        raise IndexDamaged("the index is damaged", at=str(path), next="It is made again by itself.") from error
    except sqlite3.Error as error:
        code = _code(error)
        unreadable = isinstance(error, sqlite3.OperationalError) and not hasattr(error, "sqlite_errorcode")
        if code in _DAMAGE or unreadable or not path.exists():  # unreadable: to Python, a text that is none
            raise IndexDamaged("the index is damaged", at=str(path), next="It is made again by itself.") from error
        if isinstance(error, sqlite3.OperationalError):
            name = getattr(error, "sqlite_errorname", "") or "no code"
            raise Unavailable(f"the index cannot be used just now ({name})", at=str(path)) from error
        raise


def _code(error: BaseException) -> int:
    """The primary result code; 0 where there is none."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
