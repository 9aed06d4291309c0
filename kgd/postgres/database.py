"""Connections to PostgreSQL, the tables of kgd, errors in kgd's words; notifications and turns between hubs, and the
jobs of all hubs, as their hubs report them."""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import secrets
import threading
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from kgd.errors import Damaged, Invalid, KgdError, Unavailable

if TYPE_CHECKING:
    import psycopg

SCHEMES = ("postgres", "postgresql")
WAIT_SECONDS = 4.0
"""Longest wait in seconds for a connection, an answer, or a lock of another hub: a caller gets an answer within five
seconds."""
STILL_SECONDS = WAIT_SECONDS + 0.3
"""The hub's own limit, if the server hangs; longer, so that the server can report a reason first."""
LOST_SECONDS = 1.0
"""Seconds for which calls fail at once after the wait for a connection timed out."""
CONNECTIONS = 8
Waiting = Generator[Any, Any, Any]
"""The type of psycopg's waits for sockets."""
SEAL_LOCK = 0x6B6765
"""Key of the advisory lock under which lines of the audit log are sealed."""
UPGRADE_LOCK = 0x6B6764
"""Key of the advisory lock under which tables are created: `kgd`."""

_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")

STEPS = (
    """
    CREATE TABLE tokens (
        id text PRIMARY KEY, parent text NOT NULL, holder text NOT NULL, digest bytea NOT NULL, quota text NOT NULL,
        created bigint NOT NULL, revoked bigint NOT NULL, last_used bigint NOT NULL
    );
    CREATE INDEX tokens_of ON tokens (parent);
    CREATE TABLE spent (
        token text, what text, span bigint NOT NULL, amount bigint NOT NULL, PRIMARY KEY (token, what)
    ) WITH (fillfactor = 50);
    CREATE TABLE answers (
        token text, request text, asked bytea NOT NULL, answer text NOT NULL, at bigint NOT NULL,
        PRIMARY KEY (token, request)
    );
    CREATE INDEX answers_by_age ON answers (at);
    CREATE TABLE trail (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at bigint NOT NULL, token text NOT NULL,
        action text NOT NULL, workspace text NOT NULL, detail text NOT NULL,
        written_by xid8 NOT NULL DEFAULT pg_current_xact_id()  -- for hubs of earlier versions
    );
    CREATE INDEX trail_of ON trail (token, number);
    CREATE TABLE keys (name text PRIMARY KEY, key bytea NOT NULL);
    """,
    """
    CREATE TABLE browser_links (
        digest text PRIMARY KEY, token text NOT NULL, page text NOT NULL, until float8 NOT NULL
    );
    CREATE INDEX browser_links_of ON browser_links (token, until);
    CREATE TABLE browser_sessions (
        digest text PRIMARY KEY, token text NOT NULL, program text NOT NULL, since float8 NOT NULL,
        seen float8 NOT NULL, said text NOT NULL DEFAULT ''
    );
    CREATE INDEX browser_sessions_of ON browser_sessions (token, seen);
    CREATE INDEX browser_sessions_by_age ON browser_sessions (seen);
    CREATE TABLE moves (source text PRIMARY KEY, line bigint NOT NULL);
    CREATE TABLE jobs (
        id text PRIMARY KEY, workspace text NOT NULL, hub text NOT NULL, job text NOT NULL, is_over boolean NOT NULL,
        reported timestamptz NOT NULL
    );
    CREATE INDEX jobs_of ON jobs (workspace, reported);
    """,
    """
    CREATE TABLE rejections (
        workspace text, name text, commit text, by text NOT NULL, at bigint NOT NULL, reason text NOT NULL,
        PRIMARY KEY (workspace, name, commit)
    );
    CREATE TABLE proposal_numbers (
        workspace text, holder text, last bigint NOT NULL, PRIMARY KEY (workspace, holder)
    );
    """,
    "CREATE TABLE seals (number bigint PRIMARY KEY, hash text NOT NULL)",
    """
    CREATE TABLE sign_ins (id text PRIMARY KEY, until bigint NOT NULL, kept bytea NOT NULL);
    CREATE INDEX sign_ins_by_end ON sign_ins (until);
    """,
    "CREATE INDEX browser_links_by_age ON browser_links (until)",
    "ALTER TABLE rejections ADD COLUMN withdrawn boolean NOT NULL DEFAULT false",
)
"""Each step is applied once, in order. A step only adds, so that hubs of the previous version keep working."""


class Database:
    """A pool of connections to one database. Thread-safe.

    Args:
        url: `postgres://…`.

    Raises:
        Invalid: The URL is malformed, or psycopg is not installed.
        Unavailable: The server cannot be reached, or refuses the connection.
    """

    def __init__(self, url: str) -> None:
        _check(url)
        try:
            import psycopg
            from psycopg_pool import ConnectionPool, PoolTimeout
        except ImportError as error:
            raise Invalid(
                "shared state needs psycopg",
                at="--state",
                next="Run `uv tool install '.[postgres]'` in the clone of kgd.",
            ) from error
        self._lost = (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout)
        self._no_connection, self._lost_until = PoolTimeout, 0.0
        self._not_free = psycopg.errors.LockNotAvailable
        self._wrong: tuple[type[Exception], ...] = (psycopg.Error,)
        self.name = _name(url)
        """Server and database, without user and password."""
        how: dict[str, Any] = {"autocommit": True, "connect_timeout": 3, "application_name": "kgd"}
        bounded = _bounded(psycopg.Connection)
        self.era = 0
        """Changes when the server restarts or its tables are replaced, since it may then have an older state."""
        self._server: tuple[Any, ...] | None = None
        self._tables = 0
        self._connect = functools.partial(bounded.connect, url, **how)
        self._pool = ConnectionPool(
            url,
            connection_class=bounded,
            min_size=1,
            max_size=CONNECTIONS,
            timeout=WAIT_SECONDS,
            reconnect_timeout=WAIT_SECONDS,  # then the next caller tries again, instead of an ever slower pool
            check=ConnectionPool.check_connection,
            configure=self._begin,
            kwargs=how,
            open=False,
        )
        self._try()
        try:
            with self._translated():
                self._pool.open(wait=True, timeout=WAIT_SECONDS)
            self._upgrade()
        except BaseException:
            self._pool.close()
            raise

    def _try(self) -> None:
        """Connect once without the pool, which hides the reason of a failure."""
        try:
            self._connect().close()
        except self._lost as error:
            raise Unavailable(
                f"PostgreSQL cannot be used: {_first_line(error)}",
                at=self.name,
                next="Check the server, and the address, user and password in --state; then start the hub again.",
            ) from error
        except self._wrong as error:
            raise Invalid(
                f"the URL is malformed: {_first_line(error)}", at="--state", next="For example postgres://db/kgd."
            ) from error

    @contextlib.contextmanager
    def read(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection whose statements are each their own transaction. Raises Unavailable or Damaged."""
        with self._translated(), self._taken() as connection:
            yield connection

    @contextlib.contextmanager
    def write(self, *, durable: bool = True) -> Iterator[psycopg.Connection[Any]]:
        """A transaction; without `durable`, a crash of the server may lose it. Raises Unavailable or Damaged."""
        with self._translated(), self._taken() as connection, connection.transaction():
            if not durable:
                connection.execute("SET LOCAL synchronous_commit = off")
            yield connection

    @contextlib.contextmanager
    def _taken(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection of the pool. If none is available in time, the next calls fail at once, so that a request with
        several queries waits only once."""
        if time.monotonic() < self._lost_until:
            raise self._no_connection("the server could not be reached a moment ago")
        with contextlib.ExitStack() as held:
            try:
                connection = held.enter_context(self._pool.connection())
            except self._no_connection:
                self._lost_until = time.monotonic() + LOST_SECONDS
                raise
            yield connection

    @contextlib.contextmanager
    def lock(self, name: str, seconds: float) -> Iterator[None]:
        """An advisory lock, over a connection of its own. Raises Unavailable if it is not free in time."""
        key = "hashtextextended(%s, 0)"
        with self._connection() as connection:
            with self._translated():
                deadline = time.monotonic() + seconds
                while True:  # in short waits, since every statement ends after `WAIT_SECONDS`
                    left = min(deadline - time.monotonic(), WAIT_SECONDS / 2)
                    connection.execute(f"SET lock_timeout = {max(1, int(left * 1_000))}")
                    try:
                        connection.execute(f"SELECT pg_advisory_lock({key})", (name,))
                        break
                    except self._not_free:
                        if time.monotonic() >= deadline:
                            raise
            try:
                yield
            finally:
                with contextlib.suppress(*self._lost):  # a lost connection holds no lock
                    connection.execute(f"SELECT pg_advisory_unlock({key})", (name,))

    @contextlib.contextmanager
    def listen(self, channel: str) -> Iterator[psycopg.Connection[Any]]:
        """A separate connection that listens on a channel. Raises Unavailable."""
        with self._translated(), self._connection() as connection:
            connection.execute(f"LISTEN {channel}")
            yield connection

    @contextlib.contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection outside the pool, so that a long use does not block other callers."""
        with self._translated():
            connection = self._connect()
        try:
            with self._translated():
                _configure(connection)
            yield connection
        finally:
            connection.close()

    def tables_are(self, oid: int) -> None:
        """Report the identity of the table of tokens, as a query found it."""
        if oid != self._tables:
            self._tables = oid
            self.era += 1

    def _begin(self, connection: psycopg.Connection[Any]) -> None:
        """Prepare a new connection of the pool. A restart of the server ends all earlier ones."""
        _configure(connection)
        started = connection.execute("SELECT pg_postmaster_start_time()").fetchone()
        if started != self._server:
            self._server = started
            self.era += 1

    def key(self, name: str, proposed: bytes) -> bytes:
        """The secret key of this name that all hubs share; the first hub's proposal becomes the key."""
        with self.write() as connection:
            connection.execute("INSERT INTO keys VALUES (%s, %s) ON CONFLICT DO NOTHING", (name, proposed))
            [(key,)] = connection.execute("SELECT key FROM keys WHERE name = %s", (name,))
        return bytes(key)

    def check(self) -> None:
        """Raise Unavailable if the server does not answer."""
        with self.read() as connection:
            connection.execute("SELECT 1")

    def close(self) -> None:
        self._pool.close(timeout=WAIT_SECONDS)

    def _upgrade(self) -> None:
        """Apply the steps that this database lacks. A newer database has more steps and is used unchanged."""
        with self.write() as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (UPGRADE_LOCK,))
            connection.execute("CREATE TABLE IF NOT EXISTS kgd_steps (step integer PRIMARY KEY)")
            done = {row[0] for row in connection.execute("SELECT step FROM kgd_steps")}
            for number, step in enumerate(STEPS):
                if number not in done:
                    connection.execute(step)
                    connection.execute("INSERT INTO kgd_steps VALUES (%s)", (number,))

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except self._lost as error:
            raise Unavailable(
                f"the hub's state in PostgreSQL cannot be used at the moment: {_first_line(error)}",
                at=self.name,
                next="The hub reconnects by itself; repeat the call with the same request_id.",
            ) from error
        except self._wrong as error:
            raise Damaged(
                f"the hub's tables do not have the expected structure: {_first_line(error)}",
                at=self.name,
                next="Restore the database from a backup.",
            ) from error


def _configure(connection: psycopg.Connection[Any]) -> None:
    milliseconds = int(WAIT_SECONDS * 1_000)
    connection.execute(f"SET statement_timeout = {milliseconds}")
    connection.execute(f"SET lock_timeout = {milliseconds}")
    connection.execute(f"SET idle_in_transaction_session_timeout = {2 * milliseconds}")


def _bounded(base: type[psycopg.Connection[Any]]) -> type[psycopg.Connection[Any]]:
    """A connection that is abandoned if the server hangs and does not enforce its own limits."""
    from psycopg import OperationalError

    class Bounded(base):  # type: ignore[misc, valid-type]
        def wait(self, gen: Waiting, *args: Any, **kwargs: Any) -> Any:
            return super().wait(self._limited(gen), *args, **kwargs)

        def _limited(self, gen: Waiting) -> Waiting:
            deadline = time.monotonic() + STILL_SECONDS
            try:
                wanted = next(gen)
                while True:
                    ready = yield wanted
                    if not ready and time.monotonic() > deadline:
                        self.pgconn.finish()
                        raise OperationalError("the server does not answer")
                    wanted = gen.send(ready)
            except StopIteration as done:
                return done.value

    return Bounded


def _check(url: str) -> None:
    if urlsplit(url).scheme not in SCHEMES:
        raise Invalid("shared state must be a PostgreSQL URL", at="--state", next="For example, postgres://db/kgd.")
    # Otherwise a part of the password becomes a part of the host or of the database, which errors show.
    if url.count("@") > urlsplit(url).netloc.count("@") or url.count("@") > 1 or _LONE_PERCENT.search(url):
        raise Invalid(
            "the URL has a character that must be encoded",
            at="--state",
            next="Write @ / ? # and % in the user and the password as %40 %2F %3F %23 and %25.",
        )


def _name(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


CHANNEL = "kgd_tip"
LOOK_SECONDS = 1.0
"""Seconds between the listener's checks for its end, and before it connects again after a lost connection."""
TURNS = 4
"""Largest number of workspaces that wait for a turn at the same time; the others go without one."""

TURN_SECONDS = 0.5
"""Longest wait for a turn, because the hub that has it may hang."""

log = logging.getLogger("kgd.hubs")


class Wakeups:
    """Notifications of new tips, to and from the other hubs over one database."""

    def __init__(self, database: Database, moved: Callable[[str, str], object]) -> None:
        """`moved` is called on the listener's thread with a workspace id and its new tip, as another hub sent them."""
        self._database, self._moved = database, moved
        self._me = secrets.token_hex(8)
        self._turns = threading.BoundedSemaphore(TURNS)
        self._ended = threading.Event()
        self.is_listening = threading.Event()
        """Set while notifications arrive."""
        self._thread = threading.Thread(target=self._run, name="kgd-wakeups", daemon=True)
        self._thread.start()

    def tell(self, workspace: str, tip: str) -> None:
        """Wake the other hubs. Never raises."""
        with contextlib.suppress(KgdError), self._database.write(durable=False) as connection:
            connection.execute("SELECT pg_notify(%s, %s)", (CHANNEL, f"{self._me} {workspace} {tip}"))

    @contextlib.contextmanager
    def turn(self, workspace: str) -> Iterator[None]:
        """Wait for this hub's turn to write to a workspace, at most `TURN_SECONDS`."""
        with contextlib.ExitStack() as held:
            if self._turns.acquire(blocking=False):
                held.callback(self._turns.release)
                with contextlib.suppress(KgdError):
                    held.enter_context(self._database.lock(f"turn {workspace}", TURN_SECONDS))
            yield

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                with self._database.listen(CHANNEL) as connection:
                    self.is_listening.set()
                    while not self._ended.is_set():
                        self._hear(connection)
            except KgdError as error:
                log.warning("no notifications from other hubs", extra={"reason": str(error)[:200]})
            except Exception:  # the thread survives any error; the regular sync makes up for a lost notification
                log.exception("a notification of another hub could not be handled")
            finally:
                self.is_listening.clear()
            self._ended.wait(LOOK_SECONDS)

    def _hear(self, connection: psycopg.Connection[Any]) -> None:
        for note in connection.notifies(timeout=LOOK_SECONDS, stop_after=1):
            sender, workspace, tip = note.payload.split(" ")
            if sender != self._me:
                self._moved(workspace, tip)


BEAT_SECONDS = 15.0
"""Seconds between two reports of a hub with running jobs."""
KEPT = "7 days"

_REPORT = """
INSERT INTO jobs VALUES (%s, %s, %s, %s, %s, now())
ON CONFLICT (id) DO UPDATE SET hub = excluded.hub, job = excluded.job, is_over = excluded.is_over, reported = now()
"""
_FIELDS = "job, hub, extract(epoch FROM now() - reported)::float8"


@dataclass(frozen=True, slots=True)
class Reported:
    """A job as JSON, the name of its hub, and the seconds since the hub's last report."""

    job: str
    hub: str
    silent: float


class JobBoard:
    """The reports of one hub, and of the others: a job runs at the hub that has its files, and every hub shows it.

    Thread-safe; only the reading methods raise Unavailable.

    Args:
        hub: The name of this hub.
    """

    def __init__(self, database: Database, hub: str) -> None:
        self._database, self._hub = database, hub
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def report(self, workspace: str, id: str, job: str, *, is_over: bool) -> None:
        """Replace the report of a job. A lost report is made up for by the next one."""
        with self._lock:
            (self._running.discard if is_over else self._running.add)(id)
            if self._thread is None and self._running:
                self._thread = threading.Thread(target=self._beat, name="kgd-job-reports", daemon=True)
                self._thread.start()
        try:
            with self._database.write(durable=is_over) as db:
                db.execute(_REPORT, (id, workspace, self._hub, job, is_over))
                db.execute(
                    f"DELETE FROM jobs WHERE workspace = %s AND reported < now() - interval '{KEPT}'", (workspace,)
                )
        except KgdError as error:
            log.warning("a job could not be reported", extra={"job": id, "reason": str(error)[:200]})

    def find(self, workspace: str, id: str) -> Reported | None:
        sql = f"SELECT {_FIELDS} FROM jobs WHERE id = %s AND workspace = %s"
        with self._database.read() as db:
            row = db.execute(sql, (id, workspace)).fetchone()
        return Reported(*row) if row else None

    def others(self, workspace: str, limit: int) -> list[Reported]:
        """The jobs of other hubs: unfinished jobs, then the latest finished jobs."""
        sql = f"SELECT {_FIELDS} FROM jobs WHERE workspace = %s AND hub <> %s ORDER BY is_over, reported DESC LIMIT %s"
        with self._database.read() as db:
            return [Reported(*row) for row in db.execute(sql, (workspace, self._hub, limit))]

    def close(self) -> None:
        self._ended.set()
        if self._thread:
            self._thread.join()

    def _beat(self) -> None:
        """Show that this hub is alive: reports of progress may be minutes apart."""
        while not self._ended.wait(BEAT_SECONDS):
            with self._lock:
                running = list(self._running)
            if running:
                with contextlib.suppress(KgdError), self._database.write(durable=False) as db:
                    sql = "UPDATE jobs SET reported = now() WHERE id = ANY(%s) AND hub = %s"
                    db.execute(sql, (running, self._hub))
