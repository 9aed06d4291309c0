"""Code index: symbols, chunks and edges read from the files of the code tree.

This is a derived file, which may be deleted. Paths must be text that SQLite can store; the caller encodes all other
paths. One process writes, and any number of processes read.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from sqlite3 import Connection
from typing import NamedTuple

from kgd.index import words
from kgd.index.database import Database, Schema, placeholders

VERSION = 2
APPLICATION = 0x6B676363
TABLES = ("files", "symbols", "chunks", "edges", "keys", "asked", "bodies", "body_text")
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
CREATE TABLE bodies (file INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE VIRTUAL TABLE body_text USING fts5 (
    path, body, content = '', tokenize = 'porter unicode61 remove_diacritics 2'
);
"""

BODY_CHARACTERS = 200_000
"""Maximum number of a file's characters that are searchable."""
LOOKED_AT, FEWEST_LOOKED_AT = 0.25, 2_000
"""Maximum share of all files, but at least this number, that the words of a search may select together. The rarest
words are used first."""
PHRASES = 12
"""Maximum number of phrases of each length (two words, and `LONG_PHRASE` words). Each phrase is scored like an
additional word, so that an error message is found verbatim."""
COVERED_FIRST = 10
"""Maximum number of files for which the share of the query is computed."""
ADDED = 10
"""Maximum number of files that quote the query to add to the files found by words."""
PATH_WEIGHT = 6.0
RANK_DIGITS = 9


class FileRow(NamedTuple):
    """A file of the code tree. `state` is ``read``, or the reason why the file could not be read."""

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
    """The other end of an edge. An empty `name` means the file itself."""

    type: str
    path: str
    name: str


class FileHit(NamedTuple):
    """A file found by its full text. `covered` is the weighted share of the query's words that the file has; rare words
    weigh more. `quoted`: the file has the query, or at least half of it, as one run of words. `quote` is the place of
    this run, for the first files."""

    path: str
    score: float
    covered: float
    quoted: bool = False
    quote: Quote | None = None


class StoredReading(NamedTuple):
    """The stored reading of one file. `keys` are the names by which other files look it up; they depend on its
    `shape`."""

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
    text: str = ""


_FILE = "id, path, language, stamp, hash, state, shape, symbols, chunks"
_SYMBOL = "SELECT name, kind, line, end, signature, doc FROM symbols"
_OF_FILE = "WHERE file = (SELECT id FROM files WHERE path = ?)"


class CodeIndex(Database):
    """The index of one code tree. Any thread and process may read; one writes. Each call sees the last committed state.

    Every method raises the errors of `Database`: IndexDamaged, Unavailable. `edition` is the file reader's version;
    rows of another edition are dropped.
    """

    def __init__(self, path: Path, edition: int, *, is_child: bool = False) -> None:
        super().__init__(path, Schema(APPLICATION, 1_000 * VERSION + edition, TABLES, SCHEMA), is_child=is_child)

    # Reading

    def file(self, path: str) -> FileRow | None:
        row = self.row(f"SELECT {_FILE} FROM files WHERE path = ?", path)
        return FileRow(*row) if row else None

    def stamps(self) -> dict[str, str]:
        """The stamp of every file when it was read. O(files)."""
        return dict(self.rows("SELECT path, stamp FROM files"))

    def reading(self, path: str) -> bytes | None:
        row = self.row("SELECT reading FROM files WHERE path = ?", path)
        return row[0] if row else None

    def symbol(self, path: str, name: str) -> SymbolRow | None:
        row = self.row(f"{_SYMBOL} {_OF_FILE} AND name = ?", path, name)
        return SymbolRow(*row) if row else None

    def symbols(self, path: str) -> list[SymbolRow]:
        return [SymbolRow(*row) for row in self.rows(f"{_SYMBOL} {_OF_FILE} ORDER BY line, name", path)]

    def chunk(self, path: str, number: int) -> ChunkRow | None:
        row = self.row(f"SELECT number, heading, text FROM chunks {_OF_FILE} AND number = ?", path, number)
        return ChunkRow(*row) if row else None

    def chunks(self, path: str) -> list[ChunkRow]:
        sql = f"SELECT number, heading, text FROM chunks {_OF_FILE} ORDER BY number"
        return [ChunkRow(*row) for row in self.rows(sql, path)]

    def out(self, path: str, name: str) -> list[EdgeRow]:
        rows = self.rows(
            "SELECT edges.type, files.path, edges.target FROM edges JOIN files ON files.id = edges.target_file"
            " WHERE edges.file = (SELECT id FROM files WHERE path = ?) AND edges.source = ?",
            path,
            name,
        )
        return [EdgeRow(*row) for row in rows]

    def into(self, path: str, name: str) -> list[EdgeRow]:
        rows = self.rows(
            "SELECT edges.type, files.path, edges.source FROM edges JOIN files ON files.id = edges.file"
            " WHERE edges.target_file = (SELECT id FROM files WHERE path = ?) AND edges.target = ?",
            path,
            name,
        )
        return [EdgeRow(*row) for row in rows]

    def with_key(self, key: str) -> list[str]:
        """The files that provide a key, sorted by path."""
        return self.column(
            "SELECT files.path FROM keys JOIN files ON files.id = keys.file WHERE keys.key = ? ORDER BY files.path", key
        )

    def unindexed(self, limit: int) -> list[str]:
        """Files whose current content is not yet in full text."""
        return self.column("SELECT path FROM files WHERE told = 0 ORDER BY id LIMIT ?", limit)

    def unresolved(self, limit: int) -> list[str]:
        """Files whose edges may be out of date."""
        return self.column("SELECT path FROM files WHERE resolved = 0 ORDER BY id LIMIT ?", limit)

    def with_content(self) -> list[str]:
        """The files that have text to search. O(files)."""
        return self.column("SELECT path FROM files WHERE symbols + chunks > 0 ORDER BY id")

    def counts(self) -> list[tuple[str, str, int, int, int]]:
        """Language, state, files, symbols and chunks. O(files)."""
        return self.rows(
            "SELECT language, state, count(*), sum(symbols), sum(chunks) FROM files GROUP BY language, state"
            " ORDER BY language, state"
        )

    def files_with(self, query: str, limit: int) -> tuple[list[FileHit], frozenset[str]]:
        """Files whose path or full text has words of the query, best first; and the words of the query that occur in
        any file.

        Two words that are adjacent in both the query and a file add to the score again, as do four words in a row.
        Files that quote the query come first. In a large tree, words that most files contain are ignored.
        """
        asked = words.terms(query)
        if not asked:
            return [], frozenset()
        with self.read() as connection:
            [about] = connection.execute("SELECT count(*) FROM bodies").fetchone()
            most = max(FEWEST_LOOKED_AT, int(about * LOOKED_AT))
            sql = "SELECT count(*) FROM (SELECT 1 FROM body_text WHERE body_text MATCH ? LIMIT ?)"
            often = {term.match: connection.execute(sql, (term.match, most + 1)).fetchone()[0] for term in asked}
            known = frozenset(
                term.word.casefold()
                for term in asked
                if often[term.match] and (not term.written or connection.execute(sql, (term.written, 1)).fetchone()[0])
            )
            weights = {term.match: term.weight(often[term.match], about) for term in asked}
            matches = words.rarest(often, most) if about > most else list(often)
            selecting = (
                None
                if about <= most
                else {term.word.casefold() for term in asked if term.match in matches and often[term.match] <= most}
            )
            phrases = _phrases(words.words_of(query[: words.MAX_QUERY]), selecting)
            rows = connection.execute(
                f"SELECT files.path, round(-score, {RANK_DIGITS}), best.id FROM ("
                f"SELECT rowid AS id, bm25(body_text, {PATH_WEIGHT}, 1.0) AS score FROM body_text"
                " WHERE body_text MATCH ? ORDER BY score LIMIT ?) AS best JOIN files ON files.id = best.id"
                " ORDER BY score, files.path",
                (" OR ".join([*matches, *phrases]), limit),
            ).fetchall()
            quoted = quoting(connection, query[: words.MAX_QUERY], selecting)
            rows = _with_quoted(connection, rows, quoted)
            covered = _covered(connection, [id for *_, id in rows[: max(COVERED_FIRST, len(quoted))]], weights)
            quotes = {id: _quote(connection, id, quoted[id]) for *_, id in rows[:ADDED] if id in quoted}
        hits = [FileHit(path, score, covered.get(id, 0.0), id in quoted, quotes.get(id)) for path, score, id in rows]
        return hits, known

    # Writing

    def _put_body(self, connection: Connection, id: int, written: StoredReading) -> None:
        """Make the whole text of a file searchable. FTS5 does not keep the text, so `bodies` has a copy, which is
        needed to remove it later."""
        self._drop_body(connection, id)
        if written.text:
            text = words.clean(written.text[:BODY_CHARACTERS])
            body = f"{text}\n{words.parts_text([text])} {words.grams_text((text, 1))}"
            path = f"{written.path} {words.parts_text([written.path])}"
            connection.execute("INSERT INTO body_text (rowid, path, body) VALUES (?, ?, ?)", (id, path, body))
            packed = zlib.compress(f"{path}\0{body}".encode(), 1)
            connection.execute("INSERT INTO bodies (file, body) VALUES (?, ?)", (id, packed))

    def _drop_body(self, connection: Connection, id: int) -> None:
        row = connection.execute("SELECT body FROM bodies WHERE file = ?", (id,)).fetchone()
        if row:
            path, body = _body_of(row[0])
            connection.execute(
                "INSERT INTO body_text (body_text, rowid, path, body) VALUES ('delete', ?, ?, ?)", (id, path, body)
            )
            connection.execute("DELETE FROM bodies WHERE file = ?", (id,))

    def restamp(self, path: str, stamp: str) -> None:
        """Update the stamp of a file whose content is the same."""
        with self.write() as connection:
            connection.execute("UPDATE files SET stamp = ? WHERE path = ?", (stamp, path))

    def put(self, written: StoredReading) -> bool:
        """Replace the stored reading of a file. Returns True if other files have to be resolved again.

        Files that looked up a changed key become unresolved.
        """
        with self.write() as connection:
            row = connection.execute("SELECT id, shape FROM files WHERE path = ?", (written.path,)).fetchone()
            id, old_shape = row or (None, None)
            old_keys = {key for (key,) in connection.execute("SELECT key FROM keys WHERE file = ?", (id,))}
            values = (id, *written[:7], len(written.symbols), len(written.chunks), not written.reading, 0)
            sql = f"INSERT OR REPLACE INTO files VALUES ({placeholders(values)})"
            id = connection.execute(sql, values).lastrowid
            assert id is not None
            for table in ("symbols", "chunks"):
                connection.execute(f"DELETE FROM {table} WHERE file = ?", (id,))
            connection.executemany(
                "INSERT INTO symbols VALUES (?, ?, ?, ?, ?, ?, ?)", [(id, *one) for one in written.symbols]
            )
            connection.executemany("INSERT INTO chunks VALUES (?, ?, ?, ?)", [(id, *one) for one in written.chunks])
            self._put_body(connection, id, written)
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
        """Forget a file. Returns False if it is unknown."""
        with self.write() as connection:
            row = connection.execute("SELECT id FROM files WHERE path = ?", (path,)).fetchone()
            if row is None:
                return False
            keys = [key for (key,) in connection.execute("SELECT key FROM keys WHERE file = ?", row)]
            self._drop_body(connection, *row)
            for table in ("symbols", "chunks", "edges", "keys", "asked"):
                connection.execute(f"DELETE FROM {table} WHERE file = ?", row)
            connection.execute("DELETE FROM edges WHERE target_file = ?", row)
            connection.execute("DELETE FROM files WHERE id = ?", row)
            _outdate(connection, [*keys, f"file:{path}"])
            return True

    def link(self, path: str, edges: Iterable[tuple[str, str, str, str]], asked: Iterable[str]) -> None:
        """Replace the edges of a file (source, type, path and name of the target) and the keys that they depend on."""
        with self.write() as connection:
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

    def mark_indexed(self, paths: Iterable[str]) -> None:
        """Record that full text has the current content of these files."""
        with self.write() as connection:
            connection.executemany("UPDATE files SET told = 1 WHERE path = ?", [(path,) for path in paths])


class _Ids(dict[str, int]):
    """The id of a file by its path, cached; -1 if it is unknown."""

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


def _phrases(asked: Sequence[str], selecting: Collection[str] | None) -> list[str]:
    """Runs of two words and of `LONG_PHRASE` words, at most `PHRASES` of each; in a large tree, only runs with a rare
    word."""
    runs = (
        asked[start : start + length]
        for length in (2, LONG_PHRASE)
        for start in range(min(PHRASES, len(asked) - length + 1))
    )
    return [f'"{" ".join(run)}"' for run in runs if selects(run, selecting)]


def _with_quoted(
    connection: Connection, rows: list[tuple[str, float, int]], quoted: Collection[int]
) -> list[tuple[str, float, int]]:
    """The files found, files that quote the query first; and some that were not found by its words."""
    missing = sorted(set(quoted).difference(id for *_, id in rows))
    sql = f"SELECT path, 0.0, id FROM files WHERE id IN ({placeholders(missing)}) ORDER BY path LIMIT {ADDED}"
    more = connection.execute(sql, missing).fetchall() if missing else []
    return sorted([*rows, *more], key=lambda row: row[2] not in quoted)


def _quote(connection: Connection, id: int, run: Sequence[str]) -> Quote | None:
    # The text of a document is stored by chunks, in which lines have other numbers.
    sql = "SELECT body FROM bodies WHERE file = ? AND (SELECT chunks FROM files WHERE id = file) = 0"
    row = connection.execute(sql, (id,)).fetchone()
    return _quote_of(connection, id, run, _body_of(row[0])[1]) if row else None


def _body_of(packed: bytes) -> tuple[str, str]:
    """The searchable words of a file's path, and its text followed by parts of words."""
    path, _, body = zlib.decompress(packed).decode().partition("\0")
    return path, body


def _covered(connection: Connection, ids: Sequence[int], weights: Mapping[str, float]) -> dict[int, float]:
    """The weighted share of the query's words that each of these files has."""
    share, total = dict.fromkeys(ids, 0.0), sum(weights.values())
    sql = f"SELECT rowid FROM body_text WHERE body_text MATCH ? AND rowid IN ({placeholders(ids)})"
    for match, weight in weights.items() if ids else ():
        for (id,) in connection.execute(sql, (match, *ids)):
            share[id] += weight
    return {id: weight / total for id, weight in share.items()}


LONG_PHRASE = 4
"""Number of words that are looked up together; a longer run consists of several such phrases."""
MOST_QUOTED, TELLING, SHORTEST_QUOTE = 24, 2, 3
"""Maximum number of words of a query to find as one run in a file; minimum number of words in the run that are neither
stop words nor weak; and minimum number of words in a query that is not a name."""
MANY_QUOTE = 50
"""A run in more than this number of files says little about any of them."""
LONGEST_LINE, BEFORE_QUOTE = 200, 40
"""Maximum number of characters of a quoted line, and of those before the quote if it is far from the line's start."""
VALUE_WORDS = 4
"""Maximum number of words in the code for a value of a message: ``%d`` has one, ``{self.name!r}`` three."""
MOST_VALUES = 5
_VALUE = re.compile(r"(?<!\S)\S*[0-9/]\S*|'[^']*'|\"[^\"]*\"|`[^`]*`")
"""A value in a message: an address, a path, a number or a quoted text."""


def selects(run: Sequence[str], selecting: Collection[str] | None) -> bool:
    """Whether a run has a word of `selecting`, the rare words of a query in a large tree. FTS5 reads all files with
    each word of a run, so a run of common words takes time proportional to the tree."""
    return selecting is None or any(word.casefold() in selecting for word in run)


class Quote(NamedTuple):
    """The first line with a run of words: its number, from 1, and its text; and the innermost symbol around it, empty
    if there is none."""

    line: int
    text: str
    symbol: str


def _quote_of(connection: Connection, file: int, run: Sequence[str], text: str) -> Quote | None:
    """The place of a run of words in the text of a file; None if it has the words only in other forms. An empty word of
    the run stands for a value."""
    found = re.search(_pattern(run), text, re.IGNORECASE)
    if found is None:
        return None
    line = text.count("\n", 0, found.start()) + 1
    sql = "SELECT name FROM symbols WHERE file = ? AND line <= ? AND end >= ? ORDER BY line DESC, end LIMIT 1"
    around = connection.execute(sql, (file, line, line)).fetchone()
    begin = text.rfind("\n", 0, found.start()) + 1
    said, at = text[begin:].partition("\n")[0], found.start() - begin
    if len(said.strip()) > LONGEST_LINE and found.end() - begin > LONGEST_LINE:
        said = f"…{said[max(0, at - BEFORE_QUOTE) :]}"
    return Quote(line, said.strip()[:LONGEST_LINE], around[0] if around else "")


def _pattern(run: Sequence[str]) -> str:
    """A regular expression for a run of words with any punctuation between them."""
    between = r"[\W_]+"
    parts = " ".join(run).split("  ")  # an empty word has a space on either side
    phrases = (between.join(map(re.escape, part.split())) for part in parts)
    return rf"{between}(?:[^\W_]+{between}){{0,{VALUE_WORDS}}}".join(phrases)


def quoting(connection: Connection, query: str, selecting: Collection[str] | None) -> dict[int, Sequence[str]]:
    """The files with the longest run of a query's words, and the run.

    The run has all words of a query that is a name, and at least half of any other query. If no file has such a run,
    the query is read as a message with values: the result is the files with all parts between the values, close to each
    other; without such files, those with the longest run within one part.
    """
    if not any(map(str.isspace, query.strip())):
        name = words.words_of(query)
        is_run = 2 <= len(name) <= MOST_QUOTED
        return _with_run(connection, [name], len(name), 0, selecting) if is_run else {}
    between = _VALUE.split(query)
    for said in [[query]] if len(between) == 1 else [[query], between]:
        parts = [words.words_of(part)[:MOST_QUOTED] for part in said]
        least = max(SHORTEST_QUOTE, (sum(map(len, parts)) + 1) // 2)
        if said is between and (found := _with_all(connection, parts, selecting)):
            return found
        if found := _with_run(connection, parts, least, TELLING, selecting):
            return found
    return {}


def _with_all(
    connection: Connection, parts: Sequence[Sequence[str]], selecting: Collection[str] | None
) -> dict[int, Sequence[str]]:
    """The files that have all parts of a message close to each other, and the words of the parts, with an empty word
    for each value between them. The message must have `SHORTEST_QUOTE` words, `TELLING` of them telling."""
    parts = [part for part in parts if part]
    every = [word for part in parts for word in part]
    telling = sum(word.casefold() not in words.STOPWORDS | words.WEAK for word in every)
    if not 1 < len(parts) <= 1 + MOST_VALUES or len(every) < SHORTEST_QUOTE or telling < TELLING:
        return {}
    having = [set(ids) for ids in _having(connection, parts, selecting)]
    ids = sorted(set.intersection(*having))
    phrases = " ".join(f'"{" ".join(part)}"' for part in parts)
    sql = f"SELECT rowid FROM body_text WHERE body_text MATCH ? AND rowid IN ({placeholders(ids)})"
    near = f"NEAR({phrases}, {VALUE_WORDS * (len(parts) - 1) + sum(map(len, parts[1:-1]))})"
    run = [word for number, part in enumerate(parts) for word in (*([""] if number else []), *part)]
    return {id: run for (id,) in connection.execute(sql, (near, *ids))} if ids else {}


def _with_run(
    connection: Connection,
    parts: Sequence[Sequence[str]],
    least: int,
    telling: int,
    selecting: Collection[str] | None,
) -> dict[int, Sequence[str]]:
    """The files with the longest run of words within any of these parts, and the run. It has at least `least` words, of
    which `telling` are neither stop words nor weak."""
    common = words.STOPWORDS | words.WEAK
    best, longest = dict[int, Sequence[str]](), least
    for asked in parts:
        if len(asked) < longest:
            continue
        size = len(asked) if not telling else min(LONG_PHRASE, len(asked))
        runs = [asked[end - size : end] for end in range(size, len(asked) + 1)]
        running: dict[int, int] = {}  # the length of the run that ends with the current words, by file
        for end, having in enumerate(_having(connection, runs, selecting), size):
            running = {id: running.get(id, size - 1) + 1 for id in having}
            most = max(running.values(), default=0)
            run = asked[end - most : end]
            if most < longest or sum(word.casefold() not in common for word in run) < telling:
                continue
            files = {id: run for id, length in running.items() if length == most}
            best, longest = (files | best if most == longest else files), most
    return best


def _having(
    connection: Connection, runs: Sequence[Sequence[str]], selecting: Collection[str] | None
) -> list[Sequence[int]]:
    """The files with each run of words. Runs that many files have are looked for only in the files with other runs."""
    sql = "SELECT rowid FROM body_text WHERE body_text MATCH ?"
    phrases = [f'"{" ".join(run)}"' for run in runs]
    found: dict[str, Sequence[int]] = {}
    for run, phrase in zip(runs, phrases, strict=True):
        if selects(run, selecting):
            having = [id for (id,) in connection.execute(f"{sql} LIMIT ?", (phrase, MANY_QUOTE + 1))]
            if len(having) <= MANY_QUOTE:
                found[phrase] = having
    few = [id for id, _ in Counter(chain.from_iterable(found.values())).most_common(MANY_QUOTE)]
    within = f"{sql} AND rowid IN ({placeholders(few)})"
    for phrase in phrases if few else ():
        if phrase not in found:
            found[phrase] = [id for (id,) in connection.execute(within, (phrase, *few))]
    return [found.get(phrase, ()) for phrase in phrases]
