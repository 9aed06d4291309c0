"""This file is where `git merge`, `git pull` and `git rebase` merge as the daemon does: the program `git-merge-kgd`.

git asks a merge driver for one file at a time, and never for one that a side deleted or moved. So `kgd install` names
a strategy instead (``pull.twohead = kgd``): the whole three-way is made in memory by the daemon's own function, git
itself brings index and work tree there, over nothing that is not committed, and git makes the commit. Both trees are
equal byte for byte. git asks the same strategy to apply one commit elsewhere (rebase, cherry-pick, revert).
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
from kgd.workspace.integrate import merge_commits
from kgd.workspace.merge_tree import MergedTree, merge_trees

MERGED, CANNOT = 0, 2
"""What git understands: 0, commit what the index holds; 2, nothing was done. (1 would be: a person has to end it.)"""
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Merged:
    """A tree whose objects are stored. `conflicts` are those that this merge added records of."""

    tree: ObjectId
    conflicts: tuple[Conflict, ...]


class OtherKind(Exception):
    """What is merged is no workspace, or lies in a repository that kgd does not read: git's own strategy is right."""


def main() -> int:
    """The program `git-merge-kgd <base>... -- <head> <remote>`, as git starts it at the top of a work tree."""
    from kgd.config import git_variables

    return run(sys.argv[1:], Path.cwd(), git_variables())


def run(words: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> int:
    """Merge, and bring index and work tree there. Returns an exit code; after `CANNOT` nothing was changed."""
    try:
        refuse_redirection(environment, ("GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"))
        clone = of_command(cwd, environment)
        sides = _sides(clone, words)
        merged = _merge(clone, sides)
        _bring(clone, sides.ours, merged.tree)
    except OtherKind as reason:
        sys.stderr.write(f"kgd: {reason}; git merges by itself\n")
        sys.stderr.flush()
        os.execvp("git", ["git", "merge-recursive", *words])
    except KgdError as refusal:
        sys.stderr.write(f"kgd: {refusal}\n")
        return CANNOT
    except GitFailed as failed:
        sys.stderr.write(f"{failed.said}\n")
        return CANNOT
    _tell(clone, merged.conflicts)
    return MERGED


@dataclass(frozen=True, slots=True)
class Sides:
    """What git wants merged. `ours` is a tree; `head` its commit, None where picks pile up without being committed."""

    bases: tuple[ObjectId, ...]
    head: ObjectId | None
    ours: ObjectId
    theirs: ObjectId


def _sides(clone: Clone, words: Sequence[str]) -> Sides:
    at = words.index("--") if "--" in words else len(words)
    bases, sides = words[:at], words[at + 1 :]
    if options := [word for word in bases if word.startswith("-")]:
        raise Invalid(
            f"nodes are merged by field, where {options[0][:40]} (-X) has no meaning",
            next="Leave it out, or use git's own strategy with `-s ort`.",
        )
    if len(sides) != 2:
        raise Invalid("two commits are merged at a time", next="Merge one branch after the other.")
    head, other = sides
    names = [*(f"{base}^{{commit}}" for base in bases), f"{other}^{{commit}}", f"{head}^{{tree}}"]
    *commits, theirs, ours = (_resolved(clone, name) for name in names)
    try:
        return Sides(tuple(sorted(commits)), _resolved(clone, f"{head}^{{commit}}"), ours, theirs)
    except GitFailed:
        return Sides(tuple(sorted(commits)), None, ours, theirs)


def _resolved(clone: Clone, name: str) -> ObjectId:
    return parse_id(clone.git("rev-parse", "--verify", "-q", name).strip())


def _merge(clone: Clone, sides: Sides) -> Merged:
    store = _open(clone)
    sharded = _sharded(store, sides.ours, store.tree_of(sides.theirs))
    merged = _merged_tree(store, sides, sharded)
    staging = Staging(store, sides.ours)
    staging.write(merged.files)
    tree = staging.write_tree()
    if staging.objects:
        store.release(store.write(staging.objects))
    return Merged(tree, merged.conflicts)


def _merged_tree(store: ObjectStore, sides: Sides, sharded: frozenset[str]) -> MergedTree:
    """A merge; or what one commit did (cherry-pick, rebase, revert): then git names a base that is no ancestor."""
    if sides.head is not None and list(sides.bases) == store.merge_bases(sides.head, sides.theirs):
        return merge_commits(store, sides.head, sides.theirs, sharded)
    if len(sides.bases) > 1:
        raise Invalid("a change is applied against one base", next="Use `git merge -s ort`, which asks the driver.")
    base = store.tree_of(sides.bases[0]) if sides.bases else None
    return merge_trees(store, base, sides.ours, store.tree_of(sides.theirs), sharded)


def _open(clone: Clone) -> ObjectStore:
    try:
        return clone.open()
    except Unavailable as kind:
        raise OtherKind(kind.message) from None


def _sharded(store: ObjectStore, ours: ObjectId, theirs: ObjectId) -> frozenset[str]:
    settings, other = settings_in(store, ours), settings_in(store, theirs)
    if settings is None or other is None:
        raise OtherKind("one side is no workspace")
    if (settings.workspace, settings.sharded) != (other.workspace, other.sharded):
        raise InvariantViolation(
            f"'{settings.workspace}' and '{other.workspace}' are two workspaces, or are stored in two ways",
            next="They stay apart; copy nodes from one to the other instead.",
        )
    return settings.sharded


def _bring(clone: Clone, ours: ObjectId, tree: ObjectId) -> None:
    """Index and work tree from `ours` to `tree`, by git itself: it refuses where something is not committed."""
    staged = clone.git("diff-index", "--cached", "--name-only", "-z", ours.hex(), "--").split(b"\0")[:-1]
    if staged:
        raise InvariantViolation(
            f"{len(staged)} staged changes would become part of the merge", at=os.fsdecode(staged[0]),
            next="Commit them, or put them aside with `git stash`.",
        )  # fmt: skip
    clone.git("read-tree", "-m", "-u", ours.hex(), tree.hex())


def _tell(clone: Clone, conflicts: Sequence[Conflict]) -> None:
    """Never silent: a conflict that git does not see is told of before git commits it."""
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
    sys.stderr.write("     `kgd conflicts` shows them, `kgd resolve` settles them\n")
