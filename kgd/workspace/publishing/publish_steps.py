"""One publication, step by step: plan, index lock, files, branch, index; and completing an interrupted publication.

The order of steps makes a crash at any moment recoverable. The new index is complete and the plan is durable before the
lock is taken. The lock is a second link to that index, which proves that the lock is kgd's. Files are placed only under
the lock, the branch moves after them, and finally the lock becomes the index. After a crash, any process that finds the
lock completes the publication: otherwise, kgd would mistake files with new bytes for edits.

Reading git's state in the work tree takes a dozen file look-ups and no program, so the cost of an idle pass does not
depend on the size of the workspace.

`UserStaging` follows the user's index: the changes that they staged, which kgd leaves alone for a while, and a sparse
checkout. `git add` and `git merge` write the index before the commit. If kgd moved the branch in between, git would
refuse the commit. So kgd neither commits staged files nor moves the branch until the user commits, or until nothing was
staged for `STAGED_SECONDS` and no git command runs: a person may stage files and forget them, and their edits must be
served.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import time
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kgd.errors import KgdError
from kgd.git import index_file, refs
from kgd.git.files import same_file
from kgd.git.layout import Layout
from kgd.git.objects import PLAIN, Entry, ObjectId
from kgd.git.refs import RefMoved, move_ref, read_ref
from kgd.git.walk import Lookup
from kgd.workspace.publishing.adoption import Host
from kgd.workspace.publishing.hand_edits import HandEdits
from kgd.workspace.publishing.publication_plan import FORMER_INDEX, Placement, Plan, PlanFolder, finished
from kgd.workspace.publishing.work_tree import Found, Hurried, Odd, WorkTree, is_owned

LOOKED_THROUGH = 1_000
"""Maximum number of commits searched for a file's bytes, at startup after an abandoned publication."""
INDEX = "index.new"
"""The prepared index. A lock with the same inode is kgd's, in any process."""

BRANCH_DEADLINE = 1.0
"""Seconds to wait for a lock of the branch; short, because the index is locked during the wait."""

LOCK_PATIENCE = 60.0
"""Age in seconds from which a lock of another program is reported, with the command that removes it. kgd never removes
such a lock."""

_HOW_TO_END = {
    "MERGE_HEAD": ("a merge", "merge --continue", "merge --abort"),
    "CHERRY_PICK_HEAD": ("a cherry-pick", "cherry-pick --continue", "cherry-pick --abort"),
    "REVERT_HEAD": ("a revert", "revert --continue", "revert --abort"),
    "rebase-merge": ("a rebase", "rebase --continue", "rebase --abort"),
    "rebase-apply": ("a rebase or `git am`", "rebase --continue", "rebase --abort"),
    "BISECT_LOG": ("a bisect", "", "bisect reset"),
    "sequencer": ("a cherry-pick of several commits", "cherry-pick --continue", "cherry-pick --abort"),
}


class Blocked(Exception):
    """Publication must wait, for the reason in the message. With `stuck` set, a person must act; with `is_brief`, it
    takes a moment."""

    def __init__(self, reason: str, *, stuck: bool = False, is_brief: bool = True) -> None:
        super().__init__(reason)
        self.stuck, self.is_brief = stuck, is_brief and not stuck


class Done(NamedTuple):
    """The state of git's files after a publication, and its duration in seconds."""

    signature: Signature
    seconds: float
    held: float


class Publisher:
    """Publishes to one work tree, in the publication's thread."""

    def __init__(
        self, host: Host, tree: WorkTree, plan_folder: PlanFolder, edits: HandEdits, at_step: Callable[[str], None]
    ) -> None:
        self._store, self._tree, self._plan_folder, self._edits = host.store, tree, plan_folder, edits
        self._unpublished = edits.unpublished
        self._at_step = at_step
        self._git_dir, self._derived, self._branch = host.layout.git_dir, host.layout.derived_dir, host.layout.branch
        self._index = index_file.Rewriter(self._git_dir / "index", self._derived / INDEX)

    def publish(self, found: Signature, before: ObjectId, after: ObjectId, left_out: Set[str] = frozenset()) -> Done:
        """Move branch, index and work tree from `before` to `after`. `found` is the current state of git's files, and
        `left_out` are the paths that a sparse checkout leaves out of the work tree: only the index follows there.

        After an exception, either nothing moved and the placed files are recorded, or the lock remains and
        `finish_interrupted` completes the publication. `Blocked` is an expected reason to wait.
        """
        began = time.monotonic()
        changes = list(self._store.changes(self._store.tree_of(before), self._store.tree_of(after)))
        files, passed, unplaced, absent = self._divide(changes, left_out)
        mine, lock = self._derived / INDEX, self._git_dir / "index.lock"
        modes = {path: new[0] for path, _, new in changes if new}
        staged = self._prepare_index(mine, [*files, *passed, *unplaced], modes, after, left_out)
        plan = self._plan_folder.begin(before, after, files, os.stat(mine).st_ino)
        try:
            self._prepare_files(plan, absent)
            for path in staged:
                self._unpublished.skip(path, self._store.entry(self._store.tree_of(before), path))
            for file in passed:
                self._unpublished.skip(file.path, file.base)
            self._at_step("prepared")
            with contextlib.suppress(OSError):  # it is absent, or on another file system
                os.link(self._git_dir / "index", plan.place / FORMER_INDEX)
            locked = time.monotonic()
            os.link(mine, lock)
            stamp = index_file.stamp(mine)
            self._at_step("locked")
            if signature(self._git_dir, self._branch) != found._replace(states=("index.lock",)):
                raise Blocked("a git command is running")
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
        except (Blocked, Hurried, KgdError, OSError):
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

    def _divide(
        self, changes: Iterable[tuple[str, Entry | None, Entry | None]], left_out: Set[str]
    ) -> tuple[list[Placement], list[Placement], list[Placement], set[str]]:
        """The files to place, those to skip because a person's version is waiting there, those that a sparse checkout
        leaves out, and the paths of those to place that do not have their new version yet.

        A change that was reverted before it was published is placed as well: the commits agree, but the work tree
        differs.
        """
        files: list[Placement] = []
        passed: list[Placement] = []
        unplaced: list[Placement] = []
        unsettled: list[str] = []
        same = self._unpublished.differing()
        absent = set[str]()
        for path, before, after in changes:
            old, new = before and before[1], after and after[1]
            same.pop(path, None)
            there = self._tree.look(path)
            if path in left_out and there == Found(None):
                unplaced.append(Placement(path, old, new))
                continue
            file = self._placement(path, old, new)
            known = there.id in (old, new) or self._unpublished.is_committed(path, there)
            if known and not there.odd and not self._unpublished.is_undone(path, there):
                files.append(file)
                if there.id != new:
                    absent.add(path)
            elif self._edits.may_pass(path) or not is_owned(path):
                passed.append(file)
            else:
                unsettled.append(path)
        files += [self._placement(path, blob, blob) for path, blob in same.items()]
        absent |= same.keys()
        if unsettled:
            self._edits.hint(unsettled)
            raise Blocked(f"an edit of {unsettled[0]} is not settled yet")
        return files, passed, unplaced, absent

    def _placement(self, path: str, old: ObjectId | None, new: ObjectId | None) -> Placement:
        return Placement(path, old, new, self._unpublished.ids(path), self._unpublished.is_undone(path, Found(old)))

    def _prepare_index(
        self, mine: Path, files: list[Placement], modes: Mapping[str, bytes], after: ObjectId, left_out: Set[str]
    ) -> list[str]:
        """Write the new index; return the paths that a person has staged, which stay staged. The paths `left_out` keep
        git's flag."""
        mine.unlink(missing_ok=True)
        replacements = [
            index_file.Replacement(
                f.path,
                f.known | {f.old} | self._unpublished.ids(f.path) | self._edits.buffers.ids(f.path),
                f.new,
                modes.get(f.path),
            )
            for f in files
        ]
        try:
            return self._index.rewrite(replacements, left_out)
        except index_file.Unmerged as error:
            raise Blocked(
                f"{error.path} has an unfinished merge; `git add` or `git checkout` it in the work tree", stuck=True
            ) from None
        except (index_file.DamagedIndex, FileNotFoundError):
            files_after = self._store.files(self._store.tree_of(after))
            index_file.build(mine, (entry for entry in files_after if entry.mode.startswith(PLAIN)))
            return []

    def _prepare_files(self, plan: Plan, absent: Set[str]) -> None:
        """Write the new files at these paths, before the lock is taken; under the lock, names are only swapped."""
        for number, file in enumerate(plan.files):
            if file.new and file.path in absent:
                self._tree.prepare(self._store.read(file.new), plan.slot(number))

    def _place(self, plan: Plan) -> set[str]:
        """Swap the files in; return the paths that were skipped because they were saved since the last look.

        A file saved between this check and the swap is moved aside and examined later.
        """
        left = set()
        for number, file in enumerate(plan.files):
            slot, there = plan.slot(number), self._tree.look(file.path)
            if there.odd:  # it was a plain file when the plan was made, so the disk failed or a program replaced it
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
        """After a failure, record the placed files. If the branch has moved, leave the index to the next pass."""
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
    """Complete the newest plan if its lock remains, and remove kgd's temporary files. Idempotent.

    While the lock existed, git commands could not commit partly placed files. Unknown bytes are a person's edit: they
    stay, and are examined later like any edit. A lock of another program is not touched. A lock that a power cut
    brought back is removed, and `Healing` mends the index.
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
    elif plan_folder.took(lock):
        lock.unlink()
    mine.unlink(missing_ok=True)
    (derived / f"{INDEX}.lock").unlink(missing_ok=True)
    for part in tree.parts.glob("part-*"):
        part.unlink()


def record_abandoned(host: Host, tree: WorkTree, plan_folder: PlanFolder, edits: HandEdits) -> None:
    """Record the files of an abandoned publication as kgd's own, and edits to these files as based on that publication.

    This works even if the tip has changed since, and for any commit to which the person's branch has moved.
    """
    plan, store, branch = plan_folder.unfinished, host.store, host.store.ref(host.layout.branch)
    if plan is None or branch is None or not store.exists(plan.after) or store.is_ancestor(plan.after, branch):
        return
    published = Lookup(store.tree, store.tree_of(branch))
    is_lost = not store.is_ancestor(plan.after, bytes.fromhex(host.tip))  # the tip was reset to an earlier commit
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
    """Record files that a former process placed but failed to publish.

    These files match a version between the published commit and the tip, which only kgd can have written. This search
    is needed only if the plan is gone, and covers only files that match neither commit.
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
    """Complete a plan; returns whether the branch is at its new commit."""
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


class Signature(NamedTuple):
    """Values that change with every relevant git command. If two signatures are equal, no such command ran in
    between."""

    head: bytes
    branch: ObjectId | None
    stamp: index_file.Stamp
    """The stamp of the index."""
    states: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Busy:
    """The reason not to publish now. With `stuck`, the obstacle will not pass by itself, and `reason` explains how to
    remove it."""

    reason: str
    stuck: bool = False


def signature(git_dir: Path, branch: str) -> Signature:
    try:
        head = (git_dir / "HEAD").read_bytes()
    except FileNotFoundError:
        head = b""
    states = tuple(name for name in (*_HOW_TO_END, "HEAD.lock", "index.lock") if os.path.lexists(git_dir / name))
    return Signature(head, read_ref(git_dir, branch), index_file.stamp(git_dir / "index"), states)


def busy(found: Signature, layout: Layout) -> Busy | None:
    """The git operation that a person began but has not finished; None if there is no such operation."""
    git_dir, branch = layout.git_dir, layout.branch
    git, name = layout.git_command, branch.removeprefix("refs/heads/")
    for state in found.states:
        if state in _HOW_TO_END:
            what, onward, back = _HOW_TO_END[state]
            if state == "sequencer" and _reverts(git_dir):
                what, onward, back = (text.replace("cherry-pick", "revert") for text in (what, onward, back))
            ways = " or ".join(f"`{git} {way}`" for way in (onward, back) if way)
            return Busy(f"{what} is under way in the work tree; end it with {ways}", stuck=True)
    if "index.lock" in found.states or "HEAD.lock" in found.states:
        lock = git_dir / ("index.lock" if "index.lock" in found.states else "HEAD.lock")
        return locked(lock) or Busy("a git command has just ended")
    if found.head.strip() != b"ref: " + branch.encode():
        if found.head.startswith(b"ref: "):
            other = found.head[5:].strip().decode("utf-8", "replace").removeprefix("refs/heads/")
            return Busy(f"the branch '{other}' is checked out; `{git} switch {name}` resumes publication", stuck=True)
        return Busy(f"HEAD is detached; `{git} switch {name}` resumes publication", stuck=True)
    if found.branch is None:
        return Busy(f"the branch '{name}' is missing; `{git} branch {name} refs/kgd/head` restores it", stuck=True)
    return None


def _reverts(git_dir: Path) -> bool:
    """Whether git's list of commits to apply is of a revert; a cherry-pick has the same file."""
    try:
        with open(git_dir / "sequencer/todo", "rb") as file:
            return file.read(6) == b"revert"
    except OSError:
        return False


def locked(lock: Path) -> Busy | None:
    """The state of one of git's locks; None if the lock is absent."""
    try:
        age = time.time() - os.lstat(lock).st_mtime
    except FileNotFoundError:
        return None
    if age < LOCK_PATIENCE:
        return Busy("a git command is running in the work tree")
    return Busy(
        f"{lock.name} is {int(age)} s old; if no git command is running: rm {shlex.quote(str(lock))}", stuck=True
    )


STAGED_SECONDS = 120.0
"""Seconds for which kgd leaves staged changes to the user, unless a git command still runs after that time."""


class UserStaging:
    """The staged changes and the left-out files of one work tree. Used only in the publication's thread."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._found: Signature | None = None
        self._stamp: index_file.Stamp | None = None
        self.left_out: frozenset[str] = frozenset()
        """Paths that a sparse checkout leaves out of the work tree."""
        self._key: tuple[index_file.Stamp, ObjectId | None] | None = None
        self._staged: dict[str, ObjectId | None] = {}
        self._since = 0
        """When the user last staged something, in nanoseconds since 1970."""
        self._held: bool | None = None
        self._settle = False
        self.is_in_use = False
        """Whether an edit waits for the user's commit."""

    def look(self, found: Signature, *, settle: bool) -> bool:
        """Set the state of git's files for the other calls; returns whether edits that waited are released.

        With `settle`, only a running git command keeps staged changes back.
        """
        self._found, self._settle, self._held = found, settle, None
        if found.stamp != self._stamp:
            self._stamp, self.left_out = found.stamp, index_file.left_out(self._layout.git_dir)
            self._changes()  # before a program can move the branch alone
        was = self.is_in_use
        self.is_in_use = was and self._is_held()
        return was and not self.is_in_use

    def holds(self, path: str) -> bool:
        """Whether kgd leaves the path alone: it is staged, or not in a sparse checkout."""
        if path in self.left_out:
            return True
        if path not in self._changes() or not self._is_held():
            return False
        self.is_in_use = True
        return True

    def check(self) -> None:
        """Raise Blocked if the branch must not move now, because the user is about to commit."""
        layout = self._layout
        if self._changes() and self._is_held():
            git, (first, *more) = layout.git_command, sorted(self._staged)
            what = f"{first} and {len(more)} more are" if more else f"{first} is"
            raise Blocked(
                f"{what} staged by you; `{git} commit` commits, `{git} reset` unstages; otherwise "
                f"kgd commits after {STAGED_SECONDS / 60:g} minutes",
                is_brief=False,
            )
        if index_file.is_commit_open(layout.git_dir, layout.branch) and self._is_git_running():
            raise Blocked("a git command is running in the work tree", is_brief=False)

    def published(self, found: Signature) -> None:
        """Record that kgd itself wrote the index and moved the branch."""
        self._stamp = found.stamp
        if not self._staged:
            self._key = (found.stamp, found.branch)

    def about(self) -> str:
        """A sentence about a sparse checkout; empty without one."""
        count = len(self.left_out)
        return f"the checkout is sparse: {count} file{'s are' if count > 1 else ' is'} not in it" if count else ""

    # ---- inside

    def _changes(self) -> dict[str, ObjectId | None]:
        assert self._found is not None
        key = (self._found.stamp, self._found.branch)
        if key != self._key:
            before, is_moved = self._staged, self._key is not None and self._key[0] == key[0]
            self._key, branch = key, self._found.branch
            self._staged = index_file.staged(self._layout.git_dir, branch) if branch else {}
            # A program that moves the branch alone stages nothing; a soft reset does, for the user's next commit.
            if is_moved and not index_file.is_after_reset(self._layout.git_dir, self._layout.branch):
                self._staged = {path: blob for path, blob in self._staged.items() if path in before}
            if not self._staged.items() <= before.items():
                self._since = min(time.time_ns(), self._found.stamp[1])
        return self._staged

    def _is_held(self) -> bool:
        if self._held is None:
            is_recent = not self._settle and time.time_ns() - self._since < STAGED_SECONDS * 1e9
            self._held = bool(self._changes()) and (is_recent or self._is_git_running())
        return self._held

    def _is_git_running(self) -> bool:
        return index_file.is_git_running(self._layout.work_tree, self._layout.git_dir)
