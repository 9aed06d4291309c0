"""Changelogs of areas: pages of entries, and new entries with ids that sort by time."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime

from kgd.codec import documents, paths
from kgd.errors import KgdError
from kgd.git.objects import FOLDER, ObjectId
from kgd.model.change import LogEntry
from kgd.model.uri import Uri
from kgd.workspace.workspace import Workspace

_DIGITS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base 32, which sorts like the numbers."""
_RANDOM_BITS = 80
_LISTINGS = 8
_WORTH_KEEPING = 200
"""Number of cached listings, and entries from which a listing is cached: a shorter one is read just as fast."""
_LATEST = 253_402_300_799_999
"""The last millisecond of the year 9999."""


def entries(
    workspace: Workspace, uri: Uri, *, limit: int, offset: int = 0, since: int | None = None, until: int | None = None
) -> tuple[list[LogEntry], int]:
    """A page of a node's changelog, newest first, and the total number of entries in the period, if one is given.

    Lists one folder of the tip's tree, at most once after each change, and reads only the entries on the page.
    Unreadable entries are left out.
    """
    store = workspace.store
    folder = paths.log_path(uri, "x").rpartition("/")[0]
    found = store.lookup(store.tree_of(bytes.fromhex(workspace.tip)), folder)
    if found is None or found[0] != FOLDER:
        return [], 0
    listed = workspace.beside(_Listings, _Listings).of(found[1])
    if since is not None or until is not None:
        first, last = _id_at(since or 0), _id_at(_LATEST // 1000 if until is None else until + 1)
        listed = [(name, id) for name, id in listed if first <= name < last]
    page = []
    for name, id in listed[offset : offset + limit]:
        try:
            page.append(documents.decode_entry(store.read(id), at=f"{folder}/{name.decode(errors='replace')}"))
        except KgdError:  # `kgd fsck` reports it
            continue
    return page, len(listed)


def new_entry(parent: Uri, task: str, summary: str, now: float) -> LogEntry:
    """An entry made at `now` (Unix seconds). Entries made in the same millisecond sort in the order of creation."""
    return LogEntry(_ulids.next(_milliseconds(now)), parent, task, summary, moment_of(now))


def moment_of(now: float) -> str:
    """Unix seconds as ISO 8601 in UTC with milliseconds."""
    at = _milliseconds(now)
    moment = datetime.fromtimestamp(at // 1000, UTC).replace(microsecond=at % 1000 * 1000)
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _id_at(seconds: int) -> bytes:
    """The common prefix of the ids of one second; since ids sort by time, it delimits a period."""
    at = _milliseconds(seconds)
    return "".join(_DIGITS[at >> shift & 31] for shift in range(45, -1, -5)).encode()


def _milliseconds(now: float) -> int:
    return min(max(0, int(now * 1000)), _LATEST)


class _Listings:
    """Cache of the last listed changelog folders, newest entry first: listing ten thousand names takes 15 ms."""

    def __init__(self, workspace: Workspace) -> None:
        self._store, self._lock = workspace.store, threading.Lock()
        self._listed: OrderedDict[ObjectId, list[tuple[bytes, ObjectId]]] = OrderedDict()

    def of(self, tree: ObjectId) -> list[tuple[bytes, ObjectId]]:
        """Name and blob of each entry in a folder. A changed folder has a new id, so a listing never becomes stale."""
        with self._lock:
            if (known := self._listed.get(tree)) is not None:
                self._listed.move_to_end(tree)
                return known
        files = self._store.tree(tree).items()
        found = sorted(
            ((name, id) for name, (mode, id) in files if mode != FOLDER and name[-5:] == b".yaml"), reverse=True
        )
        if len(found) >= _WORTH_KEEPING:
            with self._lock:
                self._listed[tree] = found
                while len(self._listed) > _LISTINGS:
                    self._listed.popitem(last=False)
        return found


class _Ulids:
    """Ids that sort by time: 48 bits of milliseconds, then random bits, incremented within one millisecond."""

    def __init__(self, randbits: Callable[[int], int]) -> None:
        self._randbits, self._lock = randbits, threading.Lock()
        self._last_at, self._last_random = -1, 0

    def next(self, at: int) -> str:
        with self._lock:
            again = at == self._last_at and self._last_random + 1 < 1 << _RANDOM_BITS
            self._last_random = self._last_random + 1 if again else self._randbits(_RANDOM_BITS)
            self._last_at = at
            number = at << _RANDOM_BITS | self._last_random
        return "".join(_DIGITS[number >> shift & 31] for shift in range(125, -1, -5))


_ulids = _Ulids(secrets.randbits)
