"""Background sync of an open workspace: runs `kgd.sync.round` for each remote, in threads that all workspaces share.

A commit, a change in a watched directory or the remote's interval starts a round. The round's result is kept in a
`Machine` and shown by `kgd status`. A hub acknowledges a change once all its upstream remotes have it (`Upstream`).
"""

from __future__ import annotations

import contextlib
import logging
import random
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from kgd.config.entries import Entry
from kgd.daemon.history_check import HistoryCheck
from kgd.daemon.watch import Folder, Watch
from kgd.errors import Advice, Damaged, Do, KgdError, NotFound, Unavailable
from kgd.git import remote_settings
from kgd.git.files import inode
from kgd.git.objects import ObjectId
from kgd.git.remote import PATIENCE, GitRemote, Progress, repository_at
from kgd.git.remote_errors import Trouble
from kgd.git.remote_settings import Remote
from kgd.shared_threads import Task, Threads
from kgd.sync import round as rounds
from kgd.sync.hub_sign_in import credential_of, is_shared_by, network_of
from kgd.sync.remote_state import Machine, Now
from kgd.sync.round import Done
from kgd.workspace.answers import Stage
from kgd.workspace.proposals.deciding import archive_accepted
from kgd.workspace.workspace import Workspace

SETTLE = 0.003
"""Seconds during which commits are collected for one push, if there was no recent push."""
DEBOUNCE = 0.3
"""Seconds between two rounds started by commits."""
QUIET = 0.002
"""Seconds to wait after a watched directory changed; short, because reading its refs is cheap."""
BUSY_SECONDS = 60.0
"""Seconds that a call waits for a running round."""
CLOSE_SECONDS = 3.0
PROPOSALS = "proposals"
"""In a notification of another hub, instead of a new tip: proposals have changed."""

THREADS = Threads("kgd-sync", 12)
"""A round may wait for a slow remote, so there are more threads than the processors could use."""

_CHANCE = random.Random()
"""Source of jitter."""

log = logging.getLogger("kgd.sync")


@dataclass(slots=True)
class Answer:
    """The result of a round that a call requested."""

    machine: Machine
    done: Done = field(default_factory=Done)
    error: KgdError | None = None


class Syncing:
    """The remotes of one workspace, from `start` to `close`. Thread-safe.

    Args:
        entry: Returns the workspace's current registry entry.
    """

    def __init__(self, workspace: Workspace, entry: Callable[[], Entry | None]) -> None:
        self.workspace, self.entry = workspace, entry
        self.patience = PATIENCE
        """Seconds without progress after which an attempt is abandoned."""
        self.environment: Mapping[str, str] = {}
        """Environment of the user's session, which may differ from the daemon's; if empty, the daemon's is used."""
        self.is_shared = False
        """Whether the upstream decides about commits; see `kgd.workspace.writing.writer.CommitPoint`."""
        self.copy_proposals: Callable[[], object] = lambda: None
        """Copies the upstream's proposals, if hubs share them."""
        self.problem = ""
        self._registered: Entry | None = None
        self.stopping = threading.Event()
        self._lock = threading.Lock()
        self._runners: dict[str, _Runner] = {}
        self.scratch = workspace.layout.derived_dir / "sync"
        self.history = HistoryCheck(workspace, self._sources, self.retry)

    def start(self) -> None:
        """Start the background sync; an unreachable remote is not an error."""
        if self.workspace.read_only:
            return
        shutil.rmtree(self.scratch, ignore_errors=True)  # left by a killed daemon
        self.workspace.on_commit(lambda uris: self._wake())
        self.reload()
        self.history.start(whole=self.workspace.recovery.damaged)

    def reload(self, *, waiting: bool = False) -> None:
        """Read the list of remotes again; unchanged remotes continue.

        With `waiting` a new remote starts after its interval, because the caller runs its first round.
        """
        self._registered = self.entry()
        try:
            self._add_registered()
            wanted = {one.name: self._as_registered(one) for one in remote_settings.remotes(self.workspace.layout)}
            self.problem = ""
        except KgdError as error:
            self.problem = f"remotes: {error}"
            return
        with self._lock:
            if self.stopping.is_set():
                return
            ended = [self._runners.pop(n) for n, r in list(self._runners.items()) if wanted.get(n) != r.machine.remote]
            begun = [_Runner(self, one) for name, one in wanted.items() if name not in self._runners]
            for one in begun:
                one.machine.next_at += one.machine.interval(time.monotonic()) if waiting else 0.0
            self._runners |= {one.machine.remote.name: one for one in begun}
        for one in ended:
            one.close()
        for one in begun:
            one.start()

    def follow(self) -> None:
        """Reload the remotes if the registry entry changed. If the entry is unchanged, this costs one comparison."""
        if self.entry() != self._registered and not self.workspace.read_only:
            self.reload()

    def machines(self) -> list[Machine]:
        return [one.machine for one in self._all()]

    def sync(
        self, name: str | None = None, *, direction: str = "both", confirm: str = "", progress: Progress | None = None
    ) -> list[Answer]:
        """Run a round with one remote or all, once a running round has ended. `progress` is called from another
        thread with the steps of each transfer.

        Raises:
            NotFound: There is no such remote, or there are no remotes.
        """
        chosen = [one for one in self._all() if name in (None, one.machine.remote.name)]
        if not chosen:
            if name is not None:
                remote_settings.remote(self.workspace.layout, name)
            raise NotFound(
                "this workspace has no remote",
                next=Advice(
                    Do("share"),
                    " publishes it to the remote of this repository, ",
                    Do("remote", action="add", name="NAME", url="URL"),
                    " to another.",
                ),
            )
        return [one.round(direction, confirm, by_hand=True, progress=progress) for one in chosen]

    def transport(self, name: str) -> GitRemote:
        """The connection to a remote, with its current credential. Raises NotFound."""
        runner = self._runners.get(name)
        if runner is None:
            raise NotFound(f"there is no remote '{name[:60]}'")
        return runner.transport()

    @property
    def upstream(self) -> Remote | None:
        """The first remote that this workspace pushes to."""
        return found.remote if (found := self.upstream_machine) else None

    @property
    def upstream_machine(self) -> Machine | None:
        """The state of the sync with the upstream."""
        return next((one.machine for one in self._all() if one.machine.remote.direction != "pull"), None)

    def wake(self, tip: ObjectId | None = None, *, proposals: bool = False) -> None:
        """Follow the upstream, since another hub moved it (to `tip`, if that is known), or changed its proposals."""
        upstream = self.upstream
        if upstream and (runner := self._runners.get(upstream.name)):
            runner.changed_by_hub(tip, proposals)

    def share_proposals(self, copy: Callable[[], object]) -> None:
        """Call `copy` now, and whenever the upstream's proposals may have changed."""
        self.copy_proposals = copy
        self.wake(proposals=True)

    @property
    def is_waiting(self) -> bool:
        """Whether a round is running, or commits wait to be pushed."""
        return any(one.is_waiting for one in self._all())

    def retry(self) -> None:
        """Start rounds now, because the cause of the last failure may be gone."""
        for one in self._all():
            one.retry_now()

    def is_cloned(self, name: str) -> bool:
        """Whether a plain ``git clone`` of this remote checks out a branch; see `GitRemote.point_head`."""
        runner = self._runners.get(name)
        return runner is None or runner.is_cloned()

    def stages(self) -> tuple[Stage, ...]:
        """The stages fetch and push of each remote, with its name if there are several."""
        machines = self.machines()
        several = len(machines) > 1
        return tuple(stage for one in machines for stage in one.stages(f" {one.remote.name}" if several else ""))

    def degraded(self) -> list[str]:
        return [one for one in (self.problem, self.history.problem) if one]

    def close(self) -> None:
        """End every round and kill its git program. Unpushed commits are pushed after the next start."""
        self.stopping.set()
        self.history.close()
        for one in self._all():
            one.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def _all(self) -> list[_Runner]:
        with self._lock:
            return [self._runners[name] for name in sorted(self._runners)]

    def _sources(self) -> list[tuple[Remote, GitRemote]]:
        return [(one.machine.remote, one.transport()) for one in self._all()]

    def _wake(self) -> None:
        for one in self._all():
            one.committed()

    def _as_registered(self, one: Remote) -> Remote:
        """The remote with the interval from the registry."""
        entry = self._registered
        if entry is None or entry.sync is None or not is_shared_by(entry, self.workspace.layout, one):
            return one
        return replace(one, seconds=entry.sync)

    def credential(self, one: Remote) -> str:
        """The reference of a remote's credential."""
        return credential_of(one, self.workspace.layout, self.entry())

    def is_registered(self, one: Remote) -> bool:
        """Whether the registry shares the workspace through this remote, which `reload` then adds if it is missing."""
        entry = self.entry()
        return entry is not None and bool(entry.path) and is_shared_by(entry, self.workspace.layout, one)

    def _add_registered(self) -> None:
        """Add the registry's remote to the repository, if it is missing."""
        entry, layout = self._registered, self.workspace.layout
        if entry is None or not entry.path or not entry.remote:
            return
        if not any(is_shared_by(entry, layout, one) for one in remote_settings.remotes(layout)):
            url = remote_settings.parse_stored(layout, entry.remote)
            remote_settings.add(layout, Remote("origin", url, entry.ref or layout.branch))


class _Runner:
    """The rounds of one remote."""

    def __init__(self, syncing: Syncing, remote: Remote) -> None:
        self._syncing, self.machine = syncing, Machine(remote, near=remote.is_hub_of(syncing.workspace.id))
        self.machine.moved_at = self.machine.next_at = time.monotonic()
        self._busy = threading.Lock()
        self._stopping = threading.Event()
        self._commit = self._rung = self._proposals = False
        self._told: ObjectId | None = None
        self._last = 0.0
        self._remote: GitRemote | None = None
        self._progress: Progress | None = None
        self._watch: tuple[Watch, int] | None = None
        self._task = Task(THREADS, self._step)

    def start(self) -> None:
        self._task.wake()

    def committed(self) -> None:
        """Start a round soon after a local commit; the delay collects further commits. Called by the writer."""
        if self._decides:  # the upstream has the commit already
            return
        self._commit = True
        self._task.wake(max(SETTLE, self._last + DEBOUNCE - time.monotonic()))

    def close(self) -> None:
        self._stopping.set()
        self._task.close(CLOSE_SECONDS)
        if self._watch:
            self._watch[0].close()

    def round(self, direction: str, confirm: str, *, by_hand: bool, progress: Progress | None = None) -> Answer:
        if not self._busy.acquire(timeout=BUSY_SECONDS):
            raise Unavailable(
                "a sync with this remote is running",
                at=self.machine.remote.name,
                next=Advice("Ask again in a moment; ", Do("status"), " shows its progress."),
            )
        self._progress = progress
        try:
            return self._round(direction, confirm, by_hand)
        finally:
            self._progress = None
            self._busy.release()
            self._task.wake()  # plan the next round by this result, and watch a directory that is there again

    def is_cloned(self) -> bool:
        with self._busy, contextlib.suppress(KgdError):
            return self.transport().point_head(self.machine.remote.ref)
        return True

    @property
    def is_waiting(self) -> bool:
        machine = self.machine
        if self._busy.locked():
            return True
        if machine.remote.direction == "pull" or machine.remote.seconds == 0 or self._decides:
            return False
        workspace = self._syncing.workspace
        return workspace.has_committed if machine.theirs is None else machine.theirs.hex() != workspace.tip

    @property
    def _decides(self) -> bool:
        """Whether this is the upstream that decides about commits."""
        return self._syncing.is_shared and self.machine.remote == self._syncing.upstream

    def _catch_up(self, told: ObjectId | None = None, *, proposals: bool, tip: bool = True) -> None:
        with contextlib.suppress(KgdError):  # the regular round reports it
            if tip:
                self._syncing.workspace.catch_up(told)
        if proposals:
            try:
                self._syncing.copy_proposals()
            except KgdError as error:
                log.warning("the proposals of other hubs were not copied", extra={"reason": str(error)[:200]})

    def _round(self, direction: str, confirm: str, by_hand: bool) -> Answer:
        machine, syncing = self.machine, self._syncing
        now, answer = Now(time.time(), time.monotonic()), Answer(machine)
        if by_hand:
            machine.refused.clear()
        if self._decides:  # first, so that the round does not hold back what the other hubs already serve
            self._catch_up(proposals=True)
        try:
            transport = self.transport()
            answer.done = rounds.run(
                syncing.workspace,
                machine.remote,
                transport,
                direction=direction,
                confirm=confirm,
                chance=_CHANCE,
                sleep=self._stopping.wait,
                refused=machine.refused,
                done=answer.done,
            )
            machine.record_success(answer.done, now, _CHANCE)
            if answer.done.pulled or answer.done.withdrawn:
                archive_accepted(syncing.workspace, machine.remote.name, answer.done.withdrawn)
            if answer.done.proposals or answer.done.withdrawn:
                syncing.workspace.tell_uncommitted()
            if answer.done.pulled or answer.done.pushed:
                log.info(
                    "synced",
                    extra={
                        "workspace": syncing.workspace.id,
                        "remote": machine.remote.name,
                        "pulled": answer.done.pulled,
                        "pushed": answer.done.pushed,
                    },
                )
        except (KgdError, OSError) as error:
            known = error if isinstance(error, KgdError) else Unavailable(f"disk error: {error.strerror}")
            answer.error = known
            if isinstance(known, Damaged) or (isinstance(known, Trouble) and known.kind in rounds.REMEMBERED):
                syncing.history.start(whole=True)
            if not (isinstance(known, Trouble) and known.kind == "stopped"):
                machine.record_failure(known, answer.done.stage, now, _CHANCE)
                log.warning(
                    "sync failed",
                    extra={
                        "workspace": syncing.workspace.id,
                        "remote": machine.remote.name,
                        "reason": str(known)[:300],
                    },
                )
        except Exception as defect:
            log.exception("a sync failed with a defect")
            answer.error = Unavailable(f"a defect in kgd: {defect!r}"[:200])
            machine.record_failure(answer.error, answer.done.stage, now, _CHANCE)
        return answer

    def transport(self) -> GitRemote:
        syncing, remote = self._syncing, self.machine.remote
        network = network_of(
            syncing.credential(remote),
            environment=syncing.environment,
            patience=syncing.patience,
            stop=self._stopping,
            progress=self._progress,
        )
        self._remote = self._remote or GitRemote(remote.url, syncing.workspace.store, network)
        self._remote.network = network
        return self._remote

    # ---- in the background

    def _step(self) -> float | None:
        """Run a round if one is due; seconds until the next, None if only an event starts it."""
        if self._stopping.is_set():
            return None
        self._attempt()
        self._update_watch()
        seconds = self.machine.next_at - time.monotonic()
        is_by_hand = self.machine.remote.seconds == 0 or seconds == float("inf")
        return None if is_by_hand else max(0.0, min(seconds, 3600.0))

    def _attempt(self) -> None:
        machine = self.machine
        due = time.monotonic() >= machine.next_at
        committed, self._commit = self._commit, False
        rung, self._rung = self._rung, False
        told, self._told = self._told, None
        proposals, self._proposals = self._proposals, False
        asked = (rung or committed or proposals) and machine.wake(time.monotonic())
        if machine.remote.seconds == 0 or not (due or asked):
            return
        if not rung and not proposals and not due and machine.theirs == bytes.fromhex(self._syncing.workspace.tip):
            return  # the commit is the remote's own, and was just merged
        self._last = time.monotonic()
        with self._busy:
            if (rung or proposals) and not due and self._decides:
                self._catch_up(told, proposals=proposals, tip=rung)
                return
            self._round(machine.remote.direction, "", by_hand=False)

    def retry_now(self) -> None:
        """Start a round after the cause of the last failure was repaired."""
        self.machine.refused.clear()
        self.machine.next_at = time.monotonic()
        self._task.wake(SETTLE)

    def changed_by_hub(self, tip: ObjectId | None, proposals: bool) -> None:
        if proposals:
            self._proposals = True
        else:
            self._told, self._rung = tip or self._told, True
        self._task.wake(SETTLE)

    def changed_there(self, changed: frozenset[str] | None) -> None:
        self._rung = True
        self._task.wake(SETTLE)

    def _update_watch(self) -> None:
        """Watch a remote in a local directory; start a new watch if the directory was replaced."""
        directory = self.machine.remote.url.directory
        git_dir = repository_at(directory) if directory is not None else None
        place = inode(git_dir) if git_dir else 0
        if self._watch and self._watch[1] != place:
            self._watch[0].close()
            self._watch = None
        if git_dir is not None and self._watch is None and not self._stopping.is_set():
            folders = [Folder(git_dir, recursive=False), Folder(git_dir / "refs")]
            watch = Watch(folders, self.changed_there, rescan_seconds=600.0, quiet_seconds=QUIET)
            watch.start()
            watch.hint(None)  # there may be a change after the last round and before the watch
            self._watch = (watch, place)


SECONDS = 45.0
"""Seconds that a caller waits for a round to start and finish."""


class Upstream:
    """The remotes that a daemon's workspaces push to. Thread-safe.

    If several hubs share a workspace, each commit has been pushed before the writer acknowledges it.

    Args:
        syncing: Returns the sync of the workspace with this id.
    """

    def __init__(self, syncing: Callable[[str], Syncing]) -> None:
        self._syncing = syncing
        self._lock = threading.Lock()
        self._queues: dict[tuple[str, str], _Queue] = {}

    def push(self, workspace: str) -> None:
        """Return when every upstream has the workspace's tip; without upstreams, return at once.

        Raises:
            Unavailable: An upstream did not accept the tip. The change is kept and pushed later.
        """
        self._round(workspace, "both")

    def fetch(self, workspace: str) -> None:
        """Return when the workspace has the tips of its upstreams.

        Raises:
            Unavailable: An upstream could not be reached.
        """
        self._round(workspace, "pull")

    def _round(self, id: str, direction: str) -> None:
        syncing = self._syncing(id)
        if syncing.is_shared:
            if direction == "pull":
                syncing.workspace.catch_up()
            return
        if not any(one.remote.direction != "pull" for one in syncing.machines()):
            return
        with self._lock:
            queue = self._queues.setdefault((id, direction), _Queue())
        queue.run(lambda: _error_of(syncing.sync(direction=direction)))


class _Queue:
    """Rounds, one at a time; one of the waiting callers runs the next round for all."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._begun = self._done = 0
        self._error: KgdError | None = None

    def run(self, round: Callable[[], KgdError | None]) -> None:
        with self._changed:
            mine = self._begun + 1
            if not self._changed.wait_for(lambda: self._done >= mine or self._done == self._begun, SECONDS):
                raise Unavailable("the upstream is slow; the change is kept here and is pushed later")
            if self._done >= mine:
                if self._error:
                    raise self._error
                return
            self._begun += 1
        error: KgdError | None = Unavailable("the sync with the upstream was interrupted")
        try:
            error = round()
        except KgdError as known:
            error = known
        finally:
            with self._changed:
                self._done, self._error = self._begun, error
                self._changed.notify_all()
        if error:
            raise error


def _error_of(answers: Iterable[Answer]) -> KgdError | None:
    """The reason why an upstream does not have the workspace's tip; None if all have it."""
    for answer in answers:
        if answer.machine.remote.direction == "pull":
            continue
        waits = [wait for wait in answer.done.waits if wait.kind != "proposal"]
        if answer.error or waits:
            reason = answer.error.message if answer.error else waits[0].reason
            return Unavailable(
                f"it is kept here, but the upstream '{answer.machine.remote.name}' has not accepted it: {reason}"[:320],
                next="kgd pushes it as soon as possible; to check, repeat the call with the same request_id.",
            )
    return None
