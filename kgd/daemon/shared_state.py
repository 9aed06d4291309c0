"""The state that several hubs share through PostgreSQL, and the workspaces whose upstreams decide (see
`kgd.workspace.writing.writer.CommitPoint`)."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path

from kgd.daemon.revocations import Revocations
from kgd.daemon.syncing import PROPOSALS, Syncing
from kgd.errors import KgdError, NotFound, Unavailable
from kgd.git.remote_settings import Remote
from kgd.index.hub_state import SqliteHubState
from kgd.model.token import AuditEntry, Moved
from kgd.postgres.browser_state import PostgresBrowserState
from kgd.postgres.database import Database
from kgd.postgres.hub_state import PostgresHubState, take_over
from kgd.postgres.job_board import JobBoard
from kgd.postgres.proposals import PostgresProposals
from kgd.postgres.wakeups import Wakeups
from kgd.sync.upstream_commit import Connection, UpstreamCommit
from kgd.sync.upstream_proposals import UpstreamProposals
from kgd.workspace.proposals import shared
from kgd.workspace.workspace import Workspace

ROUNDS_KEY_LENGTH = 32
TURN_SECONDS = 3.5
"""Longest wait for another hub that makes a proposal."""
ALONE = "this workspace has no upstream; hubs with shared state write only to workspaces that have one"

log = logging.getLogger("kgd.hubs")


class SharedState:
    """One hub's part of the shared state. Safe for threads.

    Args:
        url: The URL of the database. name: The name of this hub, the same after a restart.

    Raises:
        Invalid, Unavailable: As in `Database`.
    """

    def __init__(self, url: str, name: str = "") -> None:
        self._database = Database(url)
        self.job_board = JobBoard(self._database, name)
        self._wakeups: Wakeups | None = None
        self._revocations: Revocations | None = None
        self.rounds_key = self._database.key("rounds", secrets.token_bytes(ROUNDS_KEY_LENGTH))
        """Seals the state that an MCP client carries from one hub to another between two rounds of questions."""

    def hub_state(self) -> PostgresHubState:
        return PostgresHubState(self._database)

    def revocations(self, open: Callable[[str], tuple[Workspace, Syncing]]) -> Revocations:
        """`open` returns an open workspace by its id."""
        self._revocations = Revocations(self._database, open)
        return self._revocations

    def browser_state(self) -> PostgresBrowserState:
        return PostgresBrowserState(self._database)

    def listen(self, moved: Callable[[str, str], object]) -> None:
        """Call `moved` with a workspace id and its new tip after another hub wrote it, or with `PROPOSALS`."""
        self._wakeups = Wakeups(self._database, moved)

    def adopt(self, workspace: Workspace, syncing: Syncing) -> None:
        """Let the upstream decide about this workspace's new commits, once the existing ones have been synced. Until it
        has an upstream, writes are refused.

        Raises:
            Unavailable: PostgreSQL cannot be reached.
        """
        if workspace.read_only:
            return
        workspace.share_seal(partial(self._database.key, f"seal {workspace.id}"))
        syncing.is_shared = True
        if remote := syncing.upstream:
            for answer in syncing.sync(remote.name):
                if answer.error:
                    log.warning("no upstream", extra={"workspace": workspace.id, "reason": str(answer.error)[:200]})

        def upstream() -> tuple[Remote, Connection]:
            if (remote := syncing.upstream) is None:
                raise Unavailable(ALONE, at=workspace.id, next="Run `kgd remote add` on the hub's machine.")
            return remote, syncing.transport(remote.name)

        assert self._wakeups is not None
        wakeups, id = self._wakeups, workspace.id
        workspace.commit_at(
            UpstreamCommit(
                workspace, upstream, turn=partial(wakeups.turn, id), moved=lambda tip: wakeups.tell(id, tip.hex())
            )
        )
        proposals = UpstreamProposals(
            workspace,
            upstream,
            PostgresProposals(self._database),
            turn=lambda: self._database.lock(f"proposals {id}", TURN_SECONDS),
            tell=lambda: wakeups.tell(id, PROPOSALS),
        )
        shared.share(workspace, proposals)
        syncing.share_proposals(proposals.refresh)

    @property
    def is_reachable(self) -> bool:
        """Whether PostgreSQL answers. Blocks for at most five seconds."""
        try:
            self._database.check()
        except KgdError:
            return False
        return True

    def degraded(self) -> list[str]:
        """Problems of the shared state, one sentence each."""
        found = []
        try:
            self._database.check()
        except KgdError as error:
            found.append(f"shared state: {error}")
        if self._wakeups and not self._wakeups.is_listening.is_set():
            found.append("shared state: other hubs' changes arrive only with the regular sync")
        for id in sorted(self._revocations.unwritten if self._revocations else ()):
            found.append(f"shared state: the upstream of {id} has no record of a revoked token; revoke it again")
        return found

    def close(self) -> None:
        if self._wakeups:
            self._wakeups.close()
        self.job_board.close()
        self._database.close()


def move(path: Path, url: str, clock: Callable[[], float]) -> tuple[Moved, str]:
    """Move a hub's state from its file into PostgreSQL. Returns the counts of this call, and the name of the database.

    Raises:
        NotFound: There is no file.
        InvariantViolation, Unavailable, Invalid, Damaged, Forbidden: As in `take_over` and `SqliteHubState`.
    """
    if not path.exists():
        raise NotFound("this home has no tokens to move", at=str(path))
    state = SqliteHubState(path, even_moved=True)
    try:
        database = Database(url)
        try:
            moved = state.hand_over(partial(take_over, database), database.name)
            if moved != Moved():
                said = f"{moved.tokens} tokens, {moved.answers} answers and {moved.lines} lines of the audit log"
                PostgresHubState(database).note(AuditEntry(int(clock()), "", "migrate", "", said))
            return moved, database.name
        finally:
            database.close()
    finally:
        state.close()
