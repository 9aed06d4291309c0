"""One publication, step by step: plan, index lock, files, branch, index; and finishing an interrupted one.

The order makes every moment recoverable. The new index is complete and the plan durable before the lock is taken. The
lock is a second link to that index, so it is provably kgd's. Files are placed only under the lock, the branch moves
after them, and the lock becomes the index last. After a crash, any process that finds the lock continues forward: files
with their new bytes would otherwise count as edits.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from kgd.errors import KgdError
from kgd.git import index_file, refs
from kgd.git.files import same_file
from kgd.git.objects import PLAIN, ObjectId
from kgd.git.refs import RefMoved, move_ref
from kgd.git.walk import Lookup
from kgd.workspace.publishing import git_state
from kgd.workspace.publishing.adoption import Host
from kgd.workspace.publishing.git_state import Signature
from kgd.workspace.publishing.hand_edits import HandEdits
from kgd.workspace.publishing.publication_plan import FORMER_INDEX, Placement, Plan, PlanFolder, finished
from kgd.workspace.publishing.work_tree import Found, Odd, WorkTree, is_owned

LOOKED_THROUGH = 1_000
"""Commits searched for a file's bytes, at a start after an abandoned publication."""
INDEX = "index.new"
"""The prepared index. A lock with the same inode is kgd's, in any process."""

BRANCH_DEADLINE = 1.0
"""Seconds to wait for a lock of the branch; short, because the index is locked meanwhile."""


class Blocked(Exception):
    """Publication must wait for the reason in the text. `stuck`: a person must act."""

    def __init__(self, reason: str, *, stuck: bool = False) -> None:
        super().__init__(reason)
        self.stuck = stuck


class Done(NamedTuple):
    """Git's files after a publication, and its cost in seconds."""

    signature: Signature
    seconds: float
    held: float


class Publisher:
    """Carries out publications of one work tree, in the publication's thread."""

    def __init__(
        self, host: Host, tree: WorkTree, plan_folder: PlanFolder, edits: HandEdits, at_step: Callable[[str], None]
    ) -> None:
        self._store, self._tree, self._plan_folder, self._edits = host.store, tree, plan_folder, edits
        self._unpublished = edits.unpublished
        self._at_step = at_step
        self._git_dir, self._derived, self._branch = host.layout.git_dir, host.layout.derived_dir, host.layout.branch

    def publish(self, found: Signature, before: ObjectId, after: ObjectId) -> Done:
        """Move branch, index and work tree from `before` to `after`. `found` is the current state of git's files.

        After an exception either nothing moved and the placed files are recorded, or the lock remains and
        `finish_interrupted` continues. `Blocked` is an expected reason to wait.
        """
        began = time.monotonic()
        files, passed = self._divide(before, after)
        mine, lock = self._derived / INDEX, self._git_dir / "index.lock"
        staged = self._prepare_index(mine, [*files, *passed], before, after)
        plan = self._plan_folder.begin(before, after, files)
        try:
            self._prepare_files(plan)
            for path in staged:
                self._unpublished.skip(path, self._store.entry(self._store.tree_of(before), path))
            for file in passed:
                self._unpublished.skip(file.path, file.base)
            self._at_step("prepared")
            with contextlib.suppress(OSError):  # it is absent, or on another file system
                os.link(self._git_dir / "index", plan.place / FORMER_INDEX)
            locked = time.monotonic()
            os.link(mine, lock)
            stamp = git_state.index_stamp(mine)
            self._at_step("locked")
            if git_state.signature(self._git_dir, self._branch) != found._replace(states=("index.lock",)):
                raise Blocked("a git command is at work")
            left = self._place(plan)
            refs.move_ref(
                self._git_dir, self._derived, self._branch, before, after, note="kgd: publish", deadline=BRANCH_DEADLINE
            )
            self._at_step("moved")
            os.rename(lock, self._git_dir / "index")
            self._at_step("indexed")
        except FileExistsError:
            self._abandon(mine, lock, plan)
            raise Blocked("a git command is running in the work tree") from None
        except (Odd, refs.RefMoved) as error:
            self._abandon(mine, lock, plan)
            raise Blocked(str(error)) from None
        except (Blocked, KgdError, OSError):
            self._abandon(mine, lock, plan)
            raise
        ended = time.monotonic()
        mine.unlink()
        self._plan_folder.end(plan)
        for file in files:
            if file.path not in left and file.path not in staged:
                self._edits.published(file.path, file.old, file.new)
        self._at_step("done")
        return Done(Signature(found.head, after, stamp, ()), ended - began, ended - locked)

    def _divide(self, before: ObjectId, after: ObjectId) -> tuple[list[Placement], list[Placement]]:
        """The files to place, and those to skip because a person's version waits there.

        A change that was reverted before it was published is placed too: the commits agree, but the work tree differs.
        """
        files: list[Placement] = []
        passed: list[Placement] = []
        unsettled: list[str] = []
        same = self._unpublished.differing()
        for path, old, new in self._store.diff(self._store.tree_of(before), self._store.tree_of(after)):
            same.pop(path, None)
            there = self._tree.look(path)
            file = self._placement(path, old, new)
            known = there.id in (old, new) or self._unpublished.is_committed(path, there)
            if known and not there.odd and not self._unpublished.is_undone(path, there):
                files.append(file)
            elif self._edits.may_pass(path) or not is_owned(path):
                passed.append(file)
            else:
                unsettled.append(path)
        files += [self._placement(path, blob, blob) for path, blob in same.items()]
        if unsettled:
            self._edits.hint(unsettled)
            raise Blocked(f"an edit of {unsettled[0]} is not settled yet")
        return files, passed

    def _placement(self, path: str, old: ObjectId | None, new: ObjectId | None) -> Placement:
        return Placement(path, old, new, self._unpublished.ids(path), self._unpublished.is_undone(path, Found(old)))

    def _prepare_index(self, mine: Path, files: list[Placement], before: ObjectId, after: ObjectId) -> list[str]:
        """Write the new index; return the paths that a person staged and that stay staged."""
        mine.unlink(missing_ok=True)
        trees = self._store.tree_of(before), self._store.tree_of(after)
        modes = {path: entry[0] for path, entry in self._store.changed_entries(*trees) if entry}
        replacements = [
            index_file.Replacement(
                f.path, f.known | {f.old} | self._edits.seen_before(f.path), f.new, modes.get(f.path)
            )
            for f in files
        ]
        try:
            return index_file.rewrite(self._git_dir / "index", mine, replacements)
        except index_file.Unmerged as error:
            raise Blocked(
                f"{error.path} is not merged yet; `git add` or `git checkout` it in the work tree", stuck=True
            ) from None
        except (index_file.DamagedIndex, FileNotFoundError):
            files_after = self._store.files(self._store.tree_of(after))
            index_file.build(mine, (entry for entry in files_after if entry.mode.startswith(PLAIN)))
            return []

    def _prepare_files(self, plan: Plan) -> None:
        """Write the files before the lock is taken; under it only names are exchanged."""
        for number, file in enumerate(plan.files):
            if file.new is not None and self._tree.look(file.path).id != file.new:
                self._tree.prepare(self._store.read(file.new), plan.slot(number))

    def _place(self, plan: Plan) -> set[str]:
        """Exchange the files; return the paths left alone because they were saved since the last look.

        A file saved between this look and the exchange is displaced and examined later.
        """
        left = set()
        for number, file in enumerate(plan.files):
            slot, there = plan.slot(number), self._tree.look(file.path)
            if there.odd:  # it was a plain file when the plan was made: the disk failed, or a program replaced it
                raise Blocked(f"{file.path}: {there.odd}")
            if there.id not in file.known:
                self._unpublished.skip(file.path, file.base)
                self._edits.hint([file.path])
                left.add(file.path)
            elif file.new is None:
                self._tree.take_away(file.path, slot)
            elif slot.exists():
                self._tree.place(file.path, slot)
            self._at_step("placed")
        return left

    def _abandon(self, mine: Path, lock: Path, plan: Plan) -> None:
        """After a failure, record the placed files; if the branch moved, let the next pass write its index."""
        if same_file(mine, lock) and self._store.ref(self._branch) == plan.after:
            return  # the next pass finishes it
        if same_file(mine, lock):
            lock.unlink()
        mine.unlink(missing_ok=True)
        for file in plan.files:
            if self._tree.look(file.path).id == file.new:
                self._unpublished.record_own(file.path, file.new)
        self._plan_folder.end(plan, is_abandoned=any(self._unpublished.ids(file.path) for file in plan.files))


def finish_interrupted(host: Host, tree: WorkTree, plan_folder: PlanFolder, edits: HandEdits) -> None:
    """Finish the newest plan if its lock remains, and remove kgd's temporary files. Idempotent.

    While the lock remained, no git command can have committed half-placed files. Unknown bytes are a person's: they
    stay and are examined later like any edit. A foreign lock is not touched.
    """
    git_dir, derived = host.layout.git_dir, host.layout.derived_dir
    mine, lock = derived / INDEX, git_dir / "index.lock"
    plan = plan_folder.load()
    if same_file(mine, lock):
        if plan and _roll_forward(host, plan, tree, edits):
            os.rename(lock, git_dir / "index")
            finished(plan)
        else:
            lock.unlink()
    mine.unlink(missing_ok=True)
    (derived / f"{INDEX}.lock").unlink(missing_ok=True)
    for part in tree.parts.glob("part-*"):
        part.unlink()


def record_abandoned(host: Host, tree: WorkTree, plan_folder: PlanFolder, edits: HandEdits) -> None:
    """Record the files of an abandoned publication as kgd's, and edits of them as based on it.

    This holds for later changes at the tip too, and for any commit that the person's branch moved to.
    """
    plan, store, branch = plan_folder.unfinished, host.store, host.store.ref(host.layout.branch)
    if plan is None or branch is None or not store.exists(plan.after) or store.is_ancestor(plan.after, branch):
        return
    published = Lookup(store.tree, store.tree_of(branch))
    is_lost = not store.is_ancestor(plan.after, bytes.fromhex(host.tip))  # the tip was reset to before it
    for file in plan.files:
        there, placed = tree.look(file.path), file.taken | {file.new}
        if is_lost and file.back:
            continue
        if there.odd or there.id == published.entry(file.path):
            continue
        if there.id in placed:
            edits.unpublished.record_own(file.path, there.id)
        else:
            for blob in filter(None, placed):
                edits.buffers.note(file.path, None, edits.unpublished.text(blob))


def record_placed(host: Host, published: ObjectId | None, tip: ObjectId, tree: WorkTree, edits: HandEdits) -> None:
    """Record files that a former process placed and then failed to publish.

    They match a version between the published commit and the tip, which only kgd can have written there. Only files
    that match neither commit are searched for, in case the plan is gone.
    """
    store = host.store
    if published is None or published == tip:
        return
    unknown: dict[str, ObjectId] = {}
    for path, old, new in store.diff(store.tree_of(published), store.tree_of(tip)):
        found = tree.look(path).id
        if found is not None and found not in (old, new):
            unknown[path] = found
    waiting, seen = [tip], {published}
    while unknown and waiting and len(seen) < LOOKED_THROUGH:
        commit = waiting.pop(0)
        if commit in seen:
            continue
        seen.add(commit)
        known = store.commit(commit)
        waiting += known.parents
        files = Lookup(store.tree, known.tree)
        for path in [path for path, blob in unknown.items() if files.entry(path) == blob]:
            edits.unpublished.record_own(path, unknown.pop(path))


def _roll_forward(host: Host, plan: Plan, tree: WorkTree, edits: HandEdits) -> bool:
    """Complete a plan; whether the branch is at its new commit."""
    branch = host.store.ref(host.layout.branch)
    if branch == plan.after:
        return True
    if branch != plan.before:
        return False
    try:
        for number, file in enumerate(plan.files):
            _place(host, file, tree, edits, plan, number)
        move_ref(host.layout.git_dir, host.layout.derived_dir, host.layout.branch, plan.before, plan.after)
    except (OSError, Odd, RefMoved, KgdError):
        for file in plan.files:
            if tree.look(file.path).id == file.new:
                edits.unpublished.record_own(file.path, file.new)
        return False
    return True


def _place(host: Host, file: Placement, tree: WorkTree, edits: HandEdits, plan: Plan, number: int) -> None:
    there = tree.look(file.path)
    if there.odd:
        raise Odd(file.path, there.odd)
    if there.id not in file.known:
        edits.unpublished.skip(file.path, file.base)
    elif there.id != file.new:
        slot = plan.place / f"{number}.again"
        if file.new is None:
            tree.take_away(file.path, slot)
        else:
            tree.prepare(host.store.read(file.new), slot)
            tree.place(file.path, slot)
