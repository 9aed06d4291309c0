"""Revocations that survive the restoration of an older backup of the database that several hubs share.

Each revocation is also listed in the upstream of the token's workspace (`kgd.sync.revocations`). A hub reads this list
before it accepts the first token for a workspace, and again after the database was restarted or replaced. It then
revokes the listed tokens in the database.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from kgd.errors import KgdError, NotFound, Unavailable
from kgd.model.access import Principal
from kgd.postgres.database import Database
from kgd.postgres.hub_state import PostgresHubState
from kgd.sync import revocations

if TYPE_CHECKING:
    from kgd.daemon.syncing import Syncing
    from kgd.workspace.workspace import Workspace

log = logging.getLogger("kgd.hubs")


class Revocations:
    """The lists of the workspaces of one hub. Safe for threads.

    Args:
        open: Returns an open workspace by its id. Raises NotFound.
    """

    def __init__(self, database: Database, open: Callable[[str], tuple[Workspace, Syncing]]) -> None:
        self._database, self._open = database, open
        self._state = PostgresHubState(database)
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._read: dict[str, int] = {}
        """The era of the database in which the list of each workspace was read."""
        self.unwritten: set[str] = set()
        """Workspaces whose lists lack a revocation."""

    def refresh(self, holder: Principal) -> bool:
        """Read the lists of a token's workspaces if necessary, and revoke the listed tokens. Returns whether a list was
        read; the token may then have been revoked.

        Raises:
            Unavailable: A list could not be read.
        """
        stale = [id for id in _workspaces(holder) if self._read.get(id) != self._database.era]
        for id in stale:
            with self._locks[id]:
                if self._read.get(id) != self._database.era:
                    self._exchange(id)
        return bool(stale)

    def record(self, gone: Collection[str]) -> None:
        """Add revoked tokens to the lists of their workspaces.

        Raises:
            Unavailable: A list could not be written.
        """
        found = [record.holder for id in gone if (record := self._state.find(id))]
        for id in sorted({id for holder in found for id in _workspaces(holder)}):
            with self._locks[id]:
                try:
                    self._exchange(id)
                    reason = "" if id not in self.unwritten else "the upstream refused it"
                except KgdError as error:
                    reason = error.message
            if reason:
                raise Unavailable(
                    f"the token is revoked, but the upstream has no record of it: {reason}",
                    at=id,
                    next="Revoke it again once the upstream accepts pushes; until then, do not restore a backup.",
                )

    def _exchange(self, id: str) -> None:
        try:
            workspace, syncing = self._open(id)
        except NotFound:  # only other hubs serve this workspace
            return
        if (remote := syncing.upstream) is None or workspace.read_only:
            return
        era, now, ends = self._database.era, int(time.time()), self._state.ends_of_sign_ins()
        known = [one for one in self._state.all() if id in _workspaces(one.holder)]
        revoked = {  # a sign-in could be renewed until it ends
            one.holder.id: ends.get(one.holder.id, int(one.holder.expires or 0)) for one in known if one.revoked
        }
        try:
            listed = revocations.exchange(workspace, syncing.transport(remote.name), revoked, now)
            self.unwritten.discard(id)
        except revocations.Unwritten as error:
            log.warning("a revocation is not in the upstream", extra={"workspace": id, "reason": str(error)[:300]})
            listed = error.listed
            self.unwritten.add(id)
        except KgdError as error:
            raise Unavailable(
                f"the list of revoked tokens cannot be read: {error.message}",
                at=id,
                next="Repeat the call once the upstream can be reached.",
            ) from error
        # Only tokens of this workspace: a person who can push to its upstream must not end others.
        for token in sorted({one.holder.id for one in known if not one.revoked} & listed.keys()):
            self._state.revoke(token, now)
            log.warning("a restored token was revoked again", extra={"workspace": id, "token": token})
        self._read[id] = era


def _workspaces(holder: Principal) -> set[str]:
    return {scope.workspace for scope in holder.scopes}
