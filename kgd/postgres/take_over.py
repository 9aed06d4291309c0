"""The contents of a single hub's state, moved into PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from kgd.errors import InvariantViolation
from kgd.model.token import SIGN_IN_KEY, HubContents, Moved, storable, to_row
from kgd.postgres.database import Database

if TYPE_CHECKING:
    import psycopg

PART = 500
"""Rows per statement, so that each statement ends within the limits of `Database`."""

_TOKENS = """
INSERT INTO tokens AS known (id, parent, holder, digest, quota, created, revoked, last_used)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (id) DO UPDATE SET revoked = excluded.revoked WHERE known.revoked = 0 AND excluded.revoked <> 0
"""
_SPENT = """
INSERT INTO spent AS known VALUES (%s, %s, %s, %s) ON CONFLICT (token, what) DO UPDATE SET
    amount = CASE WHEN known.span = excluded.span THEN greatest(known.amount, excluded.amount)
        WHEN known.span < excluded.span THEN excluded.amount ELSE known.amount END,
    span = greatest(known.span, excluded.span)
"""
_ANSWERS = "INSERT INTO answers VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
_KEYS = "INSERT INTO keys VALUES (%s, %s) ON CONFLICT DO NOTHING"
_SIGN_INS = "INSERT INTO sign_ins VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
_LINES = "INSERT INTO trail (at, token, action, workspace, detail) VALUES (%s, %s, %s, %s, %s)"
_LINE = "INSERT INTO moves VALUES (%s, %s) ON CONFLICT (source) DO UPDATE SET line = excluded.line"

T = TypeVar("T")


def take_over(database: Database, contents: HubContents) -> Moved:
    """Add the contents in one transaction. A repeated call adds only later changes; a token that was revoked on
    either side stays revoked.

    Raises:
        InvariantViolation: The database has tokens of another origin; nothing was added.
        Unavailable: PostgreSQL cannot be reached. It may have the contents, so repeat the call.
    """
    with database.write() as db:
        db.execute("LOCK TABLE tokens IN SHARE ROW EXCLUSIVE MODE")  # other hubs mint and revoke afterwards
        known = db.execute("SELECT line FROM moves WHERE source = %s", (contents.id,)).fetchone()
        if known is None and db.execute("SELECT 1 FROM tokens LIMIT 1").fetchone():
            raise InvariantViolation(
                "the database already has tokens of other hubs, and nothing was moved",
                at=database.name,
                next="Move into an empty database, or mint this hub's tokens again with --state.",
            )
        tokens = _add(db, _TOKENS, map(to_row, contents.tokens))
        _add(db, _SPENT, contents.spent)
        answers = _add(db, _ANSWERS, ((a, storable(b), c, storable(d), at) for a, b, c, d, at in contents.answers))
        _add(db, _KEYS, contents.keys)
        [shared] = db.execute("SELECT key FROM keys WHERE name = %s", (SIGN_IN_KEY,)).fetchall() or [(b"",)]
        if (SIGN_IN_KEY, bytes(shared[0])) in contents.keys:  # with another key, everyone has to sign in again
            _add(db, _SIGN_INS, contents.sign_ins)
        last, lines = known[0] if known else 0, 0
        for part in contents.lines(last):
            rows = [(one.at, one.token, one.action, one.workspace, one.detail) for _, one in part]
            lines += _add(db, _LINES, (tuple(map(_stored, row)) for row in rows))
            last = part[-1][0]
        db.execute(_LINE, (contents.id, last))
    return Moved(tokens, answers, lines)


def _add(db: psycopg.Connection[Any], sql: str, rows: Iterable[tuple[object, ...]]) -> int:
    """The number of rows that were added or changed."""
    added = 0
    with db.cursor() as cursor:
        for part in _parts(iter(rows)):
            cursor.executemany(sql, part)
            added += cursor.rowcount
    return added


def _parts(rows: Iterator[T]) -> Iterator[list[T]]:
    while part := list(islice(rows, PART)):
        yield part


def _stored(value: object) -> object:
    return storable(value) if isinstance(value, str) else value
