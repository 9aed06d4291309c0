"""The merge strategy `git-merge-kgd`, with which `git merge`, `git pull` and `git rebase` merge like the daemon.

git calls a merge driver for one file at a time, and never for a file that one side deleted or moved. `kgd install`
therefore configures a strategy (``pull.twohead = kgd``): the daemon's own function merges whole trees in memory, git
updates index and work tree without overwriting uncommitted changes, and git commits. The result equals the daemon's
byte for byte. git uses the same strategy for rebase, cherry-pick and revert.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kgd.errors import Invalid, InvariantViolation, KgdError, Unavailable
from kgd.git.layout import locate
from kgd.git.objects import ObjectId, parse_id
from kgd.git.program import GitFailed
from kgd.git.staging import Staging
from kgd.git.store import ObjectStore
from kgd.hooks.clone import Clone, of_command, refuse_redirection, settings_in
from kgd.model.conflict import Conflict
from kgd.workspace.merging.histories import merge_commits
from kgd.workspace.merging.trees import MergedTree, merge_trees

MERGED, CANNOT = 0, 2
"""Exit codes for git: with 0 it commits the index; 2 means that nothing changed. (1 would hand over to the user.)"""
_SHOWN = 10


class NotForKgd(Exception):
    """Not a workspace, or a repository that kgd cannot read: git's own strategy is used."""


def main() -> int:
    """The program `git-merge-kgd <base>... -- <head> <remote>`, as git starts it at the top of a work tree."""
    from kgd.config import git_variables

    return run(sys.argv[1:], Path.cwd(), git_variables())


def run(words: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> int:
    """Merge, and update index and work tree. Returns an exit code; with `CANNOT` nothing was changed."""
    try:
        refuse_redirection(environment, ("GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"))
        clone = of_command(cwd, environment)
        sides = _sides(clone, words)
        tree, conflicts = _merge(clone, sides)
        _update_work_tree(clone, sides.ours, tree)
    except NotForKgd as reason:
        sys.stderr.write(f"kgd: {reason}; git merges without kgd\n")
        sys.stderr.flush()
        os.execvp("git", ["git", "merge-recursive", *words])
    except KgdError as refusal:
        sys.stderr.write(f"kgd: {refusal}\n")
        return CANNOT
    except GitFailed as failed:
        sys.stderr.write(f"{failed.said}\n")
        return CANNOT
    _report(clone, conflicts)
    return MERGED


@dataclass(frozen=True, slots=True)
class Sides:
    """The sides of a merge. `ours` is a tree; `head` is its commit, or None for uncommitted picks."""

    bases: tuple[ObjectId, ...]
    head: ObjectId | None
    ours: ObjectId
    theirs: ObjectId


def _sides(clone: Clone, words: Sequence[str]) -> Sides:
    at = words.index("--") if "--" in words else len(words)
    bases, sides = words[:at], words[at + 1 :]
    if options := [word for word in bases if word.startswith("-")]:
        raise Invalid(
            f"nodes are merged by field, so {options[0][:40]} (-X) has no effect",
            next="Leave it out, or use git's own strategy with `-s ort`.",
        )
    if len(sides) != 2:
        raise Invalid("only two commits can be merged at a time", next="Merge one branch after the other.")
    head, other = sides
    names = [*(f"{base}^{{commit}}" for base in bases), f"{other}^{{commit}}", f"{head}^{{tree}}"]
    *commits, theirs, ours = (_resolved(clone, name) for name in names)
    try:
        return Sides(tuple(sorted(commits)), _resolved(clone, f"{head}^{{commit}}"), ours, theirs)
    except GitFailed:
        return Sides(tuple(sorted(commits)), None, ours, theirs)


def _resolved(clone: Clone, name: str) -> ObjectId:
    return parse_id(clone.git("rev-parse", "--verify", "-q", name).strip())


def _merge(clone: Clone, sides: Sides) -> tuple[ObjectId, tuple[Conflict, ...]]:
    """Merge and store the result; returns its tree, and the conflicts recorded in it."""
    store = _open(clone)
    sharded = _sharded(store, sides.ours, store.tree_of(sides.theirs))
    merged = _merged_tree(store, sides, sharded)
    staging = Staging(store, sides.ours)
    staging.write(merged.files)
    tree = staging.write_tree()
    if staging.objects:
        store.release(store.write(staging.objects))
    return tree, merged.conflicts


def _merged_tree(store: ObjectStore, sides: Sides, sharded: frozenset[str]) -> MergedTree:
    """The tree of a merge, or of one applied commit (cherry-pick, rebase, revert), whose base is not an ancestor."""
    if sides.head is not None and list(sides.bases) == store.merge_bases(sides.head, sides.theirs):
        return merge_commits(store, sides.head, sides.theirs, sharded)
    if len(sides.bases) > 1:
        raise Invalid("a change needs exactly one base", next="Use `git merge -s ort`, which calls the merge driver.")
    base = store.tree_of(sides.bases[0]) if sides.bases else None
    return merge_trees(store, base, sides.ours, store.tree_of(sides.theirs), sharded)


def _open(clone: Clone) -> ObjectStore:
    try:
        return clone.open()
    except Unavailable as kind:
        raise NotForKgd(kind.message) from None


def _sharded(store: ObjectStore, ours: ObjectId, theirs: ObjectId) -> frozenset[str]:
    settings, other = settings_in(store, ours), settings_in(store, theirs)
    if settings is None or other is None:
        raise NotForKgd("one side is not a workspace")
    if (settings.workspace, settings.sharded) != (other.workspace, other.sharded):
        raise InvariantViolation(
            f"'{settings.workspace}' and '{other.workspace}' are different workspaces, or are sharded differently",
            next="They cannot be merged; copy nodes from one to the other instead.",
        )
    return settings.sharded


def _update_work_tree(clone: Clone, ours: ObjectId, tree: ObjectId) -> None:
    """Update index and work tree from `ours` to `tree` with git, which refuses to overwrite uncommitted changes."""
    staged = clone.git("diff-index", "--cached", "--name-only", "-z", ours.hex(), "--").split(b"\0")[:-1]
    if staged:
        raise InvariantViolation(
            f"{len(staged)} staged changes would become part of the merge",
            at=os.fsdecode(staged[0]),
            next="Commit them, or run `git stash`.",
        )
    clone.git("read-tree", "-m", "-u", ours.hex(), tree.hex())


def _report(clone: Clone, conflicts: Sequence[Conflict]) -> None:
    """Report conflicts before git commits, because git does not see them."""
    if not conflicts:
        return
    number = f"{len(conflicts)} nodes were" if len(conflicts) > 1 else "1 node was"
    sys.stderr.write(f"kgd: {number} written differently on the two sides; both versions are kept under conflicts/\n")
    for conflict in conflicts[:_SHOWN]:
        sys.stderr.write(f"     {conflict.uri}: {', '.join(sorted(conflict.fields))}\n")
    if len(conflicts) > _SHOWN:
        sys.stderr.write(f"     and {len(conflicts) - _SHOWN} more\n")
    if locate(clone.top or clone.git_dir) is None:
        sys.stderr.write("     run `kgd up` in this clone first, so that a daemon knows it\n")
    sys.stderr.write("     `kgd conflicts` shows them; `kgd resolve` chooses a version\n")
