"""This file is where a publication that was interrupted is finished, before anything looks at the work tree.

Forward, never back: files that already have their new bytes would otherwise read as a person's edits.
"""

from __future__ import annotations

import os

from kgd.errors import KgdError
from kgd.git.files import same_file
from kgd.git.refs import RefMoved, move_ref
from kgd.workspace.adoption import Host
from kgd.workspace.aside import Aside, Placement, Plan
from kgd.workspace.hand_edits import HandEdits
from kgd.workspace.work_tree import Odd, WorkTree

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
        else:
            lock.unlink()
    mine.unlink(missing_ok=True)
    (derived / f"{INDEX}.lock").unlink(missing_ok=True)
    for part in tree.parts.glob("part-*"):
        part.unlink()


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
                edits.lies(file.path, file.new)
        return False
    return True


def _place(host: Host, file: Placement, tree: WorkTree, edits: HandEdits, plan: Plan, number: int) -> None:
    there = tree.look(file.path)
    if there.odd or there.id not in file.known:
        edits.passed(file.path, file.old)
    elif there.id != file.new:
        slot = plan.place / f"{number}.again"
        if file.new is None:
            tree.take_away(file.path, slot)
        else:
            tree.prepare(host.store.read(file.new), slot)
            tree.place(file.path, slot)
