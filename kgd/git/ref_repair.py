"""Repair of refs at startup: lost or damaged values are restored, and commits dropped by hand stay reachable.

The reflog is the source, since each move is written there before the ref changes. Deleting a ref with git deletes its
reflog, so a reflog without a ref means that the ref was lost.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from kgd.errors import KgdError
from kgd.git import program, refs
from kgd.git.files import replace
from kgd.git.layout import Layout
from kgd.git.objects import ObjectId
from kgd.git.store import ObjectStore

KEPT = "refs/kgd/kept/head/"
"""Prefix of the refs that keep the earlier tips when ``refs/kgd/head`` is moved back by hand."""
LINES_READ = 200
"""Number of the newest reflog lines that are searched for a move by hand."""
_LOGGED = ("refs/kgd", "refs/heads")


@dataclass(slots=True)
class Repair:
    """The restored refs, and a sentence for each that could not be restored."""

    repaired: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def repair(layout: Layout, good: dict[str, ObjectId]) -> Repair:
    """Restore the last value of lost and damaged refs; `good` has the values at the last checkpoint.

    Without a reflog, ``refs/kgd/head`` gets the newer of its value at the checkpoint and the branch. Later commits that
    are still in the repository are kept under separate refs.
    """
    done, git_dir, scratch = Repair(), layout.git_dir, layout.derived_dir
    if repair_head_file(layout):
        done.repaired.append("HEAD")
    if refs.mend_packed_refs(git_dir, scratch):
        done.repaired.append("packed-refs")
    for name in (layout.branch, refs.HEAD, *_lost(git_dir)):
        try:
            is_lost = (value := refs.read_ref(git_dir, name)) is None
            if value is not None or (name != refs.HEAD and not refs.read_log(git_dir, name)):
                if is_lost and name in good:
                    done.notes.append(f"{name} is gone; it was {good[name].hex()}")
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
                done.repaired.append(name)
                for newer in _dangling(layout, tip) if name == refs.HEAD and not logged else ():
                    keep(layout, newer, tip)
            elif not is_lost or name == refs.HEAD:
                done.notes.append(f"{name} is damaged, and no earlier good value is known")
    return done


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
