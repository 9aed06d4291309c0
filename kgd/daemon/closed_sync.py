"""Sync of closed workspaces: checks their remotes periodically, and opens a workspace only if its remote has
changed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kgd.daemon.open_workspaces import UNUSED
from kgd.errors import KgdError
from kgd.git import refs
from kgd.git.program import GitFailed
from kgd.git.remote import GitRemote
from kgd.git.remote_settings import Remote, parse_stored, remotes
from kgd.git.store import ObjectStore
from kgd.sync.hub_sign_in import network_of

if TYPE_CHECKING:
    from kgd.config.registry import Entry
    from kgd.daemon.daemon import Daemon
    from kgd.git.layout import Layout

EVERY_SECONDS = 300.0
"""Seconds between two checks of the same closed workspace, if there are at most 100 of them."""
LEAST_SECONDS = 3.0
"""Minimum number of seconds between checks of two different closed workspaces."""

log = logging.getLogger("kgd.sync")


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
            log.warning("not synced", extra={"workspace": entry.id, "reason": f"{error}"[:300]})
            return False

    def _has_changed(self, layout: Layout, entry: Entry, remote: Remote) -> bool:
        """Whether a round with this remote would move anything."""
        if remote.seconds == 0 or entry.sync == 0:
            return False
        is_registered = bool(entry.remote) and parse_stored(layout, entry.remote) == remote.url
        token = remote.token or (entry.token if is_registered else "")
        store = ObjectStore(layout.git_dir, layout.work_tree)
        patience = self._daemon.registry.current().settings.remote_seconds
        theirs = GitRemote(remote.url, store, network_of(token, patience=patience)).ls(remote.ref).get(remote.ref)
        tip = refs.value_of(layout.git_dir, refs.HEAD)
        if theirs == tip or tip is None:
            return False
        has_it = theirs is not None and store.exists(theirs) and store.is_ancestor(theirs, tip)
        return not (has_it and remote.direction == "pull")
