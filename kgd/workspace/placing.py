"""This file is where one publication is carried out: a plan, git's own index lock, the files, the branch, the index.

The order makes every moment recoverable. The new index is complete, and the plan durable, before the lock is taken; the
lock is a second name of that index, so it is provably ours; files are placed only under it; the branch moves after
them; and the lock becomes the index at last. Whoever finds the lock after a crash goes on from there.
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
from kgd.workspace import git_state
from kgd.workspace.adoption import Host
from kgd.workspace.aside import FORMER_INDEX, Aside, Placement, Plan
from kgd.workspace.git_state import Signature
from kgd.workspace.hand_edits import HandEdits
from kgd.workspace.recovery import INDEX
from kgd.workspace.work_tree import Found, Odd, WorkTree, is_owned

BRANCH_DEADLINE = 1.0
"""Seconds for which a lock of the branch is waited for that somebody took in this moment: the index is locked."""


class Blocked(Exception):
    """Publication has to wait; the text says for what. `stuck`: for somebody to do something."""

    def __init__(self, reason: str, *, stuck: bool = False) -> None:
        super().__init__(reason)
        self.stuck = stuck


class Done(NamedTuple):
    """What git's files look like after a publication, and what it cost."""

    signature: Signature
    seconds: float
    held: float


class Placing:
    """Carries out publications of one work tree, one at a time, for the publication's thread."""

    def __init__(
        self, host: Host, tree: WorkTree, aside: Aside, edits: HandEdits, at_step: Callable[[str], None]
    ) -> None:
        self._store, self._tree, self._aside, self._edits = host.store, tree, aside, edits
        self._unpublished = edits.unpublished
        self._at_step = at_step
        self._git_dir, self._derived, self._branch = host.layout.git_dir, host.layout.derived_dir, host.layout.branch

    def publish(self, found: Signature, before: ObjectId, after: ObjectId) -> Done:
        """Let branch, index and work tree go from `before` to `after`. `found` is what git's files say now.

        After an exception either nothing moved, and what was placed is known as ours, or the lock still stands and
        `kgd.workspace.recovery` finishes it. An expected reason to wait is `Blocked`.
        """
        began = time.monotonic()
        files, passed = self._divide(before, after)
        mine, lock = self._derived / INDEX, self._git_dir / "index.lock"
        staged = self._prepare_index(mine, [*files, *passed], before, after)
        plan = self._aside.begin(before, after, files)
        try:
            self._prepare_files(plan)
            for path in staged:
                self._unpublished.passed(path, self._store.entry(self._store.tree_of(before), path))
            for file in passed:
                self._unpublished.passed(file.path, file.base)
            self._at_step("prepared")
            with contextlib.suppress(OSError):  # none there, or on another file system
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
            self._give_up(mine, lock, plan)
            raise Blocked("a git command is running in the work tree") from None
        except (Odd, refs.RefMoved) as error:
            self._give_up(mine, lock, plan)
            raise Blocked(str(error)) from None
        except (Blocked, KgdError, OSError):
            self._give_up(mine, lock, plan)
            raise
        ended = time.monotonic()
        mine.unlink()
        self._aside.end(plan)
        for file in files:
            if file.path not in left and file.path not in staged:
                self._edits.placed(file.path, file.old, file.new)
        self._at_step("done")
        return Done(Signature(found.head, after, stamp, ()), ended - began, ended - locked)

    def _divide(self, before: ObjectId, after: ObjectId) -> tuple[list[Placement], list[Placement]]:
        """What to place, and what has to be published past because a person's version of it waits.

        Also placed is what was changed back before it was ever published: the two commits agree about it, and the work
        tree holds something else.
        """
        files: list[Placement] = []
        passed: list[Placement] = []
        unsettled: list[str] = []
        same = self._unpublished.lying()
        for path, old, new in self._store.diff(self._store.tree_of(before), self._store.tree_of(after)):
            same.pop(path, None)
            there = self._tree.look(path)
            file = self._placement(path, old, new)
            known = there.id in (old, new) or self._unpublished.is_known(path, there)
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
        """Write the index that will be; the paths in it that a person staged and that stay so."""
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
        """Write them before the lock is taken: under it only names are exchanged."""
        for number, file in enumerate(plan.files):
            if file.new is not None and self._tree.look(file.path).id != file.new:
                self._tree.prepare(self._store.read(file.new), plan.slot(number))

    def _place(self, plan: Plan) -> set[str]:
        """Exchange the files; the paths that were left, because somebody saved them since they were looked at.

        What is saved in the moment between this look and the exchange is swapped out and found aside.
        """
        left = set()
        for number, file in enumerate(plan.files):
            slot, there = plan.slot(number), self._tree.look(file.path)
            if there.odd:  # it was none when the plan was made: the disk failed, or somebody is at work there
                raise Blocked(f"{file.path}: {there.odd}")
            if there.id not in file.known:
                self._unpublished.passed(file.path, file.base)
                self._edits.hint([file.path])
                left.add(file.path)
            elif file.new is None:
                self._tree.take_away(file.path, slot)
            elif slot.exists():
                self._tree.place(file.path, slot)
            self._at_step("placed")
        return left

    def _give_up(self, mine: Path, lock: Path, plan: Plan) -> None:
        """Leave nothing half done: what was placed is known as ours; a branch that has moved gets its index."""
        if same_file(mine, lock) and self._store.ref(self._branch) == plan.after:
            return  # the next pass finishes it
        if same_file(mine, lock):
            lock.unlink()
        mine.unlink(missing_ok=True)
        for file in plan.files:
            if self._tree.look(file.path).id == file.new:
                self._unpublished.lies(file.path, file.new)
        self._aside.end(plan, given_up=any(self._unpublished.ids(file.path) for file in plan.files))
