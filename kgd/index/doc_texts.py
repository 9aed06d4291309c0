"""Texts of indexed documents: stored in the index, or read from git.

For a node with its own file, the index keeps only the id of its blob. Other texts are stored: those of nodes in
parts, of nodes with a detail file, of the code tree, and of schemes whose texts are read by the thousand.

The text of a whole document consists of the texts of its chunks, and a message has neighbours in its thread.
"""

from __future__ import annotations

import re
import sqlite3
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import orjson

from kgd import metrics
from kgd.errors import KgdError
from kgd.index import words
from kgd.index.database import IndexDamaged, placeholders
from kgd.model.uri import Uri, is_owned

STORED_SCHEMES = ("chunk://", "message://", "entity://")
"""Schemes whose texts are always stored, because many of them are read together."""


BYTES_KEPT = 1 << 20
"""Approximate memory for recently used texts, because searches read the same notes repeatedly."""
OVERHEAD = 600
"""Bytes that a short text takes besides its characters."""
_SELECT = "SELECT docs.id, docs.uri, docs.blob, docs.name, tags, summary, content, data"
_STORED = "LEFT JOIN text ON text.id = docs.id"


class Text(NamedTuple):
    """The texts of a document, without characters that SQLite cannot store."""

    name: str
    tags: str
    summary: str
    content: str
    data: str

    @classmethod
    def of(cls, name: str, tags: Iterable[str], summary: str, content: str, data: str) -> Text:
        return cls(*map(words.clean, (name, " ".join(tags), summary, content, data)))

    def columns(self, uri: Uri) -> tuple[str, ...]:
        """The columns of full text: the texts, and the parts of identifiers in them and in the URI."""
        path = path_of(uri)
        weighted = ((path, 1), (self.name, 3), (self.tags, 2), (self.summary, 2), (self.content, 1), (self.data, 1))
        parts = words.parts_text((path, self.name, self.summary, self.content, self.data))
        return (*self, f"{path} {parts} {words.grams_text(*weighted)}")


Read = Callable[[Uri, bytes], Text]
"""Reads the text of a node from its blob. Raises KgdError if the blob cannot be read."""


class Texts:
    """The texts of one index. Any thread may read."""

    def __init__(self, read: Read | None = None) -> None:
        self._read = RecentTexts(read) if read else None

    def of(self, connection: sqlite3.Connection, ids: Iterable[int]) -> dict[int, tuple[Uri, Text]]:
        """URI and text of these documents. Reading a blob takes 0.1 ms; an unreadable one gives only its name."""
        rows = connection.execute(
            f"{_SELECT} FROM json_each(?) AS asked CROSS JOIN docs ON docs.id = asked.value {_STORED} ORDER BY docs.id",
            (orjson.dumps(list(ids)).decode(),),
        ).fetchall()
        found = dict[int, tuple[Uri, Text]]()
        for id, uri, blob, name, *own in rows:
            try:
                found[id] = uri, self._from_git(uri, blob) if blob else Text(name, *own)
            except KgdError:
                found[id] = uri, Text(name, "", "", "", "")
        return found

    def indexed(self, connection: sqlite3.Connection, id: int) -> tuple[str, ...]:
        """The columns of a document exactly as they were indexed, which FTS5 needs to remove them.

        Raises:
            IndexDamaged: They are lost, so the index has to be rebuilt.
        """
        _, uri, blob, name, *own, checksum = connection.execute(
            f"{_SELECT}, checksum FROM docs {_STORED} WHERE docs.id = ?", (id,)
        ).fetchone()
        try:
            columns = (self._from_git(uri, blob) if blob else Text(name, *own)).columns(uri)
        except KgdError as error:
            raise IndexDamaged("an indexed text cannot be read from git", at=uri) from error
        if checksum_of(columns) != checksum:
            raise IndexDamaged("a text differs from the indexed one", at=uri)
        return columns

    def _from_git(self, uri: Uri, blob: bytes) -> Text:
        if self._read is None:
            raise IndexDamaged("the index refers to git, but no repository is open", at=uri)
        return self._read(uri, blob)


class RecentTexts:
    """The most recently read texts, up to about `BYTES_KEPT`. Thread-safe."""

    def __init__(self, read: Read) -> None:
        self._read, self._lock = read, threading.Lock()
        self._texts = OrderedDict[tuple[Uri, bytes], Text]()
        self._bytes = 0

    def __call__(self, uri: Uri, blob: bytes) -> Text:
        key = uri, blob
        with self._lock:
            if key in self._texts:
                self._texts.move_to_end(key)
                metrics.TEXT_CACHE.add("hit")
                return self._texts[key]
        metrics.TEXT_CACHE.add("miss")
        text = self._read(uri, blob)
        with self._lock:
            if key not in self._texts:
                self._texts[key] = text
                self._bytes += _size(text)
            while self._bytes > BYTES_KEPT:
                self._bytes -= _size(self._texts.popitem(last=False)[1])
        return text


def _size(text: Text) -> int:
    return OVERHEAD + sum(map(len, text))


def path_of(uri: Uri) -> str:
    return uri.split("/", 3)[3] if is_owned(uri) else ""


def checksum_of(columns: Iterable[str]) -> int:
    return zlib.crc32("\0".join(columns).encode())


CHUNK, MESSAGE = "chunk", "message"
MOST_CHUNKS = 2_000
"""Maximum number of chunks that make up the text of a whole document."""
MOST_PEOPLE = 40
SPOKE = 2
"""Minimum number of lines that begin with a name for it to be taken as a speaker's."""

_SPEAKER = re.compile(r"^[ \t>*_-]{0,4}([^\W\d_][\w.'-]*(?: [\w.'-]+){0,2})[*_]{0,2}:[*_]{0,2}(?=\s)", re.MULTILINE)
_NO_NAME = frozenset(
    """
    note notes example examples warning todo see also returns args raises http https default type user assistant system
    human tool date time from to cc subject title name summary input output yes no
    """.split()
)


def whole_of(uri: str) -> str | None:
    """The path of a chunk's document; None for other nodes."""
    if not uri.startswith(f"{CHUNK}://"):
        return None
    path = uri.split("/", 3)[3].rpartition("/")[0]
    return path or None


def renew(connection: sqlite3.Connection, changed: Collection[str]) -> None:
    """Update the context of nodes that were added, changed or removed."""
    _renew_wholes(connection, {path for uri in changed if (path := whole_of(uri))})
    _renew_beside(connection, [uri for uri in changed if uri.startswith(f"{MESSAGE}://")])


def _renew_beside(connection: sqlite3.Connection, changed: Iterable[str]) -> None:
    """Index each message once more together with the message before and after it in its thread. O(changed)."""
    near: dict[int, None] = {}
    for uri in sorted(changed):
        thread = uri.rpartition("/")[0]
        for comparison, order in (("<=", "DESC"), (">", "ASC")):
            rows = connection.execute(
                f"SELECT id FROM docs WHERE uri {comparison} ? AND uri > ? AND uri < ? ORDER BY uri {order} LIMIT 2",
                (uri, f"{thread}/", f"{thread}0"),
            )
            near.update(dict.fromkeys(id for (id,) in rows))
    for id in near:
        [uri] = connection.execute("SELECT uri FROM docs WHERE id = ?", (id,)).fetchone()
        thread = uri.rpartition("/")[0]
        said = []
        for comparison, order, limit in (("<", "DESC", 1), (">=", "ASC", 2)):
            rows = connection.execute(
                "SELECT text.content, (SELECT group_concat(person, ' ') FROM people WHERE people.doc = docs.id)"
                f" FROM docs JOIN text ON text.id = docs.id WHERE uri {comparison} ? AND uri > ? AND uri < ?"
                f" ORDER BY uri {order} LIMIT ?",
                (uri, f"{thread}/", f"{thread}0", limit),
            )
            said += [f"{people or ''}: {content}" for content, people in rows]
        connection.execute("DELETE FROM beside WHERE rowid = ?", (id,))
        connection.execute("INSERT INTO beside (rowid, content) VALUES (?, ?)", (id, _indexed(said)))


def _renew_wholes(connection: sqlite3.Connection, paths: Iterable[str]) -> None:
    """Rebuild the texts of these documents from their chunks. Takes time linear in the number of chunks."""
    for path in sorted(set(paths)):
        row = connection.execute("SELECT id FROM wholes WHERE path = ?", (path,)).fetchone()
        if row:
            connection.execute("DELETE FROM whole_text WHERE rowid = ?", row)
        texts = connection.execute(
            "SELECT docs.uri, docs.lane, docs.name, text.content FROM docs JOIN text ON text.id = docs.id"
            # `+` excludes the index of types, with which SQLite would visit all chunks.
            " WHERE docs.path >= ? AND docs.path < ? AND +docs.type = ? ORDER BY docs.path LIMIT ?",
            (f"{path}/", f"{path}0", CHUNK, MOST_CHUNKS),  # `0` is the character after `/`
        ).fetchall()
        own = [(lane, two) for uri, lane, *two in texts if whole_of(uri) == path]
        said = dict.fromkeys(text for _, two in own for text in two)
        if not said:
            connection.execute("DELETE FROM wholes WHERE path = ?", (path,))
            continue
        lane = min(lane for lane, _ in own)
        if row:
            connection.execute("UPDATE wholes SET lane = ? WHERE id = ?", (lane, *row))
        else:
            row = (connection.execute("INSERT INTO wholes (path, lane) VALUES (?, ?)", (path, lane)).lastrowid,)
        connection.execute("INSERT INTO whole_text (rowid, content) VALUES (?, ?)", (*row, _indexed(said)))


def _indexed(said: Iterable[str]) -> str:
    """The texts with their grams, for tables from which no text is ever shown."""
    text = "\n".join(said)
    return f"{text}\n{grams}" if (grams := words.grams_text((text, 1))) else text


def speakers(content: str) -> list[str]:
    """The names that introduce lines of a conversation in a text: ``Ann: Good morning``."""
    counts: dict[str, int] = {}
    for name in _SPEAKER.findall(content):
        counts[name] = counts.get(name, 0) + 1
    named = [name for name, count in counts.items() if count >= SPOKE and name.casefold() not in _NO_NAME]
    return named[:MOST_PEOPLE]


def note_people(connection: sqlite3.Connection, id: int, people: Iterable[str]) -> None:
    """Record the speakers of a text; each word of a name can be used to find the person."""
    found = {word.casefold() for name in people for word in words.words_of(name)}
    telling = sorted(word for word in found if len(word) > 1 and word not in words.STOPWORDS)
    rows = [(word[: words.MAX_WORD], id) for word in telling[:MOST_PEOPLE]]
    connection.executemany("INSERT OR IGNORE INTO people (person, doc) VALUES (?, ?)", rows)


def people_among(connection: sqlite3.Connection, names: Collection[str]) -> list[str]:
    """Select the words that are names of speakers."""
    known = connection.execute(
        "SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM people WHERE person = value)",
        (orjson.dumps(list(names)).decode(),),
    )
    return [name for (name,) in known]


def by_people(connection: sqlite3.Connection, names: Sequence[str], ids: Collection[int]) -> set[int]:
    """Select the texts in which a person with one of these names speaks."""
    people = people_among(connection, names)
    if not people:
        return set()
    rows = connection.execute(
        f"SELECT DISTINCT people.doc FROM people JOIN json_each(?) AS asked ON asked.value = people.doc"
        f" WHERE people.person IN ({placeholders(people)})",
        (orjson.dumps(list(ids)).decode(), *people),
    )
    return {id for (id,) in rows}
