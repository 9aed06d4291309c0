"""This file is where it is kept what was read inside of the files of the code tree: symbols, chunks, and edges.

Derived: a file of its own, which may be deleted. Paths are those of the operating system (surrogateescape is told by
the caller's own encoding: here they are text that SQLite can hold). One process writes, any number read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from sqlite3 import Connection
from typing import NamedTuple

from kgd.index.database import Database, Schema

VERSION = 1
APPLICATION = 0x6B676363
TABLES = ("files", "symbols", "chunks", "edges", "keys", "asked")
SCHEMA = """
CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    language TEXT NOT NULL,
    stamp TEXT NOT NULL,
    hash TEXT NOT NULL,
    state TEXT NOT NULL,
    shape TEXT NOT NULL,
    reading BLOB NOT NULL,
    symbols INTEGER NOT NULL,
    chunks INTEGER NOT NULL,
    resolved INTEGER NOT NULL,
    told INTEGER NOT NULL
);
CREATE INDEX to_resolve ON files (resolved) WHERE resolved = 0;
CREATE INDEX to_tell ON files (told) WHERE told = 0;
CREATE TABLE symbols (
    file INTEGER NOT NULL, name TEXT NOT NULL, kind TEXT NOT NULL, line INTEGER NOT NULL, end INTEGER NOT NULL,
    signature TEXT NOT NULL, doc TEXT NOT NULL, PRIMARY KEY (file, name)
) WITHOUT ROWID;
CREATE TABLE chunks (
    file INTEGER NOT NULL, number INTEGER NOT NULL, heading TEXT NOT NULL, text TEXT NOT NULL,
    PRIMARY KEY (file, number)
);
CREATE TABLE edges (
    file INTEGER NOT NULL, source TEXT NOT NULL, type TEXT NOT NULL, target_file INTEGER NOT NULL, target TEXT NOT NULL,
    PRIMARY KEY (file, source, type, target_file, target)
) WITHOUT ROWID;
CREATE INDEX edges_into ON edges (target_file, target);
CREATE TABLE keys (key TEXT NOT NULL, file INTEGER NOT NULL, PRIMARY KEY (key, file)) WITHOUT ROWID;
CREATE INDEX keys_of ON keys (file);
CREATE TABLE asked (key TEXT NOT NULL, file INTEGER NOT NULL, PRIMARY KEY (key, file)) WITHOUT ROWID;
CREATE INDEX asked_by ON asked (file);
"""


class FileRow(NamedTuple):
    """A file that was looked into. `state` is ``read``, or why it was not. `told`: full text knows what is in it."""

    id: int
    path: str
    language: str
    stamp: str
    hash: str
    state: str
    shape: str
    symbols: int
    chunks: int


class SymbolRow(NamedTuple):
    name: str
    kind: str
    line: int
    end: int
    signature: str
    doc: str


class ChunkRow(NamedTuple):
    number: int
    heading: str
    text: str


class EdgeRow(NamedTuple):
    """The other end of an edge; an empty `name` is the file itself."""

    type: str
    path: str
    name: str


class Written(NamedTuple):
    """What is kept of one file. `keys` are what others may ask for it by; others see a change of `shape`."""

    path: str
    language: str
    stamp: str
    hash: str
    state: str
    shape: str = ""
    reading: bytes = b""
    symbols: Sequence[SymbolRow] = ()
    chunks: Sequence[ChunkRow] = ()
    keys: Sequence[str] = ()


_FILE = "id, path, language, stamp, hash, state, shape, symbols, chunks"


class CodeIndex:
    """Any thread and process may read; one writes. Each call sees what was committed last.

    Every method raises what `Database` does: IndexDamaged, Unavailable. `edition` is that of whoever reads the files:
    what another one wrote is dropped.
    """

    def __init__(self, path: Path, edition: int) -> None:
        self._database = Database.open(path, Schema(APPLICATION, 1_000 * VERSION + edition, TABLES, SCHEMA))

    def close(self) -> None:
        self._database.close()

    def recreate(self) -> None:
        """Begin anew, empty."""
        self._database.recreate()

    def writing(self) -> AbstractContextManager[Connection]:
        """One transaction around several writes."""
        return self._database.write()

    # Reading

    def file(self, path: str) -> FileRow | None:
        with self._database.read() as connection:
            row = connection.execute(f"SELECT {_FILE} FROM files WHERE path = ?", (path,)).fetchone()
            return FileRow(*row) if row else None

    def stamps(self) -> dict[str, str]:
        """Every file that was looked into, with what it was then. O(files)."""
        with self._database.read() as connection:
            return dict(connection.execute("SELECT path, stamp FROM files"))

    def reading(self, path: str) -> bytes | None:
        with self._database.read() as connection:
            row = connection.execute("SELECT reading FROM files WHERE path = ?", (path,)).fetchone()
            return row[0] if row else None

    def symbol(self, path: str, name: str) -> SymbolRow | None:
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT name, kind, line, end, signature, doc FROM symbols"
                " WHERE file = (SELECT id FROM files WHERE path = ?) AND name = ?",
                (path, name),
            ).fetchone()
            return SymbolRow(*row) if row else None

    def symbols(self, path: str) -> list[SymbolRow]:
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT name, kind, line, end, signature, doc FROM symbols"
                " WHERE file = (SELECT id FROM files WHERE path = ?) ORDER BY line, name",
                (path,),
            )
            return [SymbolRow(*row) for row in rows]

    def chunk(self, path: str, number: int) -> ChunkRow | None:
        with self._database.read() as connection:
            row = connection.execute(
                "SELECT number, heading, text FROM chunks"
                " WHERE file = (SELECT id FROM files WHERE path = ?) AND number = ?",
                (path, number),
            ).fetchone()
            return ChunkRow(*row) if row else None

    def chunks(self, path: str) -> list[ChunkRow]:
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT number, heading, text FROM chunks WHERE file = (SELECT id FROM files WHERE path = ?)"
                " ORDER BY number",
                (path,),
            )
            return [ChunkRow(*row) for row in rows]

    def out(self, path: str, name: str) -> list[EdgeRow]:
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT edges.type, files.path, edges.target FROM edges JOIN files ON files.id = edges.target_file"
                " WHERE edges.file = (SELECT id FROM files WHERE path = ?) AND edges.source = ?",
                (path, name),
            )
            return [EdgeRow(*row) for row in rows]

    def into(self, path: str, name: str) -> list[EdgeRow]:
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT edges.type, files.path, edges.source FROM edges JOIN files ON files.id = edges.file"
                " WHERE edges.target_file = (SELECT id FROM files WHERE path = ?) AND edges.target = ?",
                (path, name),
            )
            return [EdgeRow(*row) for row in rows]

    def with_key(self, key: str) -> list[str]:
        """The files that can be asked for by a key, sorted."""
        with self._database.read() as connection:
            rows = connection.execute(
                "SELECT files.path FROM keys JOIN files ON files.id = keys.file WHERE keys.key = ? ORDER BY files.path",
                (key,),
            )
            return [path for (path,) in rows]

    def untold(self, limit: int) -> list[str]:
        """Files of which full text does not know yet what is in them now."""
        with self._database.read() as connection:
            rows = connection.execute("SELECT path FROM files WHERE told = 0 ORDER BY id LIMIT ?", (limit,))
            return [path for (path,) in rows]

    def unresolved(self, limit: int) -> list[str]:
        """Files whose edges are not those of what is in them and around them now."""
        with self._database.read() as connection:
            rows = connection.execute("SELECT path FROM files WHERE resolved = 0 ORDER BY id LIMIT ?", (limit,))
            return [path for (path,) in rows]

    def with_content(self) -> list[str]:
        """The files in which there is something for full text to find. O(files)."""
        with self._database.read() as connection:
            rows = connection.execute("SELECT path FROM files WHERE symbols + chunks > 0 ORDER BY id")
            return [path for (path,) in rows]

    def counts(self) -> list[tuple[str, str, int, int, int]]:
        """Language, state, files, symbols and chunks. O(files)."""
        with self._database.read() as connection:
            return connection.execute(
                "SELECT language, state, count(*), sum(symbols), sum(chunks) FROM files GROUP BY language, state"
                " ORDER BY language, state"
            ).fetchall()

    def count_unresolved(self) -> int:
        with self._database.read() as connection:
            return int(connection.execute("SELECT count(*) FROM files WHERE resolved = 0").fetchone()[0])

    # Writing

    def restamp(self, path: str, stamp: str) -> None:
        """The same content, touched."""
        with self._database.write() as connection:
            connection.execute("UPDATE files SET stamp = ? WHERE path = ?", (stamp, path))

    def put(self, written: Written) -> bool:
        """Keep what a file says now, in place of what it said. True where others have to look at it again.

        Whoever asked for what changed here is unresolved from now on.
        """
        with self._database.write() as connection:
            row = connection.execute("SELECT id, shape FROM files WHERE path = ?", (written.path,)).fetchone()
            if row is None:
                id = connection.execute(
                    "INSERT INTO files (path, language, stamp, hash, state, shape, reading, symbols, chunks, resolved,"
                    " told) VALUES (?, '', '', '', '', '', '', 0, 0, 0, 0)",
                    (written.path,),
                ).lastrowid
                old_shape, old_keys = None, set[str]()
            else:
                id, old_shape = row
                old_keys = {key for (key,) in connection.execute("SELECT key FROM keys WHERE file = ?", (id,))}
            connection.execute(
                "UPDATE files SET language = ?, stamp = ?, hash = ?, state = ?, shape = ?, reading = ?, symbols = ?,"
                " chunks = ?, resolved = ?, told = 0 WHERE id = ?",
                (written.language, written.stamp, written.hash, written.state, written.shape, written.reading,
                 len(written.symbols), len(written.chunks), not written.reading, id),
            )  # fmt: skip
            for table in ("symbols", "chunks"):
                connection.execute(f"DELETE FROM {table} WHERE file = ?", (id,))
            connection.executemany(
                "INSERT INTO symbols VALUES (?, ?, ?, ?, ?, ?, ?)", [(id, *one) for one in written.symbols]
            )
            connection.executemany("INSERT INTO chunks VALUES (?, ?, ?, ?)", [(id, *one) for one in written.chunks])
            keys = set(written.keys)
            connection.executemany("DELETE FROM keys WHERE key = ? AND file = ?", [(k, id) for k in old_keys - keys])
            connection.executemany("INSERT INTO keys VALUES (?, ?)", [(key, id) for key in sorted(keys - old_keys)])
            if not written.reading:
                connection.execute("DELETE FROM edges WHERE file = ?", (id,))
                connection.execute("DELETE FROM asked WHERE file = ?", (id,))
            seen = old_shape != written.shape or keys != old_keys
            if seen:
                _outdate(connection, [*(keys ^ old_keys), f"file:{written.path}"])
            return seen

    def remove(self, path: str) -> bool:
        """Forget a file. False where it is not known."""
        with self._database.write() as connection:
            row = connection.execute("SELECT id FROM files WHERE path = ?", (path,)).fetchone()
            if row is None:
                return False
            keys = [key for (key,) in connection.execute("SELECT key FROM keys WHERE file = ?", row)]
            for table in ("symbols", "chunks", "edges", "keys", "asked"):
                connection.execute(f"DELETE FROM {table} WHERE file = ?", row)
            connection.execute("DELETE FROM edges WHERE target_file = ?", row)
            connection.execute("DELETE FROM files WHERE id = ?", row)
            _outdate(connection, [*keys, f"file:{path}"])
            return True

    def link(self, path: str, edges: Iterable[tuple[str, str, str, str]], asked: Iterable[str]) -> None:
        """Keep the edges that begin in a file (source, type, path and name of the target), and what they depend on."""
        with self._database.write() as connection:
            row = connection.execute("SELECT id FROM files WHERE path = ?", (path,)).fetchone()
            if row is None:
                return
            (id,) = row
            ids: Mapping[str, int] = _Ids(connection)
            connection.execute("DELETE FROM edges WHERE file = ?", (id,))
            connection.execute("DELETE FROM asked WHERE file = ?", (id,))
            rows = [(id, source, type, ids[target], name) for source, type, target, name in edges]
            connection.executemany(
                "INSERT OR IGNORE INTO edges VALUES (?, ?, ?, ?, ?)", [row for row in rows if row[3] >= 0]
            )
            connection.executemany("INSERT INTO asked VALUES (?, ?)", [(key, id) for key in sorted(set(asked))])
            connection.execute("UPDATE files SET resolved = 1 WHERE id = ?", (id,))

    def note_told(self, paths: Iterable[str]) -> None:
        """Full text knows what is in these files."""
        with self._database.write() as connection:
            connection.executemany("UPDATE files SET told = 1 WHERE path = ?", [(path,) for path in paths])


class _Ids(dict[str, int]):
    """The id of a file by its path, -1 where it is not known; each is asked for once."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self._connection = connection

    def __missing__(self, path: str) -> int:
        row = self._connection.execute("SELECT id FROM files WHERE path = ?", (path,)).fetchone()
        self[path] = found = int(row[0]) if row else -1
        return found


def _outdate(connection: Connection, keys: Iterable[str]) -> None:
    connection.executemany(
        "UPDATE files SET resolved = 0 WHERE id IN (SELECT file FROM asked WHERE key = ?)", [(key,) for key in keys]
    )
