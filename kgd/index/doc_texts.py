"""Texts of indexed documents: stored in the index, or read from git.

For a node with its own file, the index keeps only the id of its blob. Other texts are stored: those of nodes in
parts, of nodes with a detail file, of the code tree, and of schemes whose texts are read by the thousand.
"""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

import orjson

from kgd import metrics
from kgd.errors import KgdError
from kgd.index import words
from kgd.index.database import IndexDamaged
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
    """The most recently read texts, up to about `BYTES_KEPT`. Safe for threads."""

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
