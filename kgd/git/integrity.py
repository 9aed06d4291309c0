"""Recovery at startup: a repository is repaired before libgit2 opens it.

Reading a truncated loose object, libgit2 1.9.7 loops forever with the interpreter's lock held. So files that may be
truncated are first inflated and hashed here, in pure Python, and moved aside if broken. Recovery is automatic and never
removes the only copy of an object.

Lost and damaged refs are restored from the reflog, since each move is written there before the ref changes. Deleting a
ref with git deletes its reflog, so a reflog without a ref means that the ref was lost.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from kgd.errors import MALFORMED, KgdError, Limit
from kgd.git import index_file, pack, program, refs
from kgd.git.files import replace
from kgd.git.layout import Layout
from kgd.git.objects import ObjectId, parse_id
from kgd.git.pack_upkeep import PARTIAL, ROLLED
from kgd.git.store import ObjectStore

BUDGET = 5.0
SIZE_LIMIT = 256 << 20
"""Maximum size in bytes of an inflated loose object; a larger one is treated as broken."""
WAYS_TRIED = 20
"""Largest number of earlier tips to try as a restore point."""
_SLACK = 60.0
"""Objects from this many seconds before a checkpoint are checked again: git does not flush the loose objects it
writes."""
_ABANDONED = 24 * 3600.0
_CHECKPOINT = "checkpoint"


@dataclass(slots=True)
class Report:
    """The findings and repairs of `recover`. The lists are usually empty."""

    stale_locks: list[str] = field(default_factory=list)
    dropped_keeps: list[str] = field(default_factory=list)
    removed_packs: list[str] = field(default_factory=list)
    broken_packs: list[str] = field(default_factory=list)
    broken_objects: list[str] = field(default_factory=list)
    repaired_refs: list[str] = field(default_factory=list)
    unchecked: int = 0
    """Number of loose objects left unchecked when the time budget ran out."""
    notes: list[str] = field(default_factory=list)

    @property
    def damaged(self) -> bool:
        """Whether data was or may have been lost; if so, `kgd status` shows a line."""
        return bool(self.broken_packs or self.broken_objects or self.repaired_refs or self.unchecked or self.notes)


def recover(layout: Layout, *, budget: float = BUDGET) -> Report:
    """Make the repository safe to open. Call it under the workspace's lock, before anything opens the repository.

    Recovery only completes interrupted work, and it can be repeated. Broken files are moved to ``broken/`` in the
    derived folder, never deleted. Cost: a listing of the packs, and inflating the loose objects newer than the last
    checkpoint, at most `budget` seconds.
    """
    report = Report()
    layout.derived_dir.mkdir(exist_ok=True)
    report.stale_locks = refs.drop_stale_locks(layout.git_dir, layout.derived_dir)
    _settle_packs(layout, report)
    good = _last_checkpoint(layout)
    _check_loose(layout, report, time.monotonic() + budget)
    repair(layout, good, report)
    keep_dropped(layout, good.get(refs.HEAD), _checkpoint_time(layout))
    with contextlib.suppress(KgdError, OSError):  # the next startup repeats it
        index_file.settle_work_tree(layout)
    _drop_overtaken_locks(layout, report)
    if not report.unchecked:
        with contextlib.suppress(OSError):  # the disk is full: the next startup checks more
            checkpoint(layout)
    return report


def checkpoint(layout: Layout) -> None:
    """Record that everything up to now is intact. Called at a clean stop, and after a recovery that checked
    everything."""
    tips = {}
    for name in (refs.HEAD, layout.branch):
        with contextlib.suppress(KgdError):
            id = refs.read_ref(layout.git_dir, name)
            tips.update({name: id.hex()} if id else {})
    replace(layout.derived_dir / _CHECKPOINT, json.dumps(tips).encode() + b"\n")


def recovery_advice(layout: Layout) -> str:
    """The next step for the user if the newest change cannot be read: fetch it from a copy, or go back with one
    command.

    kgd does not go back by itself: the later changes were acknowledged, and a copy may have them.
    """
    branch = layout.branch.removeprefix("refs/heads/")
    fetch = f"In {layout.git_dir}: `git fetch --refetch COPY {branch}` restores it from a clone that has it"
    store, tried = layout.open(), 0
    with contextlib.suppress(KgdError):
        head = refs.read_ref(layout.git_dir, refs.HEAD)
        logged = [line.new for line in reversed(refs.read_log(layout.git_dir, refs.HEAD))]
        known = [*logged, *_last_checkpoint(layout).values(), refs.read_ref(layout.git_dir, layout.branch)]
        for id in dict.fromkeys(id for id in known if id and id != head):
            if tried == WAYS_TRIED:
                break
            tried += 1
            if is_whole(store, id) and _can_be_walked(store, id):
                back = f"`git update-ref refs/kgd/head {id.hex()}`"
                return f"{fetch}; without such a clone, {back} goes back to the newest complete change."
    return f"{fetch}."


def loose_object_is_sound(path: Path) -> bool:
    """Whether the whole file inflates, and its content matches the hash in its name."""
    try:
        return pack.read_loose(path.parent.parent, bytes.fromhex(path.parent.name + path.name), SIZE_LIMIT) is not None
    except (ValueError, OSError, Limit):
        return False


# ---- packs


def _settle_packs(layout: Layout, report: Report) -> None:
    """Finish the work of a killed flush.

    A pack without an index was never visible, so it is removed. An intact pack stays even if unreferenced: a gc skips
    objects that are in a kept pack, so the pack may have the only copy of an older object. Only its ``.keep`` is
    removed, and a later gc removes unreachable objects.
    """
    pack_dir = layout.git_dir / "objects" / "pack"
    graph_lock = layout.git_dir / "objects" / "info" / "commit-graph.lock"
    for leftover in (*pack_dir.glob("tmp_*"), graph_lock):  # left by a killed gc or roll-up; git's own pruning is off
        with contextlib.suppress(OSError):
            if time.time() - leftover.stat().st_mtime > _ABANDONED:
                leftover.unlink()
    for folder in (layout.git_dir / "objects").glob(f"{PARTIAL}*"):
        shutil.rmtree(folder, ignore_errors=True)
    for half in pack_dir.glob("*.kgd"):
        if not half.with_suffix(".idx").exists():
            half.with_suffix(".pack").unlink(missing_ok=True)
            half.with_suffix(".keep").unlink(missing_ok=True)
            report.removed_packs.append(half.stem)
        half.unlink()
    for keep in pack_dir.glob("pack-*.keep"):
        content = keep.read_bytes()[:16].strip(b"\0")
        if content not in (pack.KEEP, ROLLED, b""):
            continue
        stem = keep.with_suffix("")
        if not keep.with_suffix(".idx").exists():
            keep.with_suffix(".pack").unlink(missing_ok=True)
            report.removed_packs.append(stem.name)
        elif content == ROLLED:
            continue  # it was checked before it was moved here; a roll-up removes its protection
        elif not pack.intact(stem):
            _set_aside(layout, [stem.with_suffix(suffix) for suffix in (".idx", ".pack", ".rev")])
            report.broken_packs.append(stem.name)
        elif content == b"":
            continue  # the user's own, or one of ours that a power cut left empty, which is harmless
        else:
            report.dropped_keeps.append(stem.name)
        keep.unlink()


# ---- loose objects


def _check_loose(layout: Layout, report: Report, end: float) -> None:
    since = _checked_until(layout)
    for path in _loose_objects(layout.git_dir / "objects"):
        if path.suffix == ".kgd":
            path.unlink()
            continue
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        if max(status.st_mtime, status.st_ctime) < since:
            continue
        if time.monotonic() > end:
            report.unchecked += 1
        elif not loose_object_is_sound(path) and path.exists():
            _set_aside(layout, [path])
            report.broken_objects.append(path.parent.name + path.name)


def _loose_objects(objects: Path) -> list[Path]:
    """All loose objects, newest first: the newest are most likely truncated, and the budget may not suffice for all."""
    found = []
    for folder in os.scandir(objects):
        if len(folder.name) == 2 and folder.is_dir(follow_symlinks=False):
            try:
                files = list(os.scandir(folder.path))
            except FileNotFoundError:  # a running gc removes the objects that it has packed
                continue
            for file in files:
                name = file.name.removesuffix(".kgd")
                if len(name) == 38 and file.is_file(follow_symlinks=False):
                    with contextlib.suppress(FileNotFoundError):
                        found.append((file.stat(follow_symlinks=False).st_mtime, file.path))
    return [Path(path) for _, path in sorted(found, reverse=True)]


def _checked_until(layout: Layout) -> float:
    """The time up to which objects were checked, by the file system's clock; 0 if the clock was set back."""
    at = _checkpoint_time(layout)
    return at - _SLACK if at <= time.time() else 0.0


def _checkpoint_time(layout: Layout) -> float:
    try:
        return (layout.derived_dir / _CHECKPOINT).stat().st_mtime
    except FileNotFoundError:
        return 0.0


# ---- refs


def _last_checkpoint(layout: Layout) -> dict[str, ObjectId]:
    try:
        noted = json.loads((layout.derived_dir / _CHECKPOINT).read_bytes())
        return {str(name): parse_id(str(id)) for name, id in noted.items()}
    except (OSError, KgdError, *MALFORMED):
        return {}


def _drop_overtaken_locks(layout: Layout, report: Report) -> None:
    """Remove the lock of each ref that has already had the lock's value: a power cut on btrfs restores such locks.

    When btrfs replays its log, it restores the lock file of a completed move, but not the second link by which
    `refs.drop_stale_locks` recognises it. A pending move never goes back to an earlier value.
    """
    store = None
    for lock in (layout.git_dir / "refs").rglob("*.lock"):
        name = lock.relative_to(layout.git_dir).as_posix().removesuffix(".lock")
        with contextlib.suppress(KgdError, OSError):
            store = store or layout.open()
            moved, now = parse_id(lock.read_bytes().strip()), refs.read_ref(layout.git_dir, name)
            if now and store.exists(moved) and store.is_ancestor(moved, now):
                lock.unlink()
                report.stale_locks.append(name)


def _can_be_walked(store: ObjectStore, id: ObjectId) -> bool:
    try:
        for _ in store.files(store.tree_of(id)):
            pass
    except KgdError:
        return False
    return True


def _set_aside(layout: Layout, paths: list[Path]) -> None:
    broken = layout.derived_dir / "broken"
    broken.mkdir(exist_ok=True)
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.replace(path, broken / f"{path.parent.name}-{path.name}.{time.time_ns()}")


KEPT = "refs/kgd/kept/head/"
"""Prefix of the refs that keep the earlier tips when ``refs/kgd/head`` is moved back by hand."""
LINES_READ = 200
"""Number of the newest reflog lines that are searched for a move by hand."""
_LOGGED = ("refs/kgd", "refs/heads")


def repair(layout: Layout, good: dict[str, ObjectId], report: Report) -> None:
    """Restore the last value of lost and damaged refs; `good` has the values at the last checkpoint.

    Without a reflog, ``refs/kgd/head`` gets the newer of its value at the checkpoint and the branch. Later commits that
    are still in the repository are kept under separate refs.
    """
    git_dir, scratch = layout.git_dir, layout.derived_dir
    if repair_head_file(layout):
        report.repaired_refs.append("HEAD")
    if refs.mend_packed_refs(git_dir, scratch):
        report.repaired_refs.append("packed-refs")
    for name in (layout.branch, refs.HEAD, *_lost(git_dir)):
        try:
            is_lost = (value := refs.read_ref(git_dir, name)) is None
            if value is not None or (name != refs.HEAD and not refs.read_log(git_dir, name)):
                if is_lost and name in good:
                    report.notes.append(f"{name} is gone; it was {good[name].hex()}")
                continue
        except KgdError:
            is_lost = False
        store = layout.open()
        known = [good[name]] if name in good else []
        logged = refs.read_log(git_dir, name)
        if name == refs.HEAD:
            known = _newest_first(store, filter(None, [*known, refs.value_of(git_dir, layout.branch)]))
        with contextlib.suppress(OSError):  # a folder has this name now
            if tip := refs.repair_ref(git_dir, scratch, name, partial(is_whole, store), known_good=tuple(known)):
                report.repaired_refs.append(name)
                for newer in _dangling(layout, tip) if name == refs.HEAD and not logged else ():
                    keep(layout, newer, tip)
            elif not is_lost or name == refs.HEAD:
                report.notes.append(f"{name} is damaged, and no earlier good value is known")


def keep_dropped(layout: Layout, known: ObjectId | None, since: float) -> None:
    """Keep the tips from which ``refs/kgd/head`` was moved away by hand, each under a ref below `KEPT`.

    Args:
        known: The tip of the last checkpoint.
        since: Unix time of the last checkpoint; earlier moves were seen then.
    """
    git_dir = layout.git_dir
    with contextlib.suppress(KgdError):
        head = refs.read_ref(git_dir, refs.HEAD)
        logged = [line for line in refs.read_log(git_dir, refs.HEAD)[-LINES_READ:] if line.time > since]
        left = [line.old for line in logged if refs.KGD not in line.who]
        if head is not None:
            for tip in dict.fromkeys(id for id in (known, *left) if id and id != head):
                keep(layout, tip, head)


def keep(layout: Layout, dropped: ObjectId, head: ObjectId) -> None:
    """Create a ref to `dropped` if `head` does not contain this commit and all of its objects are present."""
    store = layout.open()
    try:
        if not is_whole(store, dropped) or store.is_ancestor(dropped, head):
            return
        program.run(layout.git_dir, ["rev-list", "--objects", "--quiet", dropped.hex(), f"^{head.hex()}"])
        name = KEPT + dropped.hex()[:12]
        if store.ref(name) is None:
            refs.move_ref(layout.git_dir, layout.derived_dir, name, None, dropped, note="kgd: moved by hand")
    except (program.GitFailed, KgdError, OSError, refs.RefMoved):
        return  # a ref to an incomplete commit would make every gc fail


def kept_notes(store: ObjectStore) -> list[str]:
    """A sentence for each kept tip that is not part of the workspace."""
    notes = []
    with contextlib.suppress(KgdError):
        head = store.ref(refs.HEAD)
        for name, tip in refs.list_refs(store.git_dir, KEPT).items():
            if head and not store.is_ancestor(tip, head):
                ahead = store.ahead_behind(tip, head)[0]
                notes.append(
                    f"refs/kgd/head was moved back or lost: {ahead} commits are only in {name} now; `git merge {name}` "
                    f"in the work tree brings them back, `git update-ref -d {name}` drops them"
                )
    return notes


def is_whole(store: ObjectStore, id: ObjectId) -> bool:
    """Whether a commit, its top folder and its parents are present. Files are only checked when they are read."""
    try:
        commit = store.commit(id)
        store.tree(commit.tree)
        return all(store.kind_and_size(parent) for parent in commit.parents)
    except KgdError:
        return False


def repair_head_file(layout: Layout) -> bool:
    """Restore a lost or damaged HEAD, without which git finds no repository; True if it was restored."""
    (layout.git_dir / "refs").mkdir(exist_ok=True)  # git needs this folder as well
    try:
        refs.checked_out(layout.git_dir)
    except KgdError:
        replace(layout.git_dir / "HEAD", f"ref: {layout.branch}\n".encode())
        return True
    return False


def _lost(git_dir: Path) -> list[str]:
    """Refs that have a reflog but no value."""
    logs = git_dir / "logs"
    names = [
        os.path.relpath(os.path.join(folder, file), logs)
        for above in _LOGGED
        for folder, _, files in os.walk(logs / above)
        for file in files
    ]
    there = refs.list_refs(git_dir)
    return sorted(name for name in names if name not in there and name != refs.HEAD)


def _dangling(layout: Layout, tip: ObjectId) -> list[ObjectId]:
    """Unreferenced commits that descend from `tip`. Reads the whole history."""
    try:
        output = program.run(
            layout.git_dir, ["fsck", "--connectivity-only", "--dangling", "--no-reflogs", "--no-progress"]
        )
    except (program.GitFailed, KgdError):
        return []
    found = [line.split()[2] for line in output.decode().splitlines() if line.startswith("dangling commit ")]
    store = layout.open()
    return [id for id in map(bytes.fromhex, found) if store.is_ancestor(tip, id)]


def _newest_first(store: ObjectStore, ids: Iterable[ObjectId]) -> list[ObjectId]:
    found = [id for id in dict.fromkeys(ids) if is_whole(store, id)]
    return sorted(found, key=lambda id: -sum(store.is_ancestor(other, id) for other in found))
