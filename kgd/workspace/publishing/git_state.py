"""The state of git in the user's work tree, read from the files of the git directory.

Reading it takes a dozen file look-ups and runs no program, so the cost of an idle pass does not depend on the size of
the workspace.
"""

from __future__ import annotations

import os
import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from kgd.git import index_file
from kgd.git.objects import ObjectId
from kgd.git.refs import read_ref

LOCK_PATIENCE = 60.0
"""Age in seconds from which a lock of another program is reported, with the command that removes it. kgd never removes
such a lock."""

_HOW_TO_END = {
    "MERGE_HEAD": ("a merge", "git merge --continue", "git merge --abort"),
    "CHERRY_PICK_HEAD": ("a cherry-pick", "git cherry-pick --continue", "git cherry-pick --abort"),
    "REVERT_HEAD": ("a revert", "git revert --continue", "git revert --abort"),
    "rebase-merge": ("a rebase", "git rebase --continue", "git rebase --abort"),
    "rebase-apply": ("a rebase or `git am`", "git rebase --continue", "git rebase --abort"),
    "BISECT_LOG": ("a bisect", "", "git bisect reset"),
    "sequencer": ("a sequence of picks", "git cherry-pick --continue", "git cherry-pick --abort"),
}


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


def busy(found: Signature, git_dir: Path, branch: str, *, clock: float | None = None) -> Busy | None:
    """The git operation that a person began but has not finished; None if there is no such operation."""
    name = branch.removeprefix("refs/heads/")
    for state in found.states:
        if state in _HOW_TO_END:
            what, onward, back = _HOW_TO_END[state]
            ways = " or ".join(f"`{way}`" for way in (onward, back) if way)
            return Busy(f"{what} is under way in the work tree; end it with {ways}", stuck=True)
    if "index.lock" in found.states or "HEAD.lock" in found.states:
        lock = git_dir / ("index.lock" if "index.lock" in found.states else "HEAD.lock")
        return locked(lock, clock) or Busy("a git command has just ended")
    if found.head.strip() != b"ref: " + branch.encode():
        if found.head.startswith(b"ref: "):
            other = found.head[5:].strip().decode("utf-8", "replace").removeprefix("refs/heads/")
            return Busy(f"the branch '{other}' is checked out; `git switch {name}` resumes publication", stuck=True)
        return Busy(f"HEAD is detached; `git switch {name}` resumes publication", stuck=True)
    if found.branch is None:
        return Busy(f"the branch '{name}' is missing; `git branch {name} refs/kgd/head` restores it", stuck=True)
    return None


def locked(lock: Path, clock: float | None = None) -> Busy | None:
    """The state of one of git's locks; None if the lock is absent."""
    try:
        age = (time.time() if clock is None else clock) - os.lstat(lock).st_mtime
    except FileNotFoundError:
        return None
    if age < LOCK_PATIENCE:
        return Busy("a git command is running in the work tree")
    return Busy(
        f"{lock.name} is {int(age)} s old; if no git command is running: rm {shlex.quote(str(lock))}", stuck=True
    )
