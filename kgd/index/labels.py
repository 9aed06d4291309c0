"""Labels of documents: names, tags, and keys of data, by which a document is looked up as a whole.

A label is a hash of 48 bits, so it takes a fraction of the text's space, and two texts share one only by an unlikely
accident. A document lists its labels, so that its removal needs no second index.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator

from kgd.index.database import hashed

NAME, TAG, KEY = "name", "tag", "key"
_SIZE = 6


def label(kind: str, text: str) -> int:
    return hashed(kind, text) >> 16


def packed(labels: Collection[int]) -> bytes:
    return b"".join(one.to_bytes(_SIZE, "big", signed=True) for one in sorted(labels))


def add(connection: sqlite3.Connection, doc: int, labels: Collection[int]) -> None:
    connection.executemany("INSERT INTO labels VALUES (?, ?)", [(one, doc) for one in sorted(labels)])


def remove(connection: sqlite3.Connection, doc: int, listed: bytes) -> None:
    connection.executemany("DELETE FROM labels WHERE label = ? AND doc = ?", [(one, doc) for one in _unpacked(listed)])


def _unpacked(listed: bytes) -> Iterator[int]:
    for at in range(0, len(listed), _SIZE):
        yield int.from_bytes(listed[at : at + _SIZE], "big", signed=True)
