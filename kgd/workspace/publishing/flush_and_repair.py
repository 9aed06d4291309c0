"""Flush and repair: flushing published files in the background, and restoring files lost in an unclean stop.

A file is treated as damaged only if an unflushed plan lists it, and it is absent, truncated, zeroed or an earlier
version. Any other difference is a person's edit (docs/decisions/0028-what-a-power-cut-damages.md).
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from kgd.errors import KgdError
from kgd.git import index_file
from kgd.git.files import is_cut, sync_file_system
from kgd.git.objects import PLAIN, ObjectId
from kgd.git.store import ObjectStore
from kgd.git.walk import Lookup
from kgd.shared_threads import Task, Threads
from kgd.workspace.parts import FILE_LIMIT
from kgd.workspace.publishing.adoption import Host
from kgd.workspace.publishing.hand_edits import HandEdits
from kgd.workspace.publishing.publication_plan import FORMER_INDEX, Placement, Plan, PlanFolder, slots
from kgd.workspace.publishing.publish_steps import INDEX
from kgd.workspace.publishing.work_tree import WorkTree

AFTER = 0.5
"""Seconds from a publication to its flush; other publications within that time share the flush."""
SHARE = 10
"""The pause is also this many times the duration of the last flush, to spare a slow disk."""

THREADS = Threads("kgd-flush", 2)

log = logging.getLogger(__name__)


class Healing:
    """The unflushed publications of the last process, until they are checked. Used only in the publication's thread."""

    def __init__(self, host: Host, tree: WorkTree, plan_folder: PlanFolder, edits: HandEdits) -> None:
        self._host, self._store, self._tree, self._plan_folder = host, host.store, tree, plan_folder
        self._edits, self._unpublished = edits, edits.unpublished
        self._plans = plan_folder.unflushed
        self._came_back: bool | None = None
        """Whether the index is older than a plan; None before the first look, since git may write it again."""
        self.is_due = True
        """Every startup checks the index; after an unclean stop, files are checked as well."""

    def mend_index(self, published: ObjectId) -> bool:
        """Rebuild an index that git cannot read, or update one that an unflushed plan had replaced.

        Returns whether that was needed. Staged changes stay staged.

        Raises:
            FileExistsError: A git command has the index locked, or has just written it.
        """
        index, lock = self._host.layout.git_dir / "index", self._host.layout.git_dir / "index.lock"
        mine = self._host.layout.derived_dir / INDEX
        began_with = index_file.stamp(index)
        if index_file.is_intact(index):
            if self._came_back is None:
                self._came_back = self._is_old(index, published)
            behind = list(self._behind(index, published)) if self._came_back else []
            if not behind or not _rewritten(index, mine, behind):
                return False
        elif not any(self._follow(plan, published, mine) for plan in reversed(self._plans)):
            files = self._store.files(self._store.tree_of(published))
            index_file.build(mine, (entry for entry in files if entry.mode.startswith(PLAIN)))
        os.link(mine, lock)
        if index_file.stamp(index) != began_with:
            lock.unlink()
            mine.unlink()
            raise FileExistsError(lock)
        os.rename(lock, index)
        mine.unlink()
        log.warning("repaired the git index")
        return True

    def restore_files(self, published: ObjectId) -> int:
        """Restore damaged files and return their number. After that, every file that still differs is an edit."""
        damaged = self._damaged(published) if self._plans else []
        if damaged:
            carry_out_restore(
                self._plan_folder.begin(published, published, damaged), self._plan_folder, self._tree, self._store
            )
            log.warning("restored files that an unclean stop damaged", extra={"files": len(damaged)})
        self._plans, self.is_due = [], False
        return len(damaged)

    # ---- inside

    def _damaged(self, published: ObjectId) -> list[Placement]:
        """The files to restore. Damaged files that were moved aside are removed, because they are not late edits."""
        branch, tip = self._tree_of(published), self._tree_of(bytes.fromhex(self._host.tip))
        versions, placed = self._versions(published)
        self._drop_damaged_slots(versions)
        found = []
        for path, ids in sorted(versions.items()):
            there = self._tree.look(path)
            known = [id for id in self._unpublished.ids(path) if id is None or self._store.exists(id)]
            if there.odd or there.id in (*known, branch.entry(path), tip.entry(path)):
                continue
            if there.id is None and path in self._edits.left_out:
                continue
            is_former = path in placed and (there.id is None or there.id in placed[path])
            if is_former or self._is_cut(self._tree.read(path), ids):
                found.append(Placement(path, there.id, known[0] if known else branch.entry(path)))
        return found

    def _tree_of(self, commit: ObjectId) -> Lookup:
        return Lookup(self._store.tree, self._store.tree_of(commit))

    def _versions(self, published: ObjectId) -> tuple[dict[str, set[ObjectId]], dict[str, set[ObjectId | None]]]:
        """For each path, the versions in all plans, and the versions in published plans."""
        versions, placed = defaultdict[str, set[ObjectId]](set), defaultdict[str, set[ObjectId | None]](set)
        for plan in self._plans:
            is_published = self._is_published(plan, published)
            for file in plan.files:
                known = file.taken | {file.old, file.new}
                versions[file.path].update(id for id in known if id is not None)
                if is_published:
                    placed[file.path].update(known)
        return versions, placed

    def _is_cut(self, data: bytes | None, ids: set[ObjectId]) -> bool:
        if data is None:
            return False
        texts = (self._unpublished.text(id) for id in ids if self._store.exists(id))
        return any(text is not None and is_cut(data, text) and data != text for text in texts)

    def _drop_damaged_slots(self, versions: dict[str, set[ObjectId]]) -> None:
        for plan in self._plans:
            for slot, file in slots(plan):
                if self._is_cut(_read(slot), versions[file.path]):
                    slot.unlink()

    def _follow(self, plan: Plan, published: ObjectId, mine: Path) -> bool:
        """Write the index that a plan replaced, updated to the published tree; returns whether it was readable."""
        known = self._known()
        with contextlib.suppress(KgdError):
            changes = self._store.diff(self._store.tree_of(plan.before), self._store.tree_of(published))
            return _rewritten(
                plan.place / FORMER_INDEX,
                mine,
                (index_file.Replacement(path, frozenset(known[path] | {old, new}), new) for path, old, new in changes),
            )
        return False

    def _is_old(self, index: Path, published: ObjectId) -> bool:
        """Whether a power cut may have brought back an index that a plan had replaced: the machine was restarted, or
        the index is older than the newest published plan. If only the process died, the index is the plan's, or a git
        command has written it since."""
        plans = [plan for plan in self._plans if plan.lock and self._is_published(plan, published)]
        if not plans:
            return False
        newest, found = max(plans, key=lambda plan: plan.written), index.stat()
        return not newest.is_of_this_boot or (found.st_ino != newest.lock and found.st_mtime_ns <= newest.written)

    def _is_published(self, plan: Plan, published: ObjectId) -> bool:
        return self._store.exists(plan.after) and self._store.is_ancestor(plan.after, published)

    def _behind(self, index: Path, published: ObjectId) -> Iterator[index_file.Replacement]:
        """The paths at which the index has a version that an unflushed plan replaced."""
        known, tree = self._known(), self._store.tree_of(published)
        for path, there in index_file.entries(index, known).items():
            mode, new = self._store.lookup(tree, path) or (None, None)
            if there != new and there in known[path]:
                yield index_file.Replacement(path, frozenset({there}), new, mode)

    def _known(self) -> defaultdict[str, set[ObjectId | None]]:
        """For each path in the plans, all its versions."""
        known = defaultdict[str, set[ObjectId | None]](set)
        for plan in self._plans:
            for file in plan.files:
                known[file.path] |= file.taken | {file.old, file.new}
            if self._store.exists(plan.before) and self._store.exists(plan.after):
                # The index also has the new versions of files that wait for a person, which the plan does not place.
                for path, old, new in self._store.diff(
                    self._store.tree_of(plan.before), self._store.tree_of(plan.after)
                ):
                    known[path] |= {old, new}
        return known


def _rewritten(source: Path, mine: Path, replacements: Iterable[index_file.Replacement]) -> bool:
    """Write a copy of an index with the replacements; returns whether it was readable."""
    mine.unlink(missing_ok=True)
    try:
        index_file.Rewriter(source, mine).rewrite(replacements)
    except (index_file.DamagedIndex, index_file.Unmerged, FileNotFoundError, KgdError):
        return False
    return True


def carry_out_restore(plan: Plan, plan_folder: PlanFolder, tree: WorkTree, store: ObjectStore) -> None:
    """Carry out a plan that restores files, without moving branch or index."""
    try:
        for number, file in enumerate(plan.files):
            if file.new is None:
                tree.take_away(file.path, plan.slot(number))
            else:
                tree.prepare(store.read(file.new), plan.slot(number))
                tree.place(file.path, plan.slot(number))
    except BaseException:
        plan_folder.end(plan, is_abandoned=True)
        raise
    plan_folder.end(plan)


def _read(slot: Path) -> bytes | None:
    """The bytes of a plain file, or None if it is anything else."""
    with contextlib.suppress(OSError):
        if slot.is_file() and not slot.is_symlink() and slot.stat().st_size <= FILE_LIMIT:
            return slot.read_bytes()
    return None


class Flusher:
    """Flushes file systems shortly after `ask`, until `close`.

    Args:
        folders: The folders that are written to; one flush covers all of them on the same file system.
        flushed: Called after each flush, in the thread that flushed.
    """

    def __init__(self, folders: list[Path], flushed: Callable[[], object]) -> None:
        self._folders, self._flushed = folders, flushed
        self._wanted = self.until = float("-inf")
        """By the monotonic clock: the time up to which writes are to be flushed, and the start of the last successful
        flush."""
        self.failure = ""
        """Why the last flush failed; empty after a success."""
        self._pause = 0.0
        self._task = Task(THREADS, self._step)

    def ask(self, at: float) -> None:
        """Request a flush of all writes up to `at`, by the monotonic clock. Returns at once."""
        if at > self._wanted:
            self._wanted = at
            self._task.wake(max(AFTER, self._pause))

    def flush(self) -> None:
        """Flush now. A failure is kept in `failure`."""
        began = time.monotonic()
        try:
            for folder in {os.stat(folder).st_dev: folder for folder in self._folders}.values():
                sync_file_system(folder)
        except OSError as error:
            self.failure = f"published files could not be flushed to the disk: {error.strerror}"
            log.warning("flush failed", extra={"reason": self.failure})
        else:
            self.until, self.failure = began, ""

    def close(self) -> None:
        """Stop; after that only `flush` flushes."""
        self._task.close()

    def _step(self) -> float | None:
        if self._wanted > self.until:
            began = time.monotonic()
            self.flush()
            self._pause = SHARE * (time.monotonic() - began)
            self._flushed()
        return max(AFTER, self._pause) if self._wanted > self.until else None
