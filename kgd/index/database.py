"""Derived SQLite files: opening, writing and reading. Their content can always be rebuilt.

One writer at a time; readers never wait for it (WAL). A damaged file is rebuilt; a full disk or a lock is only
reported.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock, RLock
from typing import Any

from kgd.errors import Damaged, Unavailable
from kgd.model.node import NODE_FIELDS
from kgd.model.uri import is_text_name

APPLICATION = 0x6B676431
"""The application id in the header of the file: `kgd1`."""
SCHEMA_VERSION = 16
IDLE_READERS = 4
CACHE_KB = 8_000
"""Page cache of a connection in KB; SQLite's default of 2 MB is too small for the inner pages of 100,000 documents."""
LOG_BYTES = 8 << 20
"""Size in bytes to which the write-ahead log shrinks after a large transaction; by default it never shrinks."""
LOG_KEPT = 1 << 20
"""Size in bytes up to which the write-ahead log is kept in idle moments."""
MOST_FREED = 5_000
"""Maximum number of unused pages to give back at once."""
BUSY_MS = 10_000
BATCH = 500
"""Maximum number of values in one statement."""

_TABLES = (
    "meta",
    "docs",
    "gone",
    "validity",
    "labels",
    "text",
    "notes_text",
    "sources_text",
    "code_text",
    "pieces",
    "people",
    "wholes",
    "whole_text",
    "beside",
    "files",
    "file_text",
)
_DAMAGE = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
"""Includes SQLITE_ERROR: the statements are fixed, so they fail only if a table is not as declared."""

TOKENIZER, FILE_TOKENIZER = "porter unicode61 remove_diacritics 2", "unicode61 remove_diacritics 2"
"""The tokenizers of full text, and of the paths of files."""
SCHEMA = f"""
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE docs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uri TEXT NOT NULL,
    origin TEXT NOT NULL,
    type TEXT NOT NULL,
    name TEXT NOT NULL,
    path_at INTEGER NOT NULL,
    path TEXT AS (substr(uri, path_at)) VIRTUAL,
    updated INTEGER NOT NULL,
    dated INTEGER NOT NULL,
    source_type TEXT,
    source_id TEXT,
    aliases TEXT NOT NULL,
    lane INTEGER NOT NULL,
    blob BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    labels BLOB NOT NULL,
    UNIQUE (uri, origin)
);
CREATE TABLE gone (number INTEGER PRIMARY KEY AUTOINCREMENT, doc INTEGER NOT NULL);
CREATE INDEX of_origin ON docs (origin) WHERE origin <> '';
CREATE INDEX in_path ON docs (path);
CREATE INDEX in_lane ON docs (lane);
CREATE INDEX newest ON docs (type, updated DESC, uri);
CREATE INDEX of_source ON docs (source_type, source_id, uri) WHERE source_type IS NOT NULL;
CREATE TABLE validity (doc INTEGER PRIMARY KEY, begin INTEGER, until INTEGER);
CREATE TABLE labels (label INTEGER NOT NULL, doc INTEGER NOT NULL, PRIMARY KEY (label, doc)) WITHOUT ROWID;
CREATE TABLE text (
    id INTEGER PRIMARY KEY,
    tags TEXT NOT NULL, summary TEXT NOT NULL, content TEXT NOT NULL, data TEXT NOT NULL
);
CREATE VIRTUAL TABLE notes_text USING fts5 (
    name, tags, summary, content, data, parts, content = '',
    tokenize = '{TOKENIZER}'
);
CREATE VIRTUAL TABLE sources_text USING fts5 (
    name, tags, summary, content, data, parts, content = '',
    tokenize = '{TOKENIZER}'
);
CREATE VIRTUAL TABLE code_text USING fts5 (
    name, tags, summary, content, data, parts, content = '',
    tokenize = '{TOKENIZER}'
);
CREATE VIRTUAL TABLE pieces USING fts5 (texts, tokenize = 'trigram case_sensitive 1');
CREATE TABLE people (person TEXT NOT NULL, doc INTEGER NOT NULL, PRIMARY KEY (person, doc)) WITHOUT ROWID;
CREATE INDEX people_of ON people (doc);
CREATE TABLE wholes (id INTEGER PRIMARY KEY, path TEXT NOT NULL UNIQUE, lane INTEGER NOT NULL);
CREATE VIRTUAL TABLE whole_text USING fts5 (content, tokenize = '{TOKENIZER}');
CREATE VIRTUAL TABLE beside USING fts5 (content, tokenize = '{TOKENIZER}');

CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    uri TEXT NOT NULL UNIQUE,
    type TEXT NOT NULL,
    kind TEXT NOT NULL,
    path TEXT NOT NULL,
    name TEXT NOT NULL
);
CREATE INDEX files_of_type ON files (type);
CREATE INDEX files_of_kind ON files (kind);
CREATE INDEX files_called ON files (name, uri);
CREATE INDEX files_named ON files (name COLLATE NOCASE);
CREATE VIRTUAL TABLE file_text USING fts5 (path, parts, tokenize = '{FILE_TOKENIZER}');
"""
DOCS_BY_URI = "sqlite_autoindex_docs_1"
"""SQLite's name for the index of `docs` by URI and origin."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of one kind of derived file. A file with another application id or version is rebuilt."""

    application: int
    version: int
    tables: tuple[str, ...]
    sql: str


_READ = zlib.crc32(repr([(row.name, row.words) for row in NODE_FIELDS if row.words]).encode())
"""A checksum of the fields that search reads; if they change, the index is rebuilt."""
INDEX = Schema(APPLICATION, SCHEMA_VERSION << 16 | _READ & 0xFFFF, _TABLES, SCHEMA)


class IndexDamaged(Damaged):
    """The file is damaged. Nothing is lost: call `Database.recreate` and fill it again."""


class OtherVersion(Exception):
    """The file is sound, but this child is of another version of kgd. It ends without an answer, as in a crash: its
    parent does the work itself, or tries again later."""


class Database:
    """One derived file. Close it when the workspace closes."""

    def __init__(self, path: Path, schema: Schema = INDEX, *, is_child: bool = False, ticket: str = "") -> None:
        """Open the file. If the file is missing, damaged, or from another version of kgd, it is replaced by an empty
        file.

        Args:
            is_child: Whether the parent process owns the file. A child never replaces it: the parent has it open, and
                during an update the two may run different versions of kgd.
            ticket: The ticket of the file's owner, for a child that writes for it.

        Raises:
            IndexDamaged: For a child, the file is missing or damaged. It is unchanged.
            OtherVersion: For a child, the file is of another version of kgd. It is unchanged.
            Unavailable: The file is locked, or cannot be opened or written. It is unchanged.
        """
        self.path = path
        self._schema = schema
        self._ticket, self._is_owner = ticket, False
        self._writing = RLock()
        self._writer: sqlite3.Connection | None = None
        self._depth = 0
        self._idle: list[sqlite3.Connection] = []
        self._pool = Lock()
        self._naming = RLock()
        """Held while the file is replaced, and while a connection opens the file, its log and its shared memory by
        path: an old file combined with a new log would damage both."""
        self._era = 0
        self._met_read_only = False
        self.on_damage: Callable[[IndexDamaged], None] = lambda damage: None
        """Called when a reader finds damage, before its call fails. It must not block."""
        if is_child:
            if not self._is_sound():
                if path.exists() and self._stamp()[0] == schema.application:
                    raise OtherVersion(f"{path} is of another version of kgd")
                raise IndexDamaged("the index is missing or damaged", at=str(path))
            return
        if path.is_dir() and not path.is_symlink():  # a person made this folder, so its content is kept
            with contextlib.suppress(OSError):
                path.rename(path.with_name(f"{path.name}.folder-{secrets.token_hex(4)}"))
        try:
            is_sound = self._is_sound()
        except IndexDamaged:
            is_sound = False
        if not is_sound:
            self.recreate()

    def recreate(self) -> None:
        """Replace the file with an empty one.

        Raises:
            Unavailable: The file cannot be written.
        """
        # Closed inside the lock: a connection reads the era first, so an old file with a new era would stay in the
        # pool.
        with self._writing, self._naming:
            self.close()
            with _translated(self.path):
                try:
                    for suffix in ("", "-wal", "-shm", "-journal"):
                        Path(f"{self.path}{suffix}").unlink(missing_ok=True)
                    self.path.parent.mkdir(exist_ok=True)
                    os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                except OSError as error:
                    raise Unavailable(f"the index cannot be created: {error.strerror}", at=str(self.path)) from error
                connection = self._connect()
                self._writer = connection
                connection.executescript(
                    f"PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; BEGIN; {self._schema.sql}"
                    f"PRAGMA application_id = {self._schema.application};"
                    f"PRAGMA user_version = {self._schema.version}; COMMIT;"
                )

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it becomes visible, or nothing. Nested calls join the outermost transaction, which
        commits.

        Raises:
            IndexDamaged: The file is damaged.
            Unavailable: The file is locked by another process, or cannot be written.
        """
        with self._writing, _translated(self.path):
            if self._writer is None:
                self._writer = self._connect()
            connection = self._writer
            if self._depth:
                yield connection
                return
            self._depth += 1
            try:
                connection.execute("BEGIN IMMEDIATE")
                if self._ticket:
                    self._present(connection)
                yield connection
                connection.execute("COMMIT")
            except BaseException as error:
                self._met_read_only |= _code(error) == sqlite3.SQLITE_READONLY
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            finally:
                self._depth -= 1

    def own(self) -> None:
        """Void the tickets of earlier owners with the next write. The file needs a table `meta`.

        A child may finish its last order after its owner was killed, and must not overwrite the work of the next owner.
        """
        self._ticket, self._is_owner = secrets.token_hex(8), True

    def ticket(self) -> str:
        """A valid ticket for a child. Raises the errors of `write`."""
        with self.write():
            return self._ticket

    def _present(self, connection: sqlite3.Connection) -> None:
        row = connection.execute("SELECT value FROM meta WHERE key = 'ticket'").fetchone()
        if row is not None and row[0] == self._ticket:
            return
        if not self._is_owner:
            raise Unavailable("the file has another owner", at=str(self.path))
        connection.execute("INSERT OR REPLACE INTO meta VALUES ('ticket', ?)", (self._ticket,))

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection to the last committed state, which all statements in the block see; never waits for a writer.
        Raises the errors of `write`."""
        with self._reading() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """The rows of one query on the last committed state. Raises the errors of `write`."""
        with self._reading() as connection:  # one statement needs no transaction to see one state
            return connection.execute(sql, values).fetchall()

    def row(self, sql: str, *values: Any) -> tuple[Any, ...] | None:
        """The first row of a query, or None."""
        with self._reading() as connection:
            row: tuple[Any, ...] | None = connection.execute(sql, values).fetchone()
            return row

    def column(self, sql: str, *values: Any) -> list[Any]:
        """The first column of a query."""
        return [row[0] for row in self.rows(sql, *values)]

    def rows_in(self, sql: str, values: Collection[Any]) -> list[tuple[Any, ...]]:
        """The rows of a query in which `{}` stands for a list of values; run in batches, in ascending order of the
        values. Names of files that are not UTF-8 are left out: no row has them."""
        found, asked = [], sorted(one for one in values if not isinstance(one, str) or is_text_name(one))
        with self.read() if len(asked) > BATCH else self._reading() as connection:
            for start in range(0, len(asked), BATCH):
                batch = asked[start : start + BATCH]
                found += connection.execute(sql.format(placeholders(batch)), batch).fetchall()
        return found

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        try:
            with _translated(self.path):
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
                        with self._naming:  # on closing, SQLite looks up log and shared memory by path
                            connection.close()
        except IndexDamaged as damage:
            self.on_damage(damage)
            raise

    def close(self) -> None:
        """Close all connections; the next use opens new ones."""
        with self._writing:
            with self._pool:
                self._era += 1
                idle, self._idle = self._idle, []
            for connection in idle:
                connection.close()
            if self._writer is not None:
                self._writer.close()
                self._writer = None

    def digest(self) -> bytes:
        """The SHA-1 of the file in hexadecimal digits. Closes all connections; call it while no other thread reads.

        When a process closes a file, the system drops all of its locks on that file, those of SQLite's connections
        included. Another process would then be the last user in SQLite's view, and delete a log that is in use
        (https://www.sqlite.org/howtocorrupt.html, section 2.2).
        """
        with self._writing, self._naming:
            self.close()
            with open(self.path, "rb") as file:
                return hashlib.file_digest(file, "sha1").hexdigest().encode()

    @property
    def has_long_log(self) -> bool:
        """Whether the write-ahead log takes more than `LOG_KEPT`."""
        with contextlib.suppress(OSError):
            return os.stat(f"{self.path}-wal").st_size > LOG_KEPT
        return False

    def trim(self) -> bool:
        """After much work, give unused pages and a long log back to the disk, unless a connection is in use, and cached
        pages to memory. Call it in idle moments, and again later if the answer is False: the log is still long."""
        if not self.has_long_log:
            return True
        with contextlib.suppress(Unavailable, IndexDamaged), self._writing, self._reading() as connection:
            connection.execute("PRAGMA busy_timeout = 0")
            try:
                # `execute` would free one page only.
                connection.executescript(f"PRAGMA incremental_vacuum({MOST_FREED})")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                with self._pool:
                    for one in (self._writer, connection, *self._idle):
                        if one:
                            one.execute("PRAGMA shrink_memory")
            finally:
                connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
        return not self.has_long_log

    def reopen(self) -> None:
        """Replace connections that may have encountered a full or a read-only disk. Reads continue in the meantime.

        SQLite deletes log and shared memory when its last connection closes. On a full disk another process could take
        that space, and no reader could open the file again, so one connection stays open. After a read-only disk, all
        connections have to be closed.
        """
        with self._writing:
            keeper = None
            if not self._met_read_only:
                with contextlib.suppress(Unavailable, IndexDamaged), _translated(self.path):
                    keeper = self._connect()
            self.close()
            self._met_read_only = False
            if keeper is not None:
                with self._pool:
                    self._idle.append(keeper)

    def meta(self, key: str) -> str | None:
        """A value of the table `meta`, which the schema must contain."""
        row = self.row("SELECT value FROM meta WHERE key = ?", key)
        return row[0] if row else None

    def set_meta(self, key: str, value: str) -> None:
        with self.write() as connection:
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def _is_sound(self) -> bool:
        if not self.path.exists():
            return False
        self.path.chmod(0o600)
        if self._stamp() != (self._schema.application, self._schema.version):
            return False
        with self.read() as connection:
            for table in self._schema.tables:
                connection.execute(f"SELECT * FROM {table} LIMIT 1").fetchone()
        return True

    def _stamp(self) -> tuple[int, int]:
        """The application and the version that the file names."""
        (application,), (version,) = (self.rows(f"PRAGMA {name}")[0] for name in ("application_id", "user_version"))
        return application, version

    def _connect(self) -> sqlite3.Connection:
        with self._naming:
            if not self.path.exists():  # SQLite would create an empty one
                raise IndexDamaged("the index file is missing", at=str(self.path))
            # Connections move between threads, one at a time: the pool and the writer's lock ensure that.
            connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            try:
                connection.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute(f"PRAGMA journal_size_limit = {LOG_BYTES}")
                connection.execute(f"PRAGMA cache_size = -{CACHE_KB}")
                connection.execute("PRAGMA trusted_schema = OFF")
                connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()  # opens log and shared memory
            except sqlite3.Error:
                connection.close()
                raise
            return connection


def cause_of(damage: IndexDamaged) -> str:
    """The error behind the damage, for the log. It contains no text of the index."""
    cause = damage.__cause__
    name = getattr(cause, "sqlite_errorname", "")
    return f"{name}: {cause}"[:200] if name else type(cause or damage).__name__


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:  # SQLite reported damage, in a message with damaged bytes
        raise IndexDamaged("the index is damaged", at=str(path), next="It is rebuilt automatically.") from error
    except sqlite3.Error as error:
        code = _code(error)
        unreadable = isinstance(error, sqlite3.OperationalError) and not hasattr(error, "sqlite_errorcode")
        if code in _DAMAGE or unreadable or not path.exists():  # unreadable: a text column that is not valid text
            raise IndexDamaged("the index is damaged", at=str(path), next="It is rebuilt automatically.") from error
        if isinstance(error, sqlite3.OperationalError):
            name = getattr(error, "sqlite_errorname", "") or "no code"
            why = "the disk is full" if code == sqlite3.SQLITE_FULL else name
            raise Unavailable(f"the index is unavailable ({why})", at=str(path)) from error
        raise


def _code(error: BaseException) -> int:
    """The primary result code; 0 if there is none."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def hashed(*texts: str) -> int:
    """A hash of these texts for an index: 64 bits take a fraction of the space of a URI."""
    digest = hashlib.blake2b("\0".join(texts).encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def placeholders(values: Collection[object]) -> str:
    """``?, ?, ?``: a parameter for each value."""
    return ", ".join("?" * len(values))
