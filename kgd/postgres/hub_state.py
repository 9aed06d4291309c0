"""A hub's state in PostgreSQL, shared by several hubs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from kgd.model.audit_chain import SEAL_SECONDS, SEALED_AT_ONCE, sealed
from kgd.model.token import DETAIL_LIMIT, AuditEntry, TokenRecord, from_row, storable, to_row
from kgd.postgres.database import NUMBER_LOCK, SEAL_LOCK, Database
from kgd.postgres.quotas import Quotas

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
DRAW_NUMBERS = f"SELECT pg_advisory_xact_lock_shared({NUMBER_LOCK})"
"""Run before lines are added to the audit log; see `NUMBER_LOCK`."""


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
            db.execute(DRAW_NUMBERS)
            sql = f"INSERT INTO trail ({_FIELDS}) VALUES (%s, %s, %s, %s, %s) RETURNING number"
            row = db.execute(sql, values).fetchone()
        return int(row[0]) if row else 0

    def renote(self, number: int, detail: str) -> None:
        text = storable(detail[:DETAIL_LIMIT])
        with self._database.write(durable=False) as db:
            # A hub that is sealing the line holds this lock; the next statement then sees the seal.
            db.execute("SELECT FROM trail WHERE number = %s FOR UPDATE", (number,))
            if db.execute("SELECT FROM seals WHERE number = %s", (number,)).rowcount:
                db.execute(DRAW_NUMBERS)
                copied = "at, token, action, workspace"
                sql = f"INSERT INTO trail ({copied}, detail) SELECT {copied}, %s FROM trail WHERE number = %s"
                db.execute(sql, (text, number))
            else:
                db.execute("UPDATE trail SET detail = %s WHERE number = %s", (text, number))

    def seal(self, now: int) -> int:
        complete = self._complete()
        with self._database.write() as db:
            [(is_free,)] = db.execute("SELECT pg_try_advisory_xact_lock(%s)", (SEAL_LOCK,))
            if not is_free:  # another hub seals these lines
                return 0
            last, before = db.execute("SELECT number, hash FROM seals ORDER BY number DESC LIMIT 1").fetchone() or (
                0,
                "",
            )
            ripe = "SELECT number FROM trail WHERE at < %s AND number <= %s ORDER BY number DESC LIMIT 1"
            newest = (db.execute(ripe, (now - SEAL_SECONDS, complete)).fetchone() or (0,))[0]
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
        WHERE number > %s AND number <= %s ORDER BY number LIMIT %s
        """
        complete = self._complete()
        with self._database.read() as db:
            return [(row[0], AuditEntry(*row[1:])) for row in db.execute(sql, (after, complete, limit))]

    def _complete(self) -> int:
        """The number up to which no more lines can appear. Waits for the transactions that are adding lines."""
        with self._database.write() as db:
            db.execute("SELECT pg_advisory_xact_lock(%s)", (NUMBER_LOCK,))
            [(number,)] = db.execute("SELECT coalesce(max(number), 0) FROM trail")
        return int(number)

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
