"""The state that several hubs share through PostgreSQL, and the workspaces whose upstreams decide (see
`kgd.workspace.writing.writer.CommitPoint`).

Revocations survive the restoration of an older backup of the database. Each revocation is also listed in the upstream
of the token's workspace, under ``refs/kgd/revoked``. A hub reads this list before it accepts the first token for a
workspace, and again after the database was restarted or replaced. It then revokes the listed tokens in the database.
Each token is a file with its expiry; expired tokens are dropped. The list has no secrets.
"""

from __future__ import annotations

import contextlib
import logging
import re
import secrets
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path

from kgd.daemon.syncing import PROPOSALS, Syncing
from kgd.errors import KgdError, NotFound, Unavailable
from kgd.git.incoming import Allowance, measure
from kgd.git.objects import ObjectId, Signature
from kgd.git.refs import REVOKED, RefMoved
from kgd.git.remote_errors import LostRace
from kgd.git.remote_settings import Remote
from kgd.git.staging import KGD, Staging
from kgd.git.store import ObjectStore
from kgd.index.hub_state import SqliteHubState
from kgd.model.access import Principal
from kgd.model.token import AuditEntry, Moved
from kgd.postgres.database import Database, JobBoard, Wakeups
from kgd.postgres.hub_state import PostgresBrowserState, PostgresHubState, PostgresProposals, take_over
from kgd.sync.round import Transport
from kgd.sync.upstream import Connection, UpstreamCommit, UpstreamProposals
from kgd.workspace.proposals import records
from kgd.workspace.workspace import Workspace

ROUNDS_KEY_LENGTH = 32
TURN_SECONDS = 3.5
"""Longest wait for another hub that makes a proposal."""
ALONE = "this workspace has no upstream; hubs with shared state write only to workspaces that have one"

log = logging.getLogger("kgd.hubs")


class SharedState:
    """One hub's part of the shared state. Thread-safe.

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
        records.share(workspace, proposals)
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


TRIES = 20
_PATH = re.compile(r"[0-9A-Za-z]{2}/[0-9A-Za-z]{6}").fullmatch
LARGEST = 32
"""The largest file in bytes."""
LIMITS = Allowance(objects=1_000_000, bytes=64 << 20, blob=LARGEST, tree=8 << 20)


class Revocations:
    """The lists of the workspaces of one hub. Thread-safe.

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
            listed = exchange(workspace, syncing.transport(remote.name), revoked, now)
            self.unwritten.discard(id)
        except Unwritten as error:
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


def exchange(host: Workspace, transport: Transport, ours: Mapping[str, int], now: int) -> dict[str, int]:
    """Add revoked tokens to the upstream's list. Returns the whole list: expiry in Unix seconds by token id.

    Raises:
        Unwritten: The list was read, but not written.
        KgdError: The list could not be read.
    """
    for _ in range(TRIES):
        with contextlib.ExitStack() as held:
            tip = transport.ls(REVOKED).get(REVOKED)
            if tip is not None and tip != host.store.ref(REVOKED):
                incoming = held.enter_context(transport.fetch({REVOKED: tip}))
                measure(incoming, incoming.ids, LIMITS)
                incoming.keep()
            listed, known = _read(host.store, tip), _read(host.store, host.store.ref(REVOKED))
            # `known` has more than the upstream if the upstream was restored from a backup.
            missing = {id: at for id, at in {**known, **ours}.items() if id not in listed and at > now}
            if not missing and tip == host.store.ref(REVOKED):
                return listed
            try:
                made = _add(host, tip, missing, [id for id, at in listed.items() if at <= now], now)
                if made != tip:
                    transport.push(REVOKED, tip, made)
                return listed | missing
            except (LostRace, RefMoved):
                continue
            except (KgdError, OSError) as error:
                raise Unwritten(listed | missing, error) from error
    raise Unavailable("other hubs are revoking tokens", next="Revoke it again.")


class Unwritten(Unavailable):
    """The list was read, but not written. `listed` includes what could not be written."""

    def __init__(self, listed: dict[str, int], reason: Exception) -> None:
        super().__init__(f"the list of revoked tokens could not be written: {reason}")
        self.listed = listed


def _read(store: ObjectStore, tip: ObjectId | None) -> dict[str, int]:
    if tip is None:
        return {}
    found = {}
    for file in store.files(store.tree_of(tip)):
        content = store.read(file.id, LARGEST).strip()
        if _PATH(file.path) and content.isdigit():
            found[file.path.replace("/", "")] = int(content)
    return found


def _add(host: Workspace, tip: ObjectId | None, added: Mapping[str, int], dropped: list[str], now: int) -> ObjectId:
    """A commit on `tip` with these changes, or `tip` if nothing changes. Our ref protects it from git's garbage
    collection."""
    staging = Staging(host.store, host.store.tree_of(tip) if tip else None)
    staging.write({_path(id): b"%d\n" % expires for id, expires in added.items()})
    staging.write({_path(id): None for id in dropped})
    made = tip
    if staging.changed or made is None:
        parents = [tip] if tip else []
        made = staging.commit(staging.write_tree(), parents, Signature(*KGD, now), "revoked tokens")
    staging.advance(host.layout.derived_dir, REVOKED, host.store.ref(REVOKED), made, "kgd: revoked tokens")
    return made


def _path(id: str) -> str:
    return f"{id[:2]}/{id[2:]}"
