"""This file is where a publication that was interrupted is finished, before anything looks at the work tree.

Forward, never back: files that already have their new bytes would otherwise read as a person's edits.
"""

from __future__ import annotations

import os

from kgd.errors import KgdError
from kgd.git.files import same_file
from kgd.git.objects import ObjectId
from kgd.git.refs import RefMoved, move_ref
from kgd.git.walk import Lookup
from kgd.workspace.adoption import Host
from kgd.workspace.aside import Aside, Placement, Plan, finished
from kgd.workspace.hand_edits import HandEdits
from kgd.workspace.work_tree import Odd, WorkTree

LOOKED_THROUGH = 1_000
"""Commits in which a file's bytes are looked for, at a start after a publication that was given up."""
INDEX = "index.new"
"""The index that a publication prepares. A lock with the same inode is ours, whoever made it."""


def finish_interrupted(host: Host, tree: WorkTree, aside: Aside, edits: HandEdits) -> None:
    """Finish what the newest plan says if its lock still stands, and clear away what is ours. Idempotent.

    While that lock stands no git command can have committed half-placed files. Bytes that are not of the plan are a
    person's: they stay, and are looked at later like any hand edit. A lock of somebody else is not touched.
    """
    git_dir, derived = host.layout.git_dir, host.layout.derived_dir
    mine, lock = derived / INDEX, git_dir / "index.lock"
    plan = aside.load()
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


def know_given_up(host: Host, tree: WorkTree, aside: Aside, edits: HandEdits) -> None:
    """What a publication placed that was given up is ours, and what a person made of it started from that.

    Whatever became of those files at the tip since (one that was deleted there again is in no commit between), and
    wherever the person's own commits took the branch.
    """
    plan, store, branch = aside.unfinished, host.store, host.store.ref(host.layout.branch)
    if plan is None or branch is None or not store.exists(plan.after) or store.is_ancestor(plan.after, branch):
        return
    published = Lookup(store.tree, store.tree_of(branch))
    is_lost = not store.is_ancestor(plan.after, bytes.fromhex(host.tip))  # the tip was taken back behind it
    for file in plan.files:
        there, placed = tree.look(file.path), file.taken | {file.new}
        if is_lost and file.back:
            continue
        if there.odd or there.id == published.entry(file.path):
            continue
        if there.id in placed:
            edits.unpublished.lies(file.path, there.id)
        else:
            for blob in filter(None, placed):
                edits.buffers.note(file.path, None, edits.unpublished.text(blob))


def know_own(host: Host, published: ObjectId | None, tip: ObjectId, tree: WorkTree, edits: HandEdits) -> None:
    """Tell bytes that a former process placed and then gave up publishing from a person's edits.

    They are a version between the published one and the tip, which nobody but kgd can have put there. Looked for only
    where a file is neither as it is published nor as it is at the tip, for when the plan is not there any more.
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
            edits.unpublished.lies(path, unknown.pop(path))


def _roll_forward(host: Host, plan: Plan, tree: WorkTree, edits: HandEdits) -> bool:
    """Whether the branch is where the plan leads."""
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
                edits.unpublished.lies(file.path, file.new)
        return False
    return True


def _place(host: Host, file: Placement, tree: WorkTree, edits: HandEdits, plan: Plan, number: int) -> None:
    there = tree.look(file.path)
    if there.odd:
        raise Odd(file.path, there.odd)
    if there.id not in file.known:
        edits.unpublished.passed(file.path, file.base)
    elif there.id != file.new:
        slot = plan.place / f"{number}.again"
        if file.new is None:
            tree.take_away(file.path, slot)
        else:
            tree.prepare(host.store.read(file.new), slot)
            tree.place(file.path, slot)
