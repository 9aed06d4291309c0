"""This file is where a repository is made sound after a stop, before libgit2 opens it.

libgit2 1.9.7 reads a cut loose object for ever, with the interpreter's lock held; so whatever may be cut is inflated
and hashed here first, in pure Python, and moved aside if it is broken. Recovery needs no hand and removes nothing that
could be the only copy of anything.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from kgd.errors import KgdError
from kgd.git import pack, ref_repair, refs
from kgd.git.files import replace
from kgd.git.layout import Layout
from kgd.git.objects import ObjectId, parse_id
from kgd.git.store import ObjectStore

BUDGET = 5.0
SIZE_LIMIT = 256 << 20
"""Bytes that one loose object may inflate to; a larger one is taken for broken."""
WAYS_TRIED = 20
"""Earlier tips that are looked at for one to go back to."""
_SLACK = 60.0
"""Seconds before a checkpoint that are checked again: git does not flush the loose objects it writes."""
_ABANDONED = 24 * 3600.0
_CHECKPOINT = "checkpoint"


@dataclass(slots=True)
class Report:
    """What `recover` found and did. Empty lists are the usual case."""

    stale_locks: list[str] = field(default_factory=list)
    dropped_keeps: list[str] = field(default_factory=list)
    removed_packs: list[str] = field(default_factory=list)
    broken_packs: list[str] = field(default_factory=list)
    broken_objects: list[str] = field(default_factory=list)
    repaired_refs: list[str] = field(default_factory=list)
    unchecked: int = 0
    """Loose objects that the budget did not reach."""
    notes: list[str] = field(default_factory=list)

    @property
    def damaged(self) -> bool:
        """Whether something was lost or may be: worth a line in `kgd status`."""
        return bool(self.broken_packs or self.broken_objects or self.repaired_refs or self.unchecked or self.notes)


def recover(layout: Layout, *, budget: float = BUDGET) -> Report:
    """Make the repository safe to open. Call it under the workspace's lock, before anything opens the repository.

    Roll-forward and repeatable. Broken files are moved to ``broken/`` in the derived folder, never deleted. Costs a
    listing of the packs, plus inflating the loose objects that are newer than the last checkpoint, at most `budget`
    seconds of that.
    """
    report = Report()
    layout.derived_dir.mkdir(exist_ok=True)
    report.stale_locks = refs.drop_stale_locks(layout.git_dir, layout.derived_dir)
    _settle_packs(layout, report)
    good = _last_checkpoint(layout)
    _check_loose(layout, report, time.monotonic() + budget)
    found = ref_repair.repair(layout, good)
    report.repaired_refs, report.notes = found.repaired, found.notes
    ref_repair.keep_dropped(layout, good.get(refs.HEAD), _checkpoint_time(layout))
    _drop_overtaken_locks(layout, report)
    if not report.unchecked:
        with contextlib.suppress(OSError):  # a full disk; then the next start looks at more
            checkpoint(layout)
    return report


def checkpoint(layout: Layout) -> None:
    """Note that everything up to now is sound: at a clean stop, and at the end of a recovery that saw everything."""
    tips = {}
    for name in (refs.HEAD, layout.branch):
        with contextlib.suppress(KgdError):
            id = refs.read_ref(layout.git_dir, name)
            tips.update({name: id.hex()} if id else {})
    replace(layout.derived_dir / _CHECKPOINT, json.dumps(tips).encode() + b"\n")


def way_out(layout: Layout) -> str:
    """What a person can do where the newest change cannot be read: get it from a copy, or go back by one command.

    That command is theirs to give: what came after the change it goes back to was acknowledged, and a copy may have it.
    """
    branch = layout.branch.removeprefix("refs/heads/")
    fetch = f"In {layout.git_dir}: `git fetch --refetch COPY {branch}` gets it back from a clone that has it"
    store, tried = layout.open(), 0
    with contextlib.suppress(KgdError):
        head = refs.read_ref(layout.git_dir, refs.HEAD)
        logged = [line.new for line in reversed(refs.read_log(layout.git_dir, refs.HEAD))]
        known = [*logged, *_last_checkpoint(layout).values(), refs.read_ref(layout.git_dir, layout.branch)]
        for id in dict.fromkeys(id for id in known if id and id != head):
            if tried == WAYS_TRIED:
                break
            tried += 1
            if ref_repair.is_whole(store, id) and _can_be_walked(store, id):
                back = f"`git update-ref refs/kgd/head {id.hex()}`"
                return f"{fetch}; without one, {back} goes back to the newest change that is whole."
    return f"{fetch}."


def loose_object_is_sound(path: Path, size_limit: int = SIZE_LIMIT) -> bool:
    """Whether the file inflates, wholly and to its end, to what its name says."""
    digest, inflate, size = hashlib.sha1(), zlib.decompressobj(), 0
    try:
        with open(path, "rb") as file:
            while part := file.read(1 << 16):
                while part and not inflate.eof:
                    out = inflate.decompress(part, 1 << 20)
                    digest.update(out)
                    size += len(out)
                    part = inflate.unconsumed_tail
                    if size > size_limit or (not out and not part):
                        break
                if inflate.eof or size > size_limit:
                    break
            rest = inflate.unused_data or file.read(1)
    except (OSError, zlib.error):
        return False
    return inflate.eof and not rest and digest.hexdigest() == path.parent.name + path.name


# ---- packs


def _settle_packs(layout: Layout, report: Report) -> None:
    """Finish what a killed flush left.

    A pack without index was never visible and goes. An intact one stays even if nothing leads to it: a gc that ran
    meanwhile skipped what this kept pack also holds, so it may be the only copy of an older object. Only its ``.keep``
    goes, and a later gc takes what is unreachable.
    """
    pack_dir = layout.git_dir / "objects" / "pack"
    graph_lock = layout.git_dir / "objects" / "info" / "commit-graph.lock"
    for leftover in (
        *pack_dir.glob("tmp_*"),
        graph_lock,
    ):  # of a killed gc or roll-up; upkeep is ours, nobody else prunes
        with contextlib.suppress(OSError):
            if time.time() - leftover.stat().st_mtime > _ABANDONED:
                leftover.unlink()
    for half in pack_dir.glob("*.kgd"):
        if not half.with_suffix(".idx").exists():
            half.with_suffix(".pack").unlink(missing_ok=True)
            half.with_suffix(".keep").unlink(missing_ok=True)
            report.removed_packs.append(half.stem)
        half.unlink()
    for keep in pack_dir.glob("pack-*.keep"):
        content = keep.read_bytes()[:16].strip(b"\0")
        if content not in (pack.KEEP, b""):
            continue
        stem = keep.with_suffix("")
        if not keep.with_suffix(".idx").exists():
            keep.with_suffix(".pack").unlink(missing_ok=True)
            report.removed_packs.append(stem.name)
        elif not pack.intact(stem):
            _set_aside(layout, [stem.with_suffix(suffix) for suffix in (".idx", ".pack", ".rev")])
            report.broken_packs.append(stem.name)
        elif content == b"":
            continue  # a person's own "keep this pack"; ours only after a power cut, and then it does no harm
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
        status = path.lstat()
        if max(status.st_mtime, status.st_ctime) < since:
            continue
        if time.monotonic() > end:
            report.unchecked += 1
        elif not loose_object_is_sound(path):
            _set_aside(layout, [path])
            report.broken_objects.append(path.parent.name + path.name)


def _loose_objects(objects: Path) -> list[Path]:
    """Newest first, so that a budget that runs out has reached what is most likely cut."""
    found = []
    for folder in os.scandir(objects):
        if len(folder.name) == 2 and folder.is_dir(follow_symlinks=False):
            for file in os.scandir(folder.path):
                name = file.name.removesuffix(".kgd")
                if len(name) == 38 and file.is_file(follow_symlinks=False):
                    found.append((file.stat(follow_symlinks=False).st_mtime, file.path))
    return [Path(path) for _, path in sorted(found, reverse=True)]


def _checked_until(layout: Layout) -> float:
    """The file system's own time of the last checkpoint; a clock that went backwards makes it worthless."""
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
    except (OSError, ValueError, KgdError, AttributeError):
        return {}


def _drop_overtaken_locks(layout: Layout, report: Report) -> None:
    """Remove locks of refs that hold what the ref held already: a power cut on btrfs brings them back.

    Replaying its log, btrfs restores the name that the lock of a completed move had, without the twin that
    `refs.drop_stale_locks` knows it by. A move that is still to come does not go back in history.
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
