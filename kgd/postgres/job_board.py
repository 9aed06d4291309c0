"""Jobs of all hubs, as their hubs report them. A job runs at the hub that has its files; every hub shows it."""

from __future__ import annotations

import contextlib
import logging
import threading
from dataclasses import dataclass

from kgd.errors import KgdError
from kgd.postgres.database import Database

BEAT_SECONDS = 15.0
"""Seconds between two reports of a hub with running jobs."""
KEPT = "7 days"

_REPORT = """
INSERT INTO jobs VALUES (%s, %s, %s, %s, %s, now())
ON CONFLICT (id) DO UPDATE SET hub = excluded.hub, job = excluded.job, is_over = excluded.is_over, reported = now()
"""
_FIELDS = "job, hub, extract(epoch FROM now() - reported)::float8"

log = logging.getLogger("kgd.jobs")


@dataclass(frozen=True, slots=True)
class Reported:
    """A job as JSON, the name of its hub, and the seconds since the hub's last report."""

    job: str
    hub: str
    silent: float


class JobBoard:
    """The reports of one hub, and of the others. Thread-safe; only the reading methods raise Unavailable.

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
