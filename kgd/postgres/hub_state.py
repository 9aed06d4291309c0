"""The state that several hubs share in PostgreSQL: tokens and quotas, rejections of proposals, and sessions of
browsers; and the move of a single hub's state there.

A hub leases a block of each limit, so that most calls need no query. A lease counts as spent in the database until the
hub returns the unused part, within 60 seconds. Therefore all hubs together never exceed a limit, even if a hub is
killed: its last block then counts as spent until the window of time ends. Blocks are small for this reason: the first
has the needed amount, and only a token that soon needs more gets twice as much. The windows follow the clock of
PostgreSQL: a lease states its window and the remaining time.
"""

from __future__ import annotations

import contextlib
import math
import re
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from kgd.errors import InvariantViolation, KgdError
from kgd.model.browser_state import LINKS_EACH, LINKS_LIMIT, SESSIONS_EACH, SESSIONS_LIMIT, Link, SignedIn, Visitor
from kgd.model.token import (
    DETAIL_LIMIT,
    SEAL_SECONDS,
    SEALED_AT_ONCE,
    SIGN_IN_KEY,
    AuditEntry,
    HubContents,
    Moved,
    TokenRecord,
    from_row,
    sealed,
    storable,
    to_row,
)
from kgd.postgres.database import SEAL_LOCK, Database

if TYPE_CHECKING:
    import psycopg

PARTS = {"requests": 20, "bytes": 500}
"""The largest block is the limit divided by this number, or the needed amount. Other limits, such as nodes, have no
blocks: a change waits for its upstream anyway."""
HELD_SECONDS = 40.0
"""A hub returns a lease after this time; it checks every `LOOK_SECONDS`."""
LOOK_SECONDS = 10.0

_TAKE = """
INSERT INTO spent AS known VALUES (%(token)s, %(what)s, div(extract(epoch FROM now()), %(seconds)s), 0)
ON CONFLICT (token, what) DO UPDATE SET
    span = greatest(known.span, excluded.span),
    amount = CASE WHEN known.span < excluded.span THEN 0 ELSE known.amount END
RETURNING span, amount, ((span + 1) * %(seconds)s - extract(epoch FROM now()))::float8
"""
_ADD = "UPDATE spent SET amount = amount + %s WHERE token = %s AND what = %s AND span = %s"


@dataclass(slots=True)
class _Lease:
    """Part of a limit within one window. Times are by the monotonic clock."""

    span: int
    left: int
    ends: float
    """The end of the window; never later than PostgreSQL's, since it was measured before the query."""
    size: int
    since: float


@dataclass(frozen=True, slots=True)
class _Grant:
    span: int
    block: int
    ends: float


class Quotas:
    """The leases of one hub. Thread-safe."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._leases: dict[tuple[str, str], _Lease] = {}
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def spend(self, limits: Mapping[str, int], what: str, seconds: int, amount: int) -> int:
        """Implements `HubState.spend`. Waits for PostgreSQL only if a lease is used up."""
        while True:
            with self._lock:
                lacking = [token for token in sorted(limits) if self._left(token, what) < amount]
                if not lacking:
                    for token in limits if amount else ():  # an amount of 0 needs no lease
                        self._leases[token, what].left -= amount
                    return 0
                blocks = {token: self._block(token, what, limits[token], amount) for token in lacking}
            granted = self._lease(limits, blocks, what, seconds, amount)
            if isinstance(granted, int):
                return granted
            with self._lock:
                for token, grant in granted.items():
                    left = grant.block + self._left(token, what, grant.span)
                    lease = _Lease(grant.span, left, grant.ends, grant.block, time.monotonic())
                    self._leases[token, what] = lease
                if self._thread is None:
                    self._thread = threading.Thread(target=self._return_old, name="kgd-quotas", daemon=True)
                    self._thread.start()

    def close(self) -> None:
        """Return all leases."""
        self._ended.set()
        if self._thread:
            self._thread.join()
        with contextlib.suppress(KgdError):  # the rest is lost until the window ends
            self._give_back(held=0)

    def _left(self, token: str, what: str, span: int | None = None) -> int:
        """The unused amount of a lease whose window has not ended; with `span`, only of a lease in this window."""
        lease, now = self._leases.get((token, what)), time.monotonic()
        return 0 if lease is None or now >= lease.ends or span not in (None, lease.span) else lease.left

    def _block(self, token: str, what: str, limit: int, amount: int) -> int:
        lease = self._leases.get((token, what))
        twice = 2 * lease.size if lease and time.monotonic() < lease.since + HELD_SECONDS else 0
        return max(amount, min(twice, limit // PARTS[what] if what in PARTS else 0))

    def _lease(
        self, limits: Mapping[str, int], blocks: Mapping[str, int], what: str, seconds: int, amount: int
    ) -> dict[str, _Grant] | int:
        """Lease these blocks, or the rest of a limit. If a limit does not allow the amount, nothing is leased, and
        the seconds until the window ends are returned."""
        granted: dict[str, _Grant] = {}
        began = time.monotonic()
        with self._database.write() as db:  # a grant that a crash of the server forgets would be granted twice
            for token, block in blocks.items():  # sorted by the caller: all hubs lock rows in the same order
                row = db.execute(_TAKE, {"token": token, "what": what, "seconds": seconds}).fetchone()
                assert row is not None
                span, spent, left = int(row[0]), int(row[1]), float(row[2])
                if limits[token] - spent < amount:
                    return max(1, math.ceil(left))
                granted[token] = _Grant(span, min(block, limits[token] - spent), began + left)
            for token, grant in granted.items():
                db.execute(_ADD, (grant.block, token, what, grant.span))
        return granted

    def _return_old(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            with contextlib.suppress(KgdError):  # without PostgreSQL they are returned later
                self._give_back(held=HELD_SECONDS)

    def _give_back(self, held: float) -> None:
        with self._lock:
            old = time.monotonic() - held
            returned = {key: lease for key, lease in self._leases.items() if lease.since <= old}
            for key in returned:
                del self._leases[key]
        unused = {key: lease for key, lease in returned.items() if lease.left}
        if not unused:
            return
        # After a failure, the state of the database is unknown, so the units count as spent.
        with self._database.write(durable=False) as db:
            for (token, what), lease in sorted(unused.items(), key=lambda item: item[0]):
                db.execute(_ADD, (-lease.left, token, what, lease.span))


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


_NUMBERED = re.compile(r"([^/]+)-(\d{1,9})").fullmatch


class PostgresProposals:
    """The tables `rejections` and `proposal_numbers`. Every method raises Unavailable."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add_rejection(
        self, workspace: str, name: str, commit: str, by: str, at: int, reason: str, withdrawn: bool
    ) -> None:
        sql = """
        INSERT INTO rejections (workspace, name, commit, by, at, reason, withdrawn) VALUES (%s, %s, %s, %s, %s, %s, %s)
        ON CONFLICT (workspace, name, commit)
        DO UPDATE SET by = excluded.by, at = excluded.at, reason = excluded.reason, withdrawn = excluded.withdrawn
        """
        with self._database.write() as db:
            db.execute(sql, (workspace, name, commit, storable(by), at, storable(reason), withdrawn))

    def discard_rejection(self, workspace: str, name: str, commit: str) -> None:
        with self._database.write() as db:
            sql = "DELETE FROM rejections WHERE workspace = %s AND name = %s AND commit = %s"
            db.execute(sql, (workspace, name, commit))

    def rejection(self, workspace: str, name: str, commit: str) -> tuple[str, int, str, bool] | None:
        """The newest (by, at, reason, withdrawn) of a proposal; `commit` is the beginning of its commit's id."""
        sql = """
        SELECT by, at, reason, withdrawn FROM rejections
        WHERE workspace = %s AND name = %s AND starts_with(commit, %s) ORDER BY at DESC LIMIT 1
        """
        with self._database.read() as db:
            row = db.execute(sql, (workspace, storable(name), storable(commit))).fetchone()
        return (row[0], row[1], row[2], row[3]) if row else None

    def use_number(self, workspace: str, name: str) -> None:
        if not (found := _NUMBERED(name)):
            return
        sql = """
        INSERT INTO proposal_numbers AS known VALUES (%s, %s, %s)
        ON CONFLICT (workspace, holder) DO UPDATE SET last = greatest(known.last, excluded.last)
        """
        with self._database.write() as db:
            db.execute(sql, (workspace, found[1], int(found[2])))

    def last_number(self, workspace: str, holder: str) -> int:
        sql = "SELECT last FROM proposal_numbers WHERE workspace = %s AND holder = %s"
        with self._database.read() as db:
            row = db.execute(sql, (workspace, holder)).fetchone()
        return int(row[0]) if row else 0


_SESSION_FIELDS = "token, program, since, seen"


class PostgresBrowserState:
    """The links and sessions of token holders at all hubs. Implements `BrowserState`.

    Rows without a token are ignored: they would be links and sessions of the hub machine's own user, which opens
    everything there. kgd never writes them, but another program with access to the database could.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def add_link(self, digest: str, link: Link) -> None:
        token = link.visitor.token
        with self._database.write() as db:
            db.execute("INSERT INTO browser_links VALUES (%s, %s, %s, %s)", (digest, token, link.to, link.until))
            _drop(db, "browser_links", "until", LINKS_EACH, LINKS_LIMIT, token)

    def link(self, digest: str) -> Link | None:
        sql = "SELECT token, page, until FROM browser_links WHERE digest = %s AND token <> ''"
        with self._database.read() as db:
            row = db.execute(sql, (digest,)).fetchone()
        return Link(Visitor(row[0]), row[1], row[2]) if row else None

    def exchange(self, link: str, session: str, program: str, now: float) -> Link | None:
        with self._database.write() as db:
            sql = "DELETE FROM browser_links WHERE digest = %s AND token <> '' RETURNING token, page, until"
            row = db.execute(sql, (link,)).fetchone()
            found = Link(Visitor(row[0]), row[1], row[2]) if row else None
            if found is None or not found.is_good(now):
                return None
            _add_session(db, session, SignedIn(found.visitor, program, now, now))
            return found

    def add(self, digest: str, session: SignedIn) -> None:
        with self._database.write() as db:
            _add_session(db, digest, session)

    def find(self, digest: str) -> SignedIn | None:
        sql = f"SELECT {_SESSION_FIELDS} FROM browser_sessions WHERE digest = %s AND token <> ''"
        with self._database.read() as db:
            row = db.execute(sql, (digest,)).fetchone()
        return SignedIn(Visitor(row[0]), *row[1:]) if row else None

    def all(self) -> dict[str, SignedIn]:
        with self._database.read() as db:
            rows = db.execute(f"SELECT digest, {_SESSION_FIELDS} FROM browser_sessions").fetchall()
        return {row[0]: SignedIn(Visitor(row[1]), *row[2:]) for row in rows}

    def seen(self, digest: str, at: float) -> None:
        with self._database.write(durable=False) as db:
            db.execute("UPDATE browser_sessions SET seen = %s WHERE digest = %s", (at, digest))

    def tidy(self, oldest: float, now: float) -> None:
        with self._database.write(durable=False) as db:
            db.execute("DELETE FROM browser_sessions WHERE seen < %s", (oldest,))
            db.execute("UPDATE browser_sessions SET seen = %s WHERE seen > %s", (now, now))

    def end(self, digests: Collection[str]) -> None:
        if digests:
            with self._database.write() as db:
                db.execute("DELETE FROM browser_sessions WHERE digest = ANY(%s)", (list(digests),))

    def end_links(self) -> None:
        with self._database.write() as db:
            db.execute("DELETE FROM browser_links")

    def say(self, digest: str, text: str) -> None:
        with self._database.write(durable=False) as db:
            db.execute("UPDATE browser_sessions SET said = %s WHERE digest = %s", (storable(text), digest))

    def said(self, digest: str) -> str:
        sql = """
        WITH kept AS (SELECT digest, said FROM browser_sessions WHERE digest = %s AND said <> '' FOR UPDATE)
        UPDATE browser_sessions SET said = '' FROM kept WHERE browser_sessions.digest = kept.digest RETURNING kept.said
        """
        with self._database.write(durable=False) as db:
            row = db.execute(sql, (digest,)).fetchone()
        return str(row[0]) if row else ""


def _add_session(db: psycopg.Connection[Any], digest: str, session: SignedIn) -> None:
    token = session.visitor.token
    values = (digest, token, storable(session.program), session.since, session.seen)
    db.execute(f"INSERT INTO browser_sessions (digest, {_SESSION_FIELDS}) VALUES (%s, %s, %s, %s, %s)", values)
    _drop(db, "browser_sessions", "seen", SESSIONS_EACH, SESSIONS_LIMIT, token)


def _drop(db: psycopg.Connection[Any], table: str, age: str, each: int, limit: int, token: str) -> None:
    """Delete the oldest rows of a token, and of all tokens, beyond these limits."""
    for which, names, most in (("WHERE token = %s", (token,), each), ("", (), limit)):
        db.execute(
            f"DELETE FROM {table} WHERE digest IN"
            f" (SELECT digest FROM {table} {which} ORDER BY {age} DESC, digest OFFSET %s)",
            (*names, most),
        )
