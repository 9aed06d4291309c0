"""Counters of quotas that several hubs share. A hub leases a block of each limit, so that most calls need no query.

A lease counts as spent in the database until its unused part is returned, within 60 seconds. Therefore all hubs
together never exceed a limit, even if a hub is killed. What a killed hub used of its last block is then unknown, so the
block counts as spent until the window of time ends. Blocks are small for this reason: the first has the needed amount,
and only a token that soon needs more gets twice as much. The windows follow the clock of PostgreSQL: a lease names its
window, and how long it lasts.
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

PARTS = {"requests": 20, "bytes": 500}
"""The largest block is this part of a limit, or the needed amount. Others, such as nodes, are counted one by one: a
change waits for its upstream anyway."""
HELD_SECONDS = 40.0
"""A lease is returned after this time; checked every `LOOK_SECONDS`."""
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
