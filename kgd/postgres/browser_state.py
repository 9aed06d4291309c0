"""Sign-in links and sessions of browsers in PostgreSQL, so that a browser may use any of several hubs."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from kgd.model.browser_state import LINKS_EACH, LINKS_LIMIT, SESSIONS_EACH, SESSIONS_LIMIT, Link, SignedIn, Visitor
from kgd.model.token import storable
from kgd.postgres.database import Database

if TYPE_CHECKING:
    import psycopg

_FIELDS = "token, program, since, seen"


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
            _add(db, session, SignedIn(found.visitor, program, now, now))
            return found

    def add(self, digest: str, session: SignedIn) -> None:
        with self._database.write() as db:
            _add(db, digest, session)

    def find(self, digest: str) -> SignedIn | None:
        sql = f"SELECT {_FIELDS} FROM browser_sessions WHERE digest = %s AND token <> ''"
        with self._database.read() as db:
            row = db.execute(sql, (digest,)).fetchone()
        return SignedIn(Visitor(row[0]), *row[1:]) if row else None

    def all(self) -> dict[str, SignedIn]:
        with self._database.read() as db:
            rows = db.execute(f"SELECT digest, {_FIELDS} FROM browser_sessions").fetchall()
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


def _add(db: psycopg.Connection[Any], digest: str, session: SignedIn) -> None:
    token = session.visitor.token
    values = (digest, token, storable(session.program), session.since, session.seen)
    db.execute(f"INSERT INTO browser_sessions (digest, {_FIELDS}) VALUES (%s, %s, %s, %s, %s)", values)
    _drop(db, "browser_sessions", "seen", SESSIONS_EACH, SESSIONS_LIMIT, token)


def _drop(db: psycopg.Connection[Any], table: str, age: str, each: int, limit: int, token: str) -> None:
    """Delete the oldest rows of a token, and of all tokens, beyond these limits."""
    for which, names, most in (("WHERE token = %s", (token,), each), ("", (), limit)):
        db.execute(
            f"DELETE FROM {table} WHERE digest IN"
            f" (SELECT digest FROM {table} {which} ORDER BY {age} DESC, digest OFFSET %s)",
            (*names, most),
        )
