"""A hub's state in PostgreSQL, shared by several hubs; and the move of a single hub's state into PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from kgd.errors import InvariantViolation
from kgd.model.audit_chain import SEAL_SECONDS, SEALED_AT_ONCE, sealed
from kgd.model.token import (
    DETAIL_LIMIT,
    SIGN_IN_KEY,
    AuditEntry,
    HubContents,
    Moved,
    TokenRecord,
    from_row,
    storable,
    to_row,
)
from kgd.postgres.database import SEAL_LOCK, Database
from kgd.postgres.quotas import Quotas

if TYPE_CHECKING:
    import psycopg

TURN_SECONDS = 25.0
"""Longest wait in seconds for a turn: longer than two requests to a sign-in server."""

_COLUMNS = "id, parent, holder, digest, quota, created, revoked, last_used"
_INSERT = f"INSERT INTO tokens ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s, %s)"
_LIVE_TREE = """
WITH RECURSIVE tree(id) AS (
    SELECT %s::text UNION SELECT tokens.id FROM tokens JOIN tree ON tokens.parent = tree.id
)
SELECT tokens.id FROM tokens JOIN tree USING (id) WHERE revoked = 0 ORDER BY tokens.id FOR UPDATE OF tokens
"""
_FIELDS = "at, token, action, workspace, detail"
_ALL_WRITTEN = "LOCK TABLE trail IN SHARE MODE"
"""Waits until every line that has a number can be seen: hubs commit in another order than their numbers."""


class PostgresHubState:
    """The tables of `STEPS` in one database. Implements `HubState`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._quotas = Quotas(database)

    def add(self, record: TokenRecord) -> None:
        with self._database.write() as db:
            db.execute(_INSERT, to_row(record))

    def add_child(self, record: TokenRecord, now: float) -> bool:
        with self._database.write() as db:
            # A revocation locks the parent for update, so that one of the two transactions waits for the other.
            sql = f"SELECT {_COLUMNS} FROM tokens WHERE id = %s FOR SHARE"
            row = db.execute(sql, (record.holder.parent,)).fetchone()
            if row is None or not from_row(row).is_live(now):
                return False
            db.execute(_INSERT, to_row(record))
            return True

    def find(self, id: str) -> TokenRecord | None:
        with self._database.read() as db:
            row = db.execute(f"SELECT {_COLUMNS}, tableoid FROM tokens WHERE id = %s", (storable(id),)).fetchone()
        if row is None:
            return None
        self._database.tables_are(row[-1])
        return from_row(row[:-1])

    def all(self) -> list[TokenRecord]:
        with self._database.read() as db:
            rows = db.execute(f'SELECT {_COLUMNS} FROM tokens ORDER BY created, id COLLATE "C"').fetchall()
        return [from_row(row) for row in rows]

    def revoke(self, id: str, at: int) -> list[str]:
        gone: list[str] = []
        with self._database.write() as db:
            # A child that was added while this waited for its parent is found by the next look.
            while live := [row[0] for row in db.execute(_LIVE_TREE, (storable(id),))]:
                db.execute("UPDATE tokens SET revoked = %s WHERE id = ANY(%s)", (at, live))
                gone += live
        return sorted(gone)

    def used(self, id: str, at: int) -> None:
        with self._database.write(durable=False) as db:
            db.execute("UPDATE tokens SET last_used = %s WHERE id = %s AND last_used < %s", (at, id, at))

    def spend(self, limits: Mapping[str, int], what: str, seconds: int, amount: int, at: float) -> int:
        return self._quotas.spend(limits, what, seconds, amount)

    def answer(self, token: str, request: str) -> tuple[bytes, str] | None:
        sql = "SELECT asked, answer FROM answers WHERE token = %s AND request = %s"
        with self._database.read() as db:
            row = db.execute(sql, (token, storable(request))).fetchone()
        return (bytes(row[0]), row[1]) if row else None

    def keep_answer(self, token: str, request: str, asked: bytes, answer: str, at: int, oldest: int) -> None:
        with self._database.write() as db:
            db.execute("DELETE FROM answers WHERE at < %s", (oldest,))
            sql = "INSERT INTO answers VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
            db.execute(sql, (token, storable(request), asked, storable(answer), at))

    def note(self, entry: AuditEntry) -> int:
        values = (entry.at, *map(storable, (entry.token, entry.action, entry.workspace, entry.detail[:DETAIL_LIMIT])))
        with self._database.write() as db:
            sql = f"INSERT INTO trail ({_FIELDS}) VALUES (%s, %s, %s, %s, %s) RETURNING number"
            row = db.execute(sql, values).fetchone()
        return int(row[0]) if row else 0

    def renote(self, number: int, detail: str) -> None:
        text = storable(detail[:DETAIL_LIMIT])
        with self._database.write(durable=False) as db:
            # Waits for a hub that is sealing; the next statement then sees the seal.
            db.execute("LOCK TABLE trail IN ROW EXCLUSIVE MODE")
            if db.execute("SELECT FROM seals WHERE number = %s", (number,)).rowcount:
                copied = "at, token, action, workspace"
                sql = f"INSERT INTO trail ({copied}, detail) SELECT {copied}, %s FROM trail WHERE number = %s"
                db.execute(sql, (text, number))
            else:
                db.execute("UPDATE trail SET detail = %s WHERE number = %s", (text, number))

    def seal(self, now: int) -> int:
        with self._database.write() as db:
            [(is_free,)] = db.execute("SELECT pg_try_advisory_xact_lock(%s)", (SEAL_LOCK,))
            if not is_free:  # another hub seals these lines
                return 0
            db.execute(_ALL_WRITTEN)
            last, before = db.execute("SELECT number, hash FROM seals ORDER BY number DESC LIMIT 1").fetchone() or (
                0,
                "",
            )
            ripe = "SELECT number FROM trail WHERE at < %s ORDER BY number DESC LIMIT 1"
            newest = (db.execute(ripe, (now - SEAL_SECONDS,)).fetchone() or (0,))[0]
            sql = f"""
            SELECT number, {_FIELDS} FROM trail
            WHERE number > %s AND number <= %s ORDER BY number LIMIT %s FOR UPDATE
            """
            rows = db.execute(sql, (last, newest, SEALED_AT_ONCE)).fetchall()
            hashes = sealed(before, [(row[0], AuditEntry(*row[1:])) for row in rows])
            with db.cursor() as cursor:
                cursor.executemany("INSERT INTO seals VALUES (%s, %s)", hashes)
        return len(hashes)

    def lines(self, after: int, limit: int) -> list[tuple[int, AuditEntry]]:
        sql = f"""
        SELECT number, {_FIELDS}, coalesce(hash, '') FROM trail LEFT JOIN seals USING (number)
        WHERE number > %s ORDER BY number LIMIT %s
        """
        with self._database.write() as db:
            db.execute(_ALL_WRITTEN)
            return [(row[0], AuditEntry(*row[1:])) for row in db.execute(sql, (after, limit))]

    def trail(self, token: str | None, limit: int) -> list[AuditEntry]:
        which, names = ("WHERE token = %s", (storable(token),)) if token else ("", ())
        sql = f"SELECT {_FIELDS} FROM trail {which} ORDER BY number DESC LIMIT %s"
        with self._database.read() as db:
            return [AuditEntry(*row) for row in db.execute(sql, (*names, limit))]

    def key(self, name: str, proposed: bytes) -> bytes:
        return self._database.key(name, proposed)

    def add_sign_in(self, record: TokenRecord, kept: bytes, until: int, oldest: int) -> None:
        with self._database.write() as db:
            gone = [row[0] for row in db.execute("DELETE FROM sign_ins WHERE until < %s RETURNING id", (oldest,))]
            db.execute("DELETE FROM tokens WHERE id = ANY(%s)", (gone,))
            db.execute(_INSERT, to_row(record))
            db.execute("INSERT INTO sign_ins VALUES (%s, %s, %s)", (record.holder.id, until, kept))

    def sign_in(self, id: str) -> bytes | None:
        with self._database.read() as db:
            row = db.execute("SELECT kept FROM sign_ins WHERE id = %s", (storable(id),)).fetchone()
        return bytes(row[0]) if row else None

    def ends_of_sign_ins(self) -> dict[str, int]:
        """The end of each sign-in, by the id of its token, in Unix seconds."""
        with self._database.read() as db:
            return dict(db.execute("SELECT id, until FROM sign_ins").fetchall())

    def renew(self, record: TokenRecord, kept: bytes) -> bool:
        id, _, holder, digest, *_ = to_row(record)
        with self._database.write() as db:
            sql = "UPDATE tokens SET holder = %s, digest = %s WHERE id = %s AND revoked = 0"
            if not db.execute(sql, (holder, digest, id)).rowcount:
                return False
            db.execute("UPDATE sign_ins SET kept = %s WHERE id = %s", (kept, id))
            return True

    def turn(self, name: str) -> AbstractContextManager[None]:
        return self._database.lock(name, TURN_SECONDS)

    def close(self) -> None:
        """Return the leased quotas. The database stays open."""
        self._quotas.close()


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
