"""The open workspaces of a daemon, which of them may be closed, and the remotes of closed ones.

A call holds the workspaces that it uses: they stay open until it ends. A call that needs a workspace while it is being
closed waits, and then opens it again. The remote of a closed workspace is checked periodically, and the workspace is
opened only if the remote has changed.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from kgd.config.entries import Settings
from kgd.daemon import process
from kgd.daemon.jobs import Jobs
from kgd.daemon.syncing import Syncing
from kgd.daemon.workspace_watch import WorkspaceWatch
from kgd.errors import KgdError
from kgd.git import refs
from kgd.git.program import GitFailed
from kgd.git.remote import GitRemote
from kgd.git.remote_settings import Remote, remotes
from kgd.git.store import ObjectStore
from kgd.sync.hub_sign_in import credential_of, network_of
from kgd.workspace.repository import give_memory_back
from kgd.workspace.workspace import Workspace

if TYPE_CHECKING:
    from kgd.config.entries import Entry
    from kgd.daemon.daemon import Daemon
    from kgd.git.layout import Layout

RECENT_SECONDS = 2.0
"""A workspace is not closed within this many seconds of its last use, for callers that do not hold it."""
COLLECT_AFTER = 10
"""Number of closed workspaces after which a garbage collection returns their memory. They contain reference cycles,
which Python would collect much later. A collection stops all threads for about a tenth of a second."""
FILES_EACH = 20
"""File descriptors for each open workspace; an active workspace has about 14, and more during concurrent searches."""
UNUSED = float("-inf")
"""`Opened.used_at` of a workspace that no call has used."""

EVERY_SECONDS = 300.0
"""Seconds between two checks of the same closed workspace, if there are at most 100 of them."""
LEAST_SECONDS = 3.0
"""Minimum number of seconds between checks of two different closed workspaces."""

log = logging.getLogger("kgd.daemon")


@dataclass(eq=False, slots=True)
class Opened:
    """An open workspace with its background work."""

    workspace: Workspace
    tending: WorkspaceWatch
    syncing: Syncing
    jobs: Jobs
    inode: int
    """Inode of the git directory: a different one at the same path is another workspace."""
    path: str
    """The path under which the registry lists the workspace."""
    holds: int = 0
    used_at: float = field(default_factory=time.monotonic)

    def close(self) -> None:
        """Close every part, even if one fails to close: a workspace that keeps its lock cannot be opened again."""
        for part in (self.jobs, self.syncing, self.tending, self.workspace):
            quietly(part.close)

    @property
    def is_busy(self) -> bool:
        """Whether closing would interrupt or delay work: jobs, unpublished or unsynced changes, or an index that is
        being built."""
        return self.jobs.is_busy or self.syncing.is_waiting or not self.workspace.is_settled


class _Held(threading.local):
    """The workspaces that the calls of a thread hold; None outside of `OpenWorkspaces.holding`."""

    held: list[Opened] | None = None


class OpenWorkspaces:
    """The open workspaces by git directory. Thread-safe.

    Only one thread at a time opens or closes a workspace, under the lock of `opening`.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[Path, Opened] = {}
        self._opening: dict[Path, threading.Lock] = {}
        self._thread = _Held()
        self._followed: list[Callable[[], Collection[str]]] = []
        self._garbage = 0
        """Closed workspaces since the last garbage collection."""
        self.is_closed = False

    def __len__(self) -> int:
        return len(self._open)

    def all(self) -> list[Opened]:
        with self._lock:
            return list(self._open.values())

    def get(self, place: Path) -> Opened | None:
        return self._open.get(place)

    def use(self, place: Path, workspace: Workspace | None = None) -> Opened | None:
        """The open workspace at this place, or None if it is closed or not this `workspace`. Within `holding` it stays
        open until the block ends."""
        with self._lock:
            found = self._open.get(place)
            if found is None or (workspace is not None and found.workspace is not workspace):
                return None
            found.used_at = time.monotonic()
            held = self._thread.held
            if held is not None and found not in held:
                found.holds += 1
                held.append(found)
            return found

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Within the block, workspaces that this thread uses do not count as idle."""
        if self._thread.held is not None:
            yield
            return
        held = self._thread.held = []
        try:
            yield
        finally:
            self._thread.held = None
            now = time.monotonic()
            with self._lock:
                for one in held:
                    one.holds -= 1
                    one.used_at = now

    def opening(self, place: Path) -> threading.Lock:
        with self._lock:
            return self._opening.setdefault(place, threading.Lock())

    def put(self, place: Path, opened: Opened) -> bool:
        """Add an opened workspace; False if the daemon is stopping."""
        with self._lock:
            if self.is_closed:
                return False
            self._open[place] = opened
            return True

    def take(self, wanted: Callable[[Opened], bool]) -> list[Opened]:
        """Remove workspaces, for the caller to close."""
        with self._lock:
            places = [place for place, one in self._open.items() if wanted(one)]
            return [self._open.pop(place) for place in places]

    def follow(self, ids: Callable[[], Collection[str]]) -> None:
        """Keep workspaces open while `ids` returns their ids, such as workspaces with subscribers. `ids` must not
        block."""
        self._followed.append(ids)

    def close_unused(self, settings: Settings, now: float) -> int:
        """Close idle workspaces, and the least recently used ones above the limit; returns how many were closed."""
        in_order = sorted(self.all(), key=lambda one: one.used_at)
        excess, closed = len(in_order) - most_open(settings), 0
        for one in in_order:
            unused = now - one.used_at
            is_idle = unused >= 60 * settings.idle_minutes and (one.used_at == UNUSED or not one.tending.is_watching)
            if (is_idle or (closed < excess and unused >= RECENT_SECONDS)) and self.close_one(one):
                closed += 1
        self._garbage += closed
        if self._garbage >= COLLECT_AFTER:
            self._garbage = 0
            gc.collect()
            give_memory_back()
        return closed

    def close_one(self, one: Opened) -> bool:
        """Close a workspace unless it is needed. Calls for it wait until it is closed."""
        place = one.workspace.layout.git_dir
        with self.opening(place):
            if one.holds or one.is_busy or one.workspace.id in self._followed_ids():
                return False
            with self._lock:
                if self._open.get(place) is not one or one.holds:
                    return False
                del self._open[place]
            one.close()
        log.info("closed", extra={"workspace": one.workspace.id, "path": place})
        return True

    def close(self) -> None:
        """Close every workspace, even if one fails to close. No workspace is opened afterwards."""
        with self._lock:
            self.is_closed = True
        for one in self.take(lambda one: True):
            one.close()

    def _followed_ids(self) -> set[str]:
        found: Iterable[Collection[str]] = (ids() for ids in self._followed)
        return {id for ids in found for id in ids}


def most_open(settings: Settings) -> int:
    """Maximum number of open workspaces; lower if the process has few file descriptors."""
    return min(settings.open_workspaces, max(1, process.limit() // FILES_EACH))


def quietly(close: Callable[[], object]) -> None:
    """Close a workspace or a part of one; errors are only logged."""
    try:
        close()
    except Exception:
        log.exception("a workspace did not close")


class ClosedSync:
    """Checks the closed workspaces of a daemon in turn, one in each `step`."""

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon
        self._last = ""
        """The id of the workspace that was checked last."""

    def step(self) -> float:
        """Sync the next closed workspace if its remote has changed; returns the seconds until the next step."""
        daemon = self._daemon
        opened = {one.id for one in daemon.opened()}
        entries = daemon.registry.current().entries
        closed = sorted(id for id, one in entries.items() if (one.path or one.remote) and id not in opened)
        if not closed:
            return EVERY_SECONDS
        self._last = next((id for id in closed if id > self._last), closed[0])
        self.sync(entries[self._last])
        return max(LEAST_SECONDS, EVERY_SECONDS / len(closed))

    def sync(self, entry: Entry) -> bool:
        """Sync a closed workspace if its remote has changed; returns whether it was opened.

        It is closed again as soon as its changes are published and indexed.
        """
        daemon = self._daemon
        try:
            layout = daemon.places.find(entry) if entry.path else daemon.clones.found(entry)
            if layout is None or not any(self._has_changed(layout, entry, one) for one in remotes(layout)):
                return False
            with daemon.open_workspaces.holding():
                workspace = daemon.workspace(entry.id)
                daemon.syncing(workspace).sync()
            if (opened := daemon.open_workspaces.get(layout.git_dir)) and not opened.holds:
                opened.used_at = UNUSED
            return True
        except (KgdError, GitFailed, OSError) as error:
            logging.getLogger("kgd.sync").warning(
                "not synced", extra={"workspace": entry.id, "reason": f"{error}"[:300]}
            )
            return False

    def _has_changed(self, layout: Layout, entry: Entry, remote: Remote) -> bool:
        """Whether a round with this remote would move anything."""
        if remote.seconds == 0 or entry.sync == 0:
            return False
        store = ObjectStore(layout.git_dir, layout.work_tree)
        patience = self._daemon.registry.current().settings.remote_seconds
        network = network_of(credential_of(remote, layout, entry), patience=patience)
        theirs = GitRemote(remote.url, store, network).ls(remote.ref).get(remote.ref)
        tip = refs.value_of(layout.git_dir, refs.HEAD)
        if theirs == tip or tip is None:
            return False
        has_it = theirs is not None and store.exists(theirs) and store.is_ancestor(theirs, tip)
        return not (has_it and remote.direction == "pull")
