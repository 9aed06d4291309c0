"""Publication of a bare workspace: keeps its branch at the tip, and merges commits that were pushed to the branch."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from kgd.config import git_own_file
from kgd.errors import KgdError
from kgd.git import layout, ref_repair, refs
from kgd.git.files import replace, sync_file_system
from kgd.shared_threads import Task
from kgd.workspace.answers import InvalidFile, Stage
from kgd.workspace.publishing import adoption
from kgd.workspace.publishing.adoption import Host
from kgd.workspace.publishing.publication import DEBOUNCE, POLL, PUBLISHED, THREADS, read_published
from kgd.workspace.writing.writer import Staged

log = logging.getLogger(__name__)


class BranchPublication:
    """Keeps the branch of a bare workspace and its tip in step until `stop`. There are no files, so none is watched.

    Takes the arguments of `Publication`.
    """

    def __init__(
        self, host: Host, *, clock: Callable[[], float] = time.time, in_place: Callable[[], bool] = lambda: True
    ) -> None:
        self._host, self._store, self._clock, self._in_place = host, host.store, clock, in_place
        self._git_dir, self._branch, self._derived = host.layout.git_dir, host.layout.branch, host.layout.derived_dir
        self._published = read_published(host)
        self._stage = Stage("publish")
        self._is_stopped = False
        self._task = Task(THREADS, self._step, gap=DEBOUNCE)
        self._task.wake()

    def hint(self, changed: Iterable[str] | None = None) -> None:
        """Report that the branch may have moved."""
        self._task.wake()

    def wake(self) -> None:
        """Report that the tip moved."""
        self._task.wake()

    def settle(self) -> bool:
        """Return True: there are no files that a person could have saved."""
        return True

    def confirm_deletions(self) -> None:
        """Do nothing: there are no files that could be missing."""

    @property
    def scan_seconds(self) -> float:
        return 0.0

    def invalid_files(self) -> tuple[InvalidFile, ...]:
        return ()

    def health(self) -> tuple[Stage, ...]:
        return (self._stage,)

    @property
    def is_in_step(self) -> bool:
        """Whether the branch is at the tip."""
        return self._published == bytes.fromhex(self._host.tip)

    def stop(self) -> None:
        """Publish once more, and end."""
        if not self._is_stopped:
            self._is_stopped = True
            self._task.close()
            self._step()

    def _step(self) -> float:
        before = self._stage
        try:
            if self._in_place():
                self._pass()
                self._stage = Stage("publish", "ok", self._clock())
        except Exception as error:
            if not isinstance(error, KgdError | OSError | refs.RefMoved):
                log.exception("a publication failed")
            since = before.since if before.blocker and before.since else self._clock()
            self._stage = Stage("publish", "blocked", before.last_success, f"{error}"[:300], since)
        return POLL

    def _pass(self) -> None:
        host = self._host
        if refs.value_of(self._git_dir, refs.HEAD) != bytes.fromhex(host.tip):
            host.run(lambda staging, tip: Staged[object](None))  # the writer checks the ref before each job
        if refs.value_of(self._git_dir, self._branch) is None:
            ref_repair.repair(host.layout, {})
        branch, tip = refs.value_of(self._git_dir, self._branch), bytes.fromhex(host.tip)
        if branch is not None and branch != self._published and not self._store.is_ancestor(branch, tip):
            sync_file_system(self._git_dir)  # git does not flush its loose objects
            by = layout.person(host.layout, git_own_file())
            host.run(adoption.adopt(host, self._published, branch, by, int(self._clock())), alone=True)
            tip = bytes.fromhex(host.tip)
        if branch != tip:
            refs.move_ref(self._git_dir, self._derived, self._branch, branch, tip, note="kgd: publish")
        if tip != self._published:
            self._published = tip
            replace(self._derived / PUBLISHED, tip.hex().encode(), flush=False)
