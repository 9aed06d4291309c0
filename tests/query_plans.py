"""The plans of all SQL statements that kgd runs in a test process: none may read a whole table that grows, or all its
rows with one value of a column of few values."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from kgd.index import database, hub_state

SMALL = {"embedders", "sqlite_master", "meta", "touched", "moved"}
"""Tables of a few rows; `touched` has the names of one change."""
WHOLE = {
    r"SELECT (\*|1) FROM \w+ LIMIT 1": "one row",
    r".* ORDER BY (docs\.id|number)( DESC)? LIMIT": "rows in order of the key, until there are enough",
    r"SELECT count\(\*\) FROM \w+": "for `kgd status` and `kgd doctor`",
    r"SELECT (path, stamp|uri) FROM files": "compared with the whole code tree, when it is read",
    r"SELECT path FROM files WHERE symbols \+ chunks > 0": "read again after a change of the reader",
    r"SELECT id FROM commits": "compared with the whole history, when it is read",
    r"SELECT path, id FROM paths WHERE present = 1": "compared with the whole code tree, when it is read",
    r"SELECT (was, path FROM renames|id FROM paths WHERE present = 1 AND id IN|id, current FROM paths)": (
        "renames are followed again after a change of the tree; few files are renamed"
    ),
    r"SELECT text FROM pending|(INSERT OR IGNORE INTO pending )?SELECT number FROM texts$": (
        "texts to be searched for names, in the background"
    ),
    r"SELECT .* FROM (totals|nodes|pairs|links|decided)\b": "read into memory once",
    r"DELETE FROM pairs": "a table of bounded size, when it is full",
    r"SELECT .* FROM tokens ORDER BY created, id": "a hub's tokens are listed whole",
    r"SELECT .* FROM (spent|answers|keys|sign_ins)$": "a hub's state is moved whole",
    r"SELECT language, state, count": "for `kgd status`",
    r"SELECT key, first, size FROM keys": "all names, for searching texts for them",
    r".* AND 0\b": "a condition that nothing meets",
    r"(UPDATE vectors SET number|DELETE FROM vectors WHERE embedder IN)": "after a change of the model",
    r"SELECT count\(\*\) FROM (docs WHERE lane|vectors WHERE embedder) =": "in the background, or once",
    r"SELECT uri FROM docs WHERE source_type = \? ORDER BY uri$": "as large as the answer",
    r"SELECT DISTINCT origin FROM docs": "once, when derived files are compared with the tip",
}
"""Statements that may read a whole table, and why."""

_SCAN = re.compile(r"SCAN (\w+)(?! VIRTUAL TABLE INDEX \d+:[=M])")
_COARSE = re.compile(r"SEARCH (\w+) USING .*\((?:type|lane|kind|source_type|embedder)=\?\)")
"""A search only by a column of few values. A `+` before the column in the statement excludes its index."""

scans: dict[str, str] = {}
"""Statements that break the rule, with the line of their plan."""
_seen: set[str] = set()


class Recording(sqlite3.Connection):
    """A connection that has each new statement explained before it runs."""

    def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
        _explain(self, sql, values)
        return super().execute(sql, values)

    def executemany(self, sql: str, values: Any, /) -> sqlite3.Cursor:
        _explain(self, sql, (None,) * sql.count("?"))
        return super().executemany(sql, values)


@contextmanager
def recorded() -> Iterator[None]:
    """Record the statements of all derived files and hubs that are opened from now on."""

    def connect(*place: Any, **options: Any) -> sqlite3.Connection:
        return sqlite3.connect(*place, factory=Recording, **options)

    recording = SimpleNamespace(**{**vars(sqlite3), "connect": connect})
    with patch.object(database, "sqlite3", recording), patch.object(hub_state, "sqlite3", recording):
        yield


def _explain(connection: sqlite3.Connection, sql: str, values: Any) -> None:
    if sql in _seen:
        return
    _seen.add(sql)
    shape = " ".join(re.sub(r"\?(, \?)+", "?, *", sql).split())
    if not re.match("SELECT|UPDATE|DELETE|INSERT|WITH", shape) or any(re.match(one, shape) for one in WHOLE):
        return
    tables = {row[0] for row in sqlite3.Connection.execute(connection, "SELECT name FROM sqlite_master")} - SMALL
    plan = sqlite3.Connection.execute(connection, f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
    lines = [line for *_, line in plan]
    is_bounded = shape.endswith((" LIMIT ?", " LIMIT 1")) and "USE TEMP B-TREE FOR ORDER BY" not in lines
    for line in lines:
        found = _SCAN.match(line) or (not is_bounded and _COARSE.match(line))
        if found and found[1] in tables:
            scans[shape] = line
