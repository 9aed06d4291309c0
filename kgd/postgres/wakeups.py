"""Notifications of new tips between hubs, and turns at writing to a workspace, through PostgreSQL.

Both only save time. A lost notification is made up for by the regular sync, and the upstream's ref decides races.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from kgd.errors import KgdError
from kgd.postgres.database import Database

if TYPE_CHECKING:
    import psycopg

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
