"""The upstream of a workspace that several hubs share: its ref decides about commits, and it keeps the proposals.

`UpstreamCommit` implements `kgd.workspace.writing.writer.CommitPoint`, and `UpstreamProposals` `SharedProposals`. A
proposal is a ref below ``refs/kgd/pending/``, which a plain clone does not fetch. The ref leads to a *record*: a
commit that names the proposer, whose first parent is the proposed commit, and whose second parent is the record before
it. A record is sealed with the key that the hubs share, so a record that another program made does not prove ownership.

A hub copies the refs of the upstream, and then the proposed commits to ``refs/heads/proposals/``. A proposal that
exists only there was made before the hubs shared the workspace, and is added to the upstream.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol

from kgd.errors import KgdError, Unavailable
from kgd.git.objects import ObjectId, Signature, trailers
from kgd.git.refs import PENDING, PROPOSALS, RefMoved, RefUpdate, delete_refs, list_refs, move_ref, read_log
from kgd.git.remote_errors import LostRace, Trouble
from kgd.git.remote_settings import Remote
from kgd.git.rewriting import brought_back
from kgd.git.staging import KGD, Staging
from kgd.sync.round import REMEMBERED, Transport
from kgd.sync.vetting import vet
from kgd.workspace.proposals import records
from kgd.workspace.proposals.decided import Decision, acceptance, accepted, archive, rejected
from kgd.workspace.proposals.proposals import free_name, is_name
from kgd.workspace.proposals.records import Rejection
from kgd.workspace.publishing.adoption import Host
from kgd.workspace.workspace import Workspace
from kgd.workspace.writing.writer import Overruled, Undecided

if TYPE_CHECKING:
    from kgd.postgres.hub_state import PostgresProposals

DECIDED = ("refused", "credentials", "host-key", "certificate", "redirect", "vanished", "ownership", "protocol")
"""Kinds of trouble after which the upstream certainly has not accepted a push, and will not."""
RACE = "race"
TRIES = 3


class Connection(Transport, Protocol):
    """The calls to a shared upstream; implemented by `kgd.git.remote.GitRemote`."""

    def push(self, ref: str, old: ObjectId | None, new: ObjectId, also: Sequence[RefUpdate] = ()) -> str | None: ...
    def delete(self, ref: str, old: ObjectId) -> None: ...


Upstream = Callable[[], tuple[Remote, Connection]]
"""Returns the remote, and the connection to it with its current credential. Raises Unavailable."""


class UpstreamCommit:
    """Implements `CommitPoint`. One instance serves one open workspace.

    Args:
        turn: Lets hubs take turns, or does nothing.
        moved: Called after this hub moved the ref, to wake the others.
    """

    def __init__(
        self,
        host: Host,
        upstream: Upstream,
        *,
        turn: Callable[[], AbstractContextManager[object]],
        moved: Callable[[ObjectId], object],
    ) -> None:
        self._host, self._upstream = host, upstream
        self.turn, self._moved = turn, moved

    @contextmanager
    def advance(self, old: ObjectId, new: ObjectId, also: Sequence[RefUpdate] = ()) -> Iterator[tuple[ObjectId, bool]]:
        with ExitStack() as held:
            yield self._decide(old, new, also, held) if new != old else (held.enter_context(self.newest()), False)

    def _decide(
        self, old: ObjectId, new: ObjectId, also: Sequence[RefUpdate], held: ExitStack
    ) -> tuple[ObjectId, bool]:
        """The ref's value after an attempt to move it to `new`, and whether the attempt succeeded."""
        expected, has = old, self._host.store.is_ancestor
        for _ in range(TRIES):
            trouble = self._push(expected, new, also)
            if trouble is None:
                self._moved(new)
                return new, True
            if trouble.kind in DECIDED:
                raise trouble
            try:
                expected = held.enter_context(self.newest())
            except KgdError as error:
                raise (error if trouble.kind == RACE else unknown(error)) from None
            if trouble.kind != RACE:
                if has(new, expected):
                    return expected, True
                raise unknown(trouble)
            if expected == new or not has(expected, new):
                return expected, False
            self._check(also)
            # The upstream lacks only commits of this hub: from before hubs shared it, or since a backup was restored.
        raise Unavailable("the upstream's ref could not be locked", next="Repeat the call.")

    def _check(self, also: Sequence[RefUpdate]) -> None:
        """Raise Overruled if a ref of a refused push no longer has its old value."""
        _, transport = self._upstream()
        for one in also:
            if transport.ls(one.name).get(one.name) != one.old:
                raise Overruled(one.name)

    def _push(self, old: ObjectId, new: ObjectId, also: Sequence[RefUpdate]) -> Trouble | None:
        """Why the ref may not have moved to `new`; None if it has."""
        remote, transport = self._upstream()
        try:
            taken_as = transport.push(remote.ref, old, new, also)
        except LostRace as lost:
            return Trouble(RACE, str(lost))
        except Trouble as trouble:
            return trouble
        if taken_as:
            return Trouble(
                "refused",
                f"the upstream keeps this hub's pushes as proposals, such as {taken_as}",
                next="Give the hub's credential the right to push to the branch.",
            )
        return None

    @contextmanager
    def newest(self, told: ObjectId | None = None) -> Iterator[ObjectId]:
        host, (remote, transport) = self._host, self._upstream()
        ref = remote.ref
        # A reported commit that is missing here has to be fetched, so the upstream need not be asked for its tip first.
        tip = told if told and not host.store.exists(told) else transport.ls(ref).get(ref)
        if tip is None:
            raise Unavailable("the upstream has lost its branch", at=ref, next="Restore it from a backup.")
        if tip.hex() == host.tip:
            yield tip
            return
        with transport.fetch({ref: tip}) as incoming:
            tip = incoming.tips[ref]
            if not vet(incoming, tip, host.workspace, host.sharded):
                raise Unavailable("the upstream has an unrelated history", at=remote.url.text)
            if brought_back(incoming.with_ours(), tip, bytes.fromhex(host.tip)):
                raise Unavailable(
                    "the upstream removed a secret from its history, and this hub's copy still contains it",
                    at=remote.url.text,
                    next="Stop this hub, delete its copy of the workspace, and start it again (docs/forget.md).",
                )
            incoming.keep()
            yield tip


def unknown(error: KgdError) -> Undecided:
    """The error for a push with an unknown result."""
    return Undecided(
        f"it is not known whether the upstream has accepted the change: {error.message}",
        at=error.at,
        next="Repeat the call with the same request_id: the change is made only once.",
    )


BUSY_SECONDS = 45.0
"""Longest wait for another call of this hub to end."""
TOGETHER = 50
"""Maximum number of proposals in one fetch."""
RECORDS_READ = 1_000
"""Maximum number of records of one proposal that are searched for comments."""
NAME = "Kgd-Proposal"
"""The trailer of a record with the proposal's name."""
OF_ONE = (*REMEMBERED, "gone", "vanished", "other")
"""Kinds of trouble with one proposal. Any other kind means that the upstream cannot be used at all."""

log = logging.getLogger("kgd.hubs")


class UpstreamProposals:
    """One instance serves one open workspace.

    Args:
        turn: Returns a context in which no other hub makes a proposal.
        tell: Wakes the other hubs.
    """

    def __init__(
        self,
        workspace: Workspace,
        upstream: Upstream,
        known: PostgresProposals,
        *,
        turn: Callable[[], AbstractContextManager[object]],
        tell: Callable[[], object],
    ) -> None:
        self._workspace, self._upstream, self._known = workspace, upstream, known
        self._turn, self._tell = turn, tell
        self._lock = threading.RLock()
        self._prefix = f"{PENDING}{workspace.id}/"
        self._refused: dict[str, ObjectId] = {}
        """Records that cannot be used, by the names of their refs; they are not fetched again."""

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        with self._alone(), self._turn():
            self._copy()
            yield

    def refresh(self) -> None:
        with self._alone():
            self._copy()

    def put(self, name: str, commit: ObjectId, note: str) -> None:
        with self._alone():
            self._replace(name, commit, self._workspace.store.ref(self._prefix + name), note)
            with contextlib.suppress(KgdError):  # `_close` uses the number too
                # After the push: if a retry of a lost push gets the same name, only one of the two is made.
                self._known.use_number(self._workspace.id, name)
        self._tell()

    def comment(self, name: str, commit: ObjectId, note: str) -> None:
        with self._alone():
            self._copy()
            old = self._record_of(name, commit)
            try:
                self._replace(name, commit, old, self._workspace.store.commit(old).subject, note)
            except RefMoved:
                raise Overruled(name) from None
        self._tell()

    def comments(self, name: str) -> Sequence[tuple[str, int]]:
        store, found = self._workspace.store, list[tuple[str, int]]()
        record = store.ref(self._prefix + name)
        while record is not None and len(found) < RECORDS_READ and self._note(name, record):
            commit = store.commit(record)
            found.append((_body(commit.message), commit.author.time))
            record = commit.parents[1] if len(commit.parents) > 1 else None
        return [(note, at) for note, at in reversed(found) if note]

    def _replace(self, name: str, commit: ObjectId, old: ObjectId | None, note: str, comment: str = "") -> None:
        """Move a proposal to a new record, in the upstream first. Raises RefMoved if another hub was faster."""
        ref, staging = self._prefix + name, Staging(self._workspace.store, None)
        new = self._record(staging, name, commit, old, note, comment)

        def push() -> None:
            try:
                self._push(RefUpdate(ref, old, new))
            except Overruled:
                raise RefMoved(ref, None) from None

        staging.advance(self._workspace.derived_dir, ref, old, new, note, agree=push)

    def also(self, name: str, commit: ObjectId, staging: Staging, *, left: str) -> Sequence[RefUpdate]:
        old = self._record_of(name, commit)
        if not left:
            return (RefUpdate(self._prefix + name, old, None),)
        note = self._workspace.store.commit(old).subject
        return (RefUpdate(self._prefix + name, old, self._record(staging, name, commit, old, note, left)),)

    def remove(self, name: str, commit: ObjectId) -> None:
        with self._alone():
            self._push(RefUpdate(self._prefix + name, self._record_of(name, commit), None))
            archive(self._workspace, name, commit, accepted(self._workspace, name, commit))
            self._drop(name)
        self._tell()

    def reject(self, name: str, commit: ObjectId, by: str, reason: str, *, withdrawn: bool) -> str:
        id, workspace = commit.hex(), self._workspace
        with self.turn():
            old = self._record_of(name, commit)
            at = workspace.now()
            self._known.add_rejection(workspace.id, name, id, by, at, reason, withdrawn)
            try:
                self._push(RefUpdate(self._prefix + name, old, None))
            except Overruled:
                self._known.discard_rejection(workspace.id, name, id)
                raise
            kept = archive(workspace, name, commit, rejected(by, at, reason, withdrawn))
            self._drop(name)
        self._tell()
        return kept

    def rejection(self, name: str, commit: str) -> Rejection | None:
        found = self._known.rejection(self._workspace.id, name, commit)
        return Rejection(*found) if found else None

    def last_number(self, holder: str) -> int:
        return self._known.last_number(self._workspace.id, holder)

    def changed(self) -> None:
        try:
            self.refresh()
        except (KgdError, OSError) as error:
            log.warning("a decided proposal is still listed here", extra={"reason": str(error)[:200]})
        self._tell()

    # ---- the upstream

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=BUSY_SECONDS):
            raise Unavailable("the upstream is slow, and other proposals wait for it", next="Repeat the call.")
        try:
            yield
        finally:
            self._lock.release()

    def _push(self, update: RefUpdate) -> None:
        """Move one ref of the upstream.

        Raises:
            Overruled: Another hub moved it first.
            Undecided: The connection was lost, and the ref does not tell whether it was moved.
        """
        _, transport = self._upstream()
        ref, old, new = update
        try:
            for _ in range(TRIES):
                try:
                    if new is not None:
                        transport.push(ref, old, new)
                    elif old is not None:
                        transport.delete(ref, old)
                    return
                except LostRace:  # or only the lock, to a push that may fail
                    if transport.ls(ref).get(ref) != old:
                        break
            raise Overruled(ref)
        except Trouble as trouble:
            if trouble.kind in DECIDED:
                raise
            try:
                found = transport.ls(ref).get(ref)
            except KgdError as error:
                raise unknown(error) from None
            if found is None or found != new:
                raise unknown(trouble) from None

    def _copy(self) -> None:
        """Copy the upstream's refs to this hub."""
        there, git_dir = self._list(), self._workspace.layout.git_dir
        here = list_refs(git_dir, self._prefix)
        self._refused = {ref: tip for ref, tip in self._refused.items() if there.get(ref) == tip}
        try:
            self._add_own(there, here)
            new = [ref for ref, tip in there.items() if tip not in (here.get(ref), self._refused.get(ref))]
            if new:
                self._workspace.tell_uncommitted()  # a record may have a new comment only
            for first in range(0, len(new), TOGETHER):
                self._fetch({ref: there[ref] for ref in new[first : first + TOGETHER]}, here)
            if gone := here.keys() - there.keys():
                self._workspace.catch_up()  # an acceptance is in the commit that removed the ref
                for ref in gone:
                    self._close(ref.removeprefix(self._prefix), here[ref])
            self._show()
        except (OSError, RefMoved) as error:
            raise Unavailable(f"a proposal of another hub cannot be stored here: {error}"[:300]) from None

    def _list(self) -> dict[str, ObjectId]:
        remote, transport = self._upstream()
        there = transport.ls(remote.ref, self._prefix)
        there.pop(remote.ref, None)
        return {ref: tip for ref, tip in there.items() if is_name(ref.removeprefix(self._prefix))}

    def _fetch(self, wanted: Mapping[str, ObjectId], here: Mapping[str, ObjectId]) -> None:
        """Fetch records and move our refs to them. Records that cannot be used are left out."""
        workspace, (_, transport) = self._workspace, self._upstream()
        try:
            with transport.fetch(wanted) as incoming:
                for ref, tip in incoming.tips.items():
                    if not vet(incoming, tip, workspace.id, workspace.sharded) or not incoming.commit(tip).parents:
                        raise Trouble("refused", "the proposal shares no commit with this workspace", at=ref)
                incoming.keep()
                for ref, tip in incoming.tips.items():
                    move_ref(workspace.layout.git_dir, workspace.derived_dir, ref, here.get(ref), tip, note="kgd: copy")
        except Trouble as trouble:
            if trouble.kind not in OF_ONE:
                raise
            if len(wanted) > 1:
                for ref, tip in wanted.items():
                    self._fetch({ref: tip}, here)
                return
            log.warning("a proposal cannot be used", extra={"ref": next(iter(wanted)), "reason": str(trouble)[:200]})
            if trouble.kind in REMEMBERED:
                self._refused.update(wanted)

    # ---- records

    def _record(
        self, staging: Staging, name: str, commit: ObjectId, before: ObjectId | None, note: str, comment: str = ""
    ) -> ObjectId:
        """Stage the record of a proposal."""
        workspace = self._workspace
        tree, parents = workspace.store.tree_of(commit), [commit, *([before] if before else [])]
        body = f"{comment}\n\n" if comment else ""
        text = f"{' '.join(note.split())}\n\n{body}{NAME}: {name}\n"
        return workspace.seal.commit(staging, tree, parents, Signature(*KGD, workspace.now()), text)

    def _record_of(self, name: str, commit: ObjectId) -> ObjectId:
        """The record of a proposal. Raises Overruled if the proposal is at another commit, or gone."""
        record = self._workspace.store.ref(self._prefix + name)
        if record is None or self._proposed(record) != commit:
            raise Overruled(name)
        return record

    def _proposed(self, record: ObjectId) -> ObjectId:
        return self._workspace.store.commit(record).parents[0]

    def _note(self, name: str, record: ObjectId) -> str:
        """The origin in a record; empty if no hub of this workspace has made it for this name."""
        store = self._workspace.store
        commit = store.commit(record)
        is_ours = dict(trailers(commit.message)).get(NAME) == name and self._workspace.seal.is_on(store, record)
        return commit.subject if is_ours else ""

    # ---- this hub's own refs

    def _show(self) -> None:
        """Point the visible refs of the proposals at the commits that the fetched records name."""
        workspace = self._workspace
        git_dir, shown = workspace.layout.git_dir, list_refs(workspace.layout.git_dir, PROPOSALS)
        for ref, record in list_refs(git_dir, self._prefix).items():
            name = ref.removeprefix(self._prefix)
            old, new = shown.get(PROPOSALS + name), self._proposed(record)
            if old != new:
                note = self._note(name, record) or "kgd: from another hub"
                move_ref(git_dir, workspace.derived_dir, PROPOSALS + name, old, new, note=note)
                workspace.tell_uncommitted()

    def _close(self, name: str, record: ObjectId) -> None:
        """Follow a decision of another hub. Without one, the upstream was restored from a backup: put the proposal
        back."""
        workspace, commit = self._workspace, self._proposed(record)
        if rejection := self.rejection(name, commit.hex()):
            archive(workspace, name, commit, rejected(*rejection))
        elif made := acceptance(workspace, name, commit.hex()):
            archive(workspace, name, commit, made)
        elif workspace.holds(commit):
            archive(workspace, name, commit, Decision("accepted", "", workspace.now()))
        else:
            with contextlib.suppress(Overruled):
                self._push(RefUpdate(self._prefix + name, None, record))
            return
        self._known.use_number(workspace.id, name)
        self._drop(name)

    def _drop(self, name: str) -> None:
        git_dir = self._workspace.layout.git_dir
        names = (PROPOSALS + name, self._prefix + name)
        delete_refs(git_dir, {ref: id for ref in names if (id := self._workspace.store.ref(ref))})
        self._workspace.tell_uncommitted()

    def _add_own(self, there: Mapping[str, ObjectId], here: Mapping[str, ObjectId]) -> None:
        """Add the proposals from before the hubs shared the workspace. A name that another hub uses gets a number."""
        workspace, git_dir = self._workspace, self._workspace.layout.git_dir
        for ref, tip in list_refs(git_dir, PROPOSALS).items():
            name = ref.removeprefix(PROPOSALS)
            if self._prefix + name in here:
                continue
            lines = [line.note for line in read_log(git_dir, ref)]
            said = [line for line in lines if records.is_comment(line) or records.is_partial(line)]
            note = next((line for line in reversed(lines) if line not in said), "kgd: from before")
            if self._prefix + name in there:
                name = free_name(workspace, name.replace("/", "-"))
                move_ref(git_dir, workspace.derived_dir, PROPOSALS + name, None, tip, note=note)
                delete_refs(git_dir, {ref: tip})
            self.put(name, tip, note)
            for line in said:
                self._replace(name, tip, workspace.store.ref(self._prefix + name), note, line)


def _body(message: str) -> str:
    """The comment in the message of a record; empty if it has none."""
    parts = message.split("\n\n")
    return parts[1].strip() if len(parts) > 2 else ""
