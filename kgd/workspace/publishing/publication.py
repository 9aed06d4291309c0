"""Publication: bringing the workspace's tip to the branch, index and work tree, and a person's work into commits.

One pass is made at a time, in threads that all workspaces share. A pass first merges the person's commits and commits
their saved files. Only then does it publish, under git's own index lock and while no git command runs. A pass inspects
only the paths that hints or git's own files indicate; if there are none, it takes a dozen look-ups.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from kgd.config import git_own_file
from kgd.errors import KgdError, reason_of
from kgd.git import creation, index_file, integrity, layout, refs
from kgd.git.files import replace, same_file, sync_file_system, sync_folder
from kgd.git.objects import ObjectId
from kgd.shared_threads import Task, Threads
from kgd.workspace.answers import InvalidFile, Stage
from kgd.workspace.publishing import adoption, publish_steps
from kgd.workspace.publishing.adoption import Committed, Host
from kgd.workspace.publishing.flush_and_repair import Flusher, Healing, carry_out_restore
from kgd.workspace.publishing.hand_edits import HandEdit, HandEdits
from kgd.workspace.publishing.publication_plan import LateEdit, Placement, PlanFolder
from kgd.workspace.publishing.publish_steps import (
    INDEX,
    Blocked,
    Publisher,
    Signature,
    UserStaging,
    finish_interrupted,
    record_abandoned,
    record_placed,
)
from kgd.workspace.publishing.work_tree import Hurried, WorkTree, same_device
from kgd.workspace.writing.admission import check
from kgd.workspace.writing.writer import Staged

DEBOUNCE = 0.25
"""Seconds between two publications; at least three times the duration of the last one."""
LOCK_SHARE = 60
LOCK_SHARE_LARGE = 20
LARGE_INDEX = 4_000_000
"""The pause is also at least `LOCK_SHARE` times as long as the index lock was held, so that a person's command rarely
finds it taken. For an index of `LARGE_INDEX` bytes (50,000 files) the factor is lower, so that publications stay
frequent."""
PAUSE_LIMIT = 2.0
LOOK_PAUSE = 0.05
POLL = 1.0
"""Seconds between two checks of git's files if there is no hint, and from a person's git command to the next pass."""
DELETING_SECONDS = 2.0
"""Seconds that HEAD or refs may be missing before they are repaired, since deleting a repository removes them early."""
ACTIVITY_CAP = 5.0
"""Maximum seconds for which programs that refresh the index every second (prompts, editors) delay publication."""
FLUSHED_EDITS = 50
"""Maximum number of edited files that are flushed before they are committed. More at once are a checkout, which can be
repeated."""
LAST_FILES = 50_000
"""Files that a stop may look at, to publish once more; about a third of a second on a quiet machine."""
RESTORED_SHOWN = 60.0
SETTLE_SECONDS = 8.0
"""Maximum seconds that a caller of `settle` waits; longer than other programs delay publication."""
PUBLISHED = "published"
"""The file with the commit of the last publication."""

THREADS = Threads("kgd-publication", 6)

log = logging.getLogger(__name__)


class _Publication:
    """The base of both publications: it follows the refs, merges a moved branch, and reports stages."""

    def __init__(self, host: Host, clock: Callable[[], float], in_place: Callable[[], bool]) -> None:
        self._host, self._store, self._clock, self._in_place = host, host.store, clock, in_place
        self._git_dir, self._branch, self._derived = host.layout.git_dir, host.layout.branch, host.layout.derived_dir
        self._published: ObjectId | None = None
        """The commit of the branch when it was last in step; an ancestor of the tip."""
        self._stages: dict[str, Stage] = {}
        self._refused: tuple[ObjectId, KgdError] | None = None
        """The last commit of the branch that was refused, and the reason."""
        self._is_stopped = False
        self.wake: Callable[[], None] = lambda: None
        """Reports that the tip moved; does nothing while the publication is off."""
        self.invalid_files: Callable[[], tuple[InvalidFile, ...]] = tuple
        """Returns the unreadable files that wait in the work tree; none while the publication is off."""

    def health(self) -> tuple[Stage, ...]:
        """The stages. A publication that succeeded waits again as soon as the tip moves."""
        stages, done = dict(self._stages), self._stages["publish"]
        if done.state == "ok" and not self.is_in_step:
            stages["publish"] = Stage("publish", "waiting", done.last_success, about=done.about)
        return tuple(stages.values())

    @property
    def is_in_step(self) -> bool:
        """Whether the branch is at the tip."""
        return self._published == self._tip

    @property
    def refusal(self) -> KgdError | None:
        """Why the branch is not merged; None if it is, or if it was not refused. Reads the ref after a refusal."""
        refused = self._refused
        return refused[1] if refused and refs.value_of(self._git_dir, self._branch) == refused[0] else None

    @property
    def _tip(self) -> ObjectId:
        return bytes.fromhex(self._host.tip)

    def _follow_refs(self) -> None:
        """Make the writer follow a tip that was moved or removed by hand, and repair a lost branch."""
        if refs.value_of(self._git_dir, refs.HEAD) != self._tip:
            self._host.run(lambda staging, tip: Staged[object](None))  # the writer checks the ref before each job
        if refs.value_of(self._git_dir, self._branch) is None:
            integrity.repair(self._host.layout, {}, integrity.Report())

    def _take_over(self, branch: ObjectId) -> None:
        """Merge a branch that another process moved."""
        by = layout.person(self._host.layout, git_own_file())
        sync_file_system(self._git_dir)  # git does not flush its loose objects, so a power cut could lose them
        try:
            self._host.run(adoption.adopt(self._host, self._published, branch, by, int(self._clock())), alone=True)
        except KgdError as refusal:
            self._refused = branch, refusal
            raise
        self._refused = None

    def _set_published(self, commit: ObjectId) -> None:
        self._published = commit
        replace(self._derived / PUBLISHED, commit.hex().encode(), flush=False)

    def _block(self, name: str, reason: str, *, stuck: bool) -> None:
        before = self._stages[name]
        since = before.since if before.blocker and before.since else self._clock()
        state = "blocked" if stuck else "waiting"
        self._stages[name] = Stage(name, state, before.last_success, reason, since)

    def _succeed(self, name: str) -> None:
        self._stages[name] = Stage(name, "ok", self._clock())


class BranchPublication(_Publication):
    """Keeps the branch of a bare workspace and its tip in step until `stop`. There are no files, so none is watched.

    Takes the arguments of `Publication`.
    """

    def __init__(
        self, host: Host, *, clock: Callable[[], float] = time.time, in_place: Callable[[], bool] = lambda: True
    ) -> None:
        super().__init__(host, clock, in_place)
        self._stages["publish"] = Stage("publish")
        self._published = read_published(host)
        self._task = Task(THREADS, self._step, gap=DEBOUNCE)
        self.wake = self._task.wake
        self._task.wake()

    def hint(self, changed: Iterable[str] | None = None) -> None:
        """Report that the branch may have moved."""
        self._task.wake()

    def settle(self) -> bool:
        """Return True: there are no files that a person could have saved."""
        return True

    def confirm_deletions(self) -> None:
        """Do nothing: there are no files that could be missing."""

    @property
    def scan_seconds(self) -> float:
        return 0.0

    def stop(self) -> None:
        """Publish once more, and end."""
        if not self._is_stopped:
            self._is_stopped = True
            self._task.close()
            self._step()

    def _step(self) -> float:
        try:
            if self._in_place():
                self._pass()
                self._succeed("publish")
        except Exception as error:
            if not isinstance(error, KgdError | OSError | refs.RefMoved):
                log.exception("a publication failed")
            self._block("publish", f"{error}"[:300], stuck=True)
        return POLL

    def _pass(self) -> None:
        self._follow_refs()
        branch = refs.value_of(self._git_dir, self._branch)
        if branch is not None and branch != self._published and not self._store.is_ancestor(branch, self._tip):
            self._take_over(branch)
        tip = self._tip
        if branch != tip:
            refs.move_ref(self._git_dir, self._derived, self._branch, branch, tip, note="kgd: publish")
        if tip != self._published:
            self._set_published(tip)


class Publication(_Publication):
    """Keeps one work tree and the workspace in step until `stop`.

    Args:
        publish: False for tools that only read or write objects: the work tree is then neither changed nor inspected.
        in_place: Returns whether the folder of derived data is still the same as when it was opened.
        at_step: Called with the name of each step of a publication; tests stop the process there.
    """

    def __init__(
        self,
        host: Host,
        *,
        publish: bool = True,
        clock: Callable[[], float] = time.time,
        in_place: Callable[[], bool] = lambda: True,
        at_step: Callable[[str], None] = lambda name: None,
    ) -> None:
        super().__init__(host, clock, in_place)
        self._off = not publish
        self._stages = {name: Stage(name, "off" if self._off else "ok") for name in ("publish", "integrate")}
        if self._off:
            return
        self._last: Signature | None = None
        self._foreign_at = self._foreign_since = float("-inf")
        self._whole_at = time.monotonic()
        self._not_before = 0.0
        self._unsettled = False
        self._settling = threading.Condition()
        self._asked = self._answered = 0
        """The number of calls of `settle`, and of those whose pass has ended."""
        self._restored = ("", 0.0)
        self._restoring: list[str] = []
        self._unreadable: tuple[InvalidFile, ...] = ()
        try:
            self._prepare(at_step)
        except OSError as error:  # the disk is not writable: reads continue without publication
            self._off = True
            self._block("publish", f"the workspace cannot be written: {error.strerror}", stuck=True)
            return
        try:
            self._task = Task(THREADS, self._step, gap=LOOK_PAUSE)
        except RuntimeError:
            self._flusher.close()
            raise
        self.wake, self.invalid_files = self._follow_tip, self._edits.invalid_files
        self._task.wake()

    def _prepare(self, at_step: Callable[[str], None]) -> None:
        """Finish the work of a former process before anything reads the work tree."""
        host, scratch = self._host, _scratch(self._host.layout)
        self._tree = WorkTree(host.layout.work_tree, scratch)
        self._edits = HandEdits(self._store, self._tree, host.workspace, host.sharded, self._derived / "bases")
        self._unpublished = self._edits.unpublished
        self._staging = UserStaging(host.layout)
        self._plan_folder = PlanFolder(scratch / "aside")
        self._publisher = Publisher(host, self._tree, self._plan_folder, self._edits, at_step)
        finish_interrupted(host, self._tree, self._plan_folder, self._edits)
        self._restoring = [file.path for file in self._plan_folder.restoring]
        self._published = read_published(host)
        record_abandoned(host, self._tree, self._plan_folder, self._edits)
        record_placed(host, self._published, self._tip, self._tree, self._edits)
        self._healing = Healing(host, self._tree, self._plan_folder, self._edits)
        self._flusher = Flusher([host.layout.work_tree, self._git_dir], lambda: self._task.wake())

    # ---- any thread

    def _follow_tip(self) -> None:
        """Publish as soon as the pause since the last publication is over: a pass before that would find nothing to
        do."""
        self._task.wake(max(0.0, self._not_before - time.monotonic()))

    def hint(self, changed: Iterable[str] | None = None) -> None:
        """Report paths of the work tree or git directory that may have changed (absolute or relative); None means any
        path."""
        if self._off:
            return
        inside = map(self._relative, changed) if changed is not None else None
        self._edits.hint([path for path in inside if path is not None] if inside is not None else None)
        self._task.wake()

    def settle(self) -> bool:
        """Commit a person's saved files and merge their commits, and return whether that is done. A state that only a
        person can end counts as done."""
        if self._off or self._task.is_mine:
            return True
        with self._settling:
            self._asked += 1
            mine = self._asked
        self.hint()
        with self._settling:
            is_done = self._settling.wait_for(lambda: self._answered >= mine or self._is_stopped, SETTLE_SECONDS)
            self._answered = max(self._answered, mine)
        return is_done

    def confirm_deletions(self) -> None:
        """Confirm that the files whose deletion is held were deleted deliberately."""
        if not self._off:
            self._edits.confirm()
            self._task.wake()

    @property
    def scan_seconds(self) -> float:
        """CPU time of the last scan of all files."""
        return 0.0 if self._off else self._edits.scan_seconds

    @property
    def is_in_step(self) -> bool:
        """Whether the branch and the work tree are at the tip, or kgd does not update them."""
        return self._off or self._published == self._tip

    def stop(self) -> None:
        """Publish once more, if nothing blocks it and only a few files have changed, and end."""
        if self._off or self._is_stopped:
            return
        self._is_stopped = True
        self._tree.hurry(LAST_FILES)
        self._task.close()
        self._not_before = 0.0
        self._attempt()
        self._flusher.close()
        if self._plan_folder.unflushed and not self._healing.is_due:
            self._flusher.flush()
            self._plan_folder.flushed(self._flusher.until)
            with contextlib.suppress(OSError):
                sync_folder(self._plan_folder.folder)

    # ---- the pass

    def _step(self) -> float:
        asked = self._asked
        self._attempt(settle=asked > self._answered)
        if not self._unsettled and not self._staging.is_in_use:
            with self._settling:
                self._answered = max(self._answered, asked)  # a caller may have given up meanwhile
                self._settling.notify_all()
        return self._pause()

    def _pause(self) -> float:
        if self._asked > self._answered:
            return LOOK_PAUSE
        if self._unsettled or not self._plan_folder.is_empty:
            return 0.1
        due = self._not_before - time.monotonic()
        return min(POLL, due) if due > 0 else POLL

    def _attempt(self, *, settle: bool = False) -> None:
        try:
            self._pass(settle)
        except Blocked as wait:
            self._unsettled = self._unsettled or wait.is_brief
            self._block("publish", str(wait), stuck=wait.stuck)
        except Hurried:
            self._edits.hint(None)  # the files of this pass were not compared
            self._block("publish", "kgd is stopping; the next start publishes", stuck=False)
        except (KgdError, OSError, refs.RefMoved) as error:
            self._block("publish", reason_of(error)[:300], stuck=True)
        except Exception as defect:
            log.exception("a publication failed")
            self._block("publish", f"a defect in kgd: {defect!r}"[:300], stuck=True)
        else:
            self._stages["publish"] = Stage(
                "publish",
                "degraded" if self._flusher.failure else "ok",
                self._clock() if self.is_in_step else self._stages["publish"].last_success,
                self._flusher.failure,
                about=self._staging.about(),
            )
        if not self._healing.is_due:  # unflushed files may be damaged until they have been checked
            self._plan_folder.flushed(self._flusher.until)
            self._flusher.ask(max((plan.at for plan in self._plan_folder.unflushed), default=float("-inf")))

    def _pass(self, settle: bool) -> None:
        self._unsettled = False
        if not self._in_place():
            raise Blocked(f"{self._derived} was moved or removed; the next command reopens the workspace", stuck=True)
        if same_file(self._derived / INDEX, self._git_dir / "index.lock"):
            finish_interrupted(self._host, self._tree, self._plan_folder, self._edits)
        self._look_after_refs()
        found = publish_steps.signature(self._git_dir, self._branch)
        self._notice(found)
        if found.branch is not None and found.branch != self._published:
            self._adopt(found.branch)
        reason = publish_steps.busy(found, self._host.layout)
        if reason:
            raise Blocked(reason.reason, stuck=reason.stuck)
        if time.monotonic() - self._foreign_at < POLL and time.monotonic() - self._foreign_since < ACTIVITY_CAP:
            raise Blocked("a git command ran a moment ago")
        if found.stamp == (0, 0, 0):
            creation.fill_work_tree(self._host.layout)
            found = self._last = publish_steps.signature(self._git_dir, self._branch)
        self._look_at_index(found, settle)
        if self._healing.is_due:
            self._heal()
            found = self._last = publish_steps.signature(self._git_dir, self._branch)
            self._look_at_index(found, settle)
        self._commit_late()
        self._commit_saved(found, settle)
        is_behind = self._published != self._tip or bool(self._unpublished.differing())
        if is_behind or self._staging.is_in_use:
            self._staging.check()
        if is_behind and time.monotonic() >= self._not_before:
            self._publish(found)

    def _look_after_refs(self) -> None:
        """Make the writer follow a tip that was moved or removed by hand; repair a lost branch and a damaged HEAD."""
        if all((self._git_dir / name).exists() for name in ("HEAD", "refs")):
            self._whole_at = time.monotonic()
        elif time.monotonic() - self._whole_at < DELETING_SECONDS:
            raise Blocked(
                "HEAD or refs is missing: either the repository is being deleted, or kgd repairs it in a moment"
            )
        integrity.repair_head_file(self._host.layout)
        self._follow_refs()

    def _notice(self, found: Signature) -> None:
        """Detect a git command since the last pass, and rescan the files that it may have changed."""
        now = time.monotonic()
        if self._last is not None and found != self._last:
            only_index = found._replace(stamp=self._last.stamp) == self._last
            if now - self._foreign_at >= POLL or not only_index:
                self._foreign_since = now
            self._foreign_at = now
            self._edits.hint(None)
        self._last = found

    def _look_at_index(self, found: Signature, settle: bool) -> None:
        if self._staging.look(found, settle=settle):
            self._edits.hint(None)
        self._edits.left_out = self._staging.left_out

    def _heal(self) -> None:
        """Restore files that an unclean stop damaged, before they are mistaken for edits."""
        assert self._published is not None
        tree = self._store.tree_of(self._published)
        self._unpublished.set_published(tree)
        try:
            is_mended = self._healing.mend_index(self._published)
        except FileExistsError:
            raise Blocked("a git command is running in the work tree") from None
        if missing := self._edits.missing_folders(tree):
            self._restore(missing)
        files = self._healing.restore_files(self._published)
        if is_mended or files:
            done = f"{files} files were restored" + (", and the git index was repaired" if is_mended else "")
            self._restored = (f"after an unclean stop {done}", time.monotonic())
            self._edits.hint(None)

    # ---- a person's work

    def _adopt(self, branch: ObjectId) -> None:
        """Merge a branch that another process moved."""
        before = self._published
        # In this case kgd moved it: a process was killed before it recorded the move.
        is_in = self._store.is_ancestor
        is_ours = before is not None and is_in(before, branch) and is_in(branch, self._tip)
        self._take_over(branch)
        self._set_published(branch)
        self._edits.hint(None)
        if not is_ours:
            self._repair(before, branch)
        if before is not None:
            old, new = self._store.tree_of(before), self._store.tree_of(branch)
            self._host.run(adoption.sync_memories(self._host, old, new, int(self._clock())))
        self._succeed("integrate")

    def _repair(self, before: ObjectId | None, branch: ObjectId) -> None:
        """Merge the committed versions of files whose publication left the person's copy untouched."""
        if before is None or not self._unpublished.bases:
            return
        old, new = self._store.tree_of(before), self._store.tree_of(branch)
        for path, base in list(self._unpublished.bases.items()):
            ours, theirs = self._store.entry(old, path), self._store.entry(new, path)
            if ours != theirs:
                text = self._unpublished.text
                now = int(self._clock())
                self._host.run(adoption.restore_skipped(self._host, path, text(base), text(ours), text(theirs), now))
                self._unpublished.end_skip(path)

    def _commit_late(self) -> None:
        for late in self._plan_folder.late_edits():
            base = self._unpublished.text(late.base)
            try:
                check(late.path, late.data, base, self._edits.home)
            except KgdError:
                self._put_back(late)
                continue
            started_from = self._edits.started_from(late.path, late.data, base)
            taken = self._commit_edits([HandEdit(late.path, late.data, started_from)])
            if taken.refused:
                self._put_back(late)
            else:
                self._edits.buffers.note(late.path, None, late.data)
                self._plan_folder.done(late)

    def _put_back(self, late: LateEdit) -> None:
        """Put a person's unreadable file back into the work tree, where the person sees it."""
        assert self._published is not None
        published = self._store.entry(self._store.tree_of(self._published), late.path)
        if self._tree.look(late.path) == (published, ""):
            self._unpublished.skip(late.path, late.base)
            self._tree.prepare(late.data, back := late.slot.with_name(late.slot.name + ".back"))
            self._tree.place(late.path, back)
            self._edits.hint([late.path])
            self._plan_folder.done(late)
        else:
            self._plan_folder.keep(late)

    def _commit_saved(self, found: Signature, settle: bool) -> None:
        assert self._published is not None
        published, head = self._store.tree_of(self._published), self._store.tree_of(self._tip)
        self._unpublished.set_published(published)
        if self._restoring:
            self._restore(self._restoring)
        look = self._edits.look(published, head, settle=settle, holds=self._staging.holds)
        self._unsettled = look.unsettled
        if publish_steps.signature(self._git_dir, self._branch) != found:
            self._edits.hint(None)
            raise Blocked("a git command is running")
        if look.restore:
            self._restore(look.restore)
        if look.edits:
            for edit in look.edits[:FLUSHED_EDITS]:  # editors do not flush, and a lost edit would look like an undo
                self._tree.flush(edit.path)
            taken = self._commit_edits(look.edits)
            for path, error in taken.refused:
                self._edits.refuse(path, error)
            for edit in taken.edits:
                self._edits.committed(edit)
            if taken.edits:
                self._not_before = 0.0
        self._unpublished.save_edits()
        self._report_edits()

    def _commit_edits(self, edits: list[HandEdit]) -> Committed:
        by = layout.person(self._host.layout, git_own_file())
        answer = self._host.run(adoption.commit_edits(self._host, edits, by, int(self._clock())))
        assert isinstance(answer, Committed)
        return answer

    def _report_edits(self) -> None:
        if (unreadable := self._edits.invalid_files()) != self._unreadable:
            self._unreadable = unreadable
            self._host.tell_uncommitted()
        words, when = self._restored
        if self._edits.held:
            self._block("integrate", self._edits.held, stuck=True)
        elif words and time.monotonic() - when < RESTORED_SHOWN:
            self._stages["integrate"] = Stage("integrate", "ok", self._clock(), about=f"{words}; nothing is left to do")
        else:
            self._succeed("integrate")

    def _restore(self, missing: list[str]) -> None:
        """Restore a completely missing folder, which is treated as an accident and never as a deletion."""
        assert self._published is not None
        creation.link_work_tree(self._host.layout)
        if not self._tree.exists():
            raise Blocked(f"the work tree {self._host.layout.work_tree} is missing", stuck=True)
        tree = self._store.tree_of(self._published)

        def is_missing(path: str) -> bool:
            is_left_out = path in self._staging.left_out
            is_below = any(not at or path == at or path.startswith(at + "/") for at in missing)
            return is_below and not is_left_out and self._tree.look(path) == (None, "")

        absent = [Placement(path, None, id) for path, _, id in self._store.diff(None, tree) if id and is_missing(path)]
        if not absent:
            self._restoring = []
            return
        listed = index_file.entries(self._git_dir / "index", [file.path for file in absent])
        if not any(listed.values()):
            git = self._host.layout.git_command
            raise Blocked(
                f"the deletion of {missing[0] or 'everything'} is staged; `{git} commit` completes it, "
                f"`{git} reset --hard` undoes it",
                stuck=True,
            )
        plan = self._plan_folder.begin(self._published, self._published, absent)
        self._restoring = missing  # a file that is not yet restored is not deleted either
        for path in self._unpublished.paths():  # and this does not undo an edit
            if is_missing(path):
                self._unpublished.record_own(path, self._store.entry(tree, path))
        self._unpublished.save_edits()
        carry_out_restore(plan, self._plan_folder, self._tree, self._store)
        self._restoring = []
        what = "the work tree was" if missing == [""] else f"{missing[0]} was"
        self._restored = (
            f"{what} missing, which is not treated as a deletion; {len(absent)} files were restored",
            time.monotonic(),
        )
        log.warning("restored missing files", extra={"files": len(absent), "missing": missing[0] or "."})
        self._edits.hint(None)

    # ---- publishing

    def _publish(self, found: Signature) -> None:
        before, after = self._published, self._tip
        assert before is not None
        if held := publish_steps.locked(self._git_dir / f"{self._branch}.lock"):  # waiting would keep the index locked
            raise Blocked(held.reason, stuck=held.stuck)
        done = self._publisher.publish(found, before, after, self._staging.left_out)
        self._last = done.signature
        self._staging.published(done.signature)
        large = done.signature.stamp[2] > LARGE_INDEX
        share = LOCK_SHARE_LARGE * done.held if large else min(LOCK_SHARE * done.held, PAUSE_LIMIT)
        self._not_before = time.monotonic() + max(DEBOUNCE, 3 * done.seconds, share)
        self._set_published(after)  # after the pause has begun: a commit that follows must wait for its end
        self._unpublished.save_edits()

    # ---- inside

    def _relative(self, path: str) -> str | None:
        """The path below the work tree; None for the git directory, empty if a scan is needed."""
        root, path = str(self._host.layout.work_tree), os.fspath(path)
        if path == root or not path:
            return ""
        path = path.removeprefix(root + os.sep)
        if path == ".git" or path.startswith((".git/", str(self._git_dir))):
            return None
        return "" if os.path.isabs(path) else path


def read_published(host: Host) -> ObjectId | None:
    """The commit of the last publication; None if it is not known."""
    try:
        known = bytes.fromhex((host.layout.derived_dir / PUBLISHED).read_text())
    except (OSError, ValueError):
        return None
    return known if len(known) == 20 and host.store.exists(known) else None


def _scratch(place: layout.Layout) -> Path:
    """A private folder on the work tree's file system, so that files can be swapped between the two by renaming."""
    if same_device(place.derived_dir, place.work_tree):
        return place.derived_dir
    folder = place.work_tree / ".kgd-aside"
    folder.mkdir(exist_ok=True)
    (folder / ".gitignore").write_text("*\n")
    return folder
