"""Counters of quotas that several hubs share. A hub leases a block of each limit, so that most calls need no query.

A lease counts as spent in the database until its unused part is returned. Therefore all hubs together never exceed a
limit, even if a hub is killed; the unused part of a killed hub's lease is lost until the window of time ends. The
windows follow the clock of PostgreSQL: a lease names its window, and how long it lasts.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from kgd.errors import KgdError
from kgd.postgres.database import Database

BLOCKS = {"requests": 20}
DAY_BLOCKS = 500
"""A block is this part of a limit, but at least the needed amount. A killed hub loses a block until the window ends, so
the parts of daily limits are small."""
IDLE_SECONDS = 20.0
"""A lease that was unused for this long is returned; checked every `LOOK_SECONDS`."""
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
    at: float
    """The last use."""


@dataclass(frozen=True, slots=True)
class _Grant:
    span: int
    block: int
    ends: float


class Quotas:
    """The leases of one hub. Safe for threads."""

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
            granted = self._lease({token: limits[token] for token in lacking}, what, seconds, amount)
            if isinstance(granted, int):
                return granted
            with self._lock:
                for token, grant in granted.items():
                    block = grant.block + self._left(token, what, grant.span)
                    self._leases[token, what] = _Lease(grant.span, block, grant.ends, time.monotonic())
                if self._thread is None:
                    self._thread = threading.Thread(target=self._return_idle, name="kgd-quotas", daemon=True)
                    self._thread.start()

    def close(self) -> None:
        """Return all leases."""
        self._ended.set()
        if self._thread:
            self._thread.join()
        with contextlib.suppress(KgdError):  # the rest is lost until the window ends
            self._give_back(idle=0)

    def _left(self, token: str, what: str, span: int | None = None) -> int:
        """The unused amount of a lease whose window has not ended; with `span`, only of a lease in this window."""
        lease, now = self._leases.get((token, what)), time.monotonic()
        if lease is None or now >= lease.ends or span not in (None, lease.span):
            return 0
        lease.at = now
        return lease.left

    def _lease(self, limits: Mapping[str, int], what: str, seconds: int, amount: int) -> dict[str, _Grant] | int:
        """Lease a block for each token. If a limit does not allow the amount, nothing is leased, and the seconds until
        the window ends are returned."""
        granted: dict[str, _Grant] = {}
        began = time.monotonic()
        with self._database.write() as db:  # a grant that a crash of the server forgets would be granted twice
            for token, limit in limits.items():  # sorted by the caller: all hubs lock rows in the same order
                row = db.execute(_TAKE, {"token": token, "what": what, "seconds": seconds}).fetchone()
                assert row is not None
                span, spent, left = int(row[0]), int(row[1]), float(row[2])
                if limit - spent < amount:
                    return max(1, math.ceil(left))
                block = min(max(amount, limit // BLOCKS.get(what, DAY_BLOCKS)), limit - spent)
                granted[token] = _Grant(span, block, began + left)
            for token, grant in granted.items():
                db.execute(_ADD, (grant.block, token, what, grant.span))
        return granted

    def _return_idle(self) -> None:
        while not self._ended.wait(LOOK_SECONDS):
            with contextlib.suppress(KgdError):  # without PostgreSQL they are returned later
                self._give_back(idle=IDLE_SECONDS)

    def _give_back(self, idle: float) -> None:
        with self._lock:
            old = time.monotonic() - idle
            returned = {key: lease for key, lease in self._leases.items() if lease.at <= old}
            for key in returned:
                del self._leases[key]
        if not returned:
            return
        try:
            with self._database.write(durable=False) as db:
                for (token, what), lease in sorted(returned.items(), key=lambda item: item[0]):
                    if lease.left:
                        db.execute(_ADD, (-lease.left, token, what, lease.span))
        except KgdError:
            with self._lock:
                for key, lease in returned.items():
                    self._leases.setdefault(key, lease)
            raise
