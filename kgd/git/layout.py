"""The location of a workspace's repository.

A standalone workspace is an ordinary repository. In a code repository the workspace is a repository inside the code's
common git directory (``.git/kgd``), so that every worktree finds the same one. Its work tree is ``.kgd/``, tied by
relative links both ways, like an absorbed submodule: it can be moved, and a copied folder is independent. The only
change to the code repository is a line in ``info/exclude``.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pygit2

from kgd.errors import Damaged, KgdError
from kgd.git import refs
from kgd.git.discovery import Place, find_place, is_workspace, setting
from kgd.git.store import ObjectStore

FORMAT = 1
WORK_TREE = ".kgd"
CODE_BRANCH = "refs/heads/kgd"
OWN_BRANCH = "refs/heads/main"
RETIRED = "kgd.removed"
"""The name of the git directory after a workspace was removed from a code repository."""
_GIT_DIR = "kgd"
_MARK_LIMIT = 1 << 16
_MARKS = re.compile(rb"(?ms)^format:.*^workspace:|^workspace:.*^format:").search
"""Matches the settings of a workspace, and no other file of that name by chance."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one workspace's repository. Equal for every worktree of the same code repository.

    `code_tree` is the main work tree of the code; None for a standalone workspace and in a bare code repository.
    `branch` is the full name of the visible branch.
    """

    git_dir: Path
    work_tree: Path
    code_tree: Path | None
    branch: str

    @property
    def derived_dir(self) -> Path:
        """Data that can be rebuilt, beside the objects: index, snapshot, locks, intents."""
        return self.git_dir / "kgd"

    @property
    def in_code(self) -> bool:
        """Whether it lives in a code repository."""
        return self.work_tree != self.git_dir.parent

    def open(self) -> ObjectStore:
        """The open repository. After `kgd.git.integrity.recover` only: libgit2 hangs on a cut loose object."""
        return ObjectStore(self.git_dir, self.work_tree)


def locate(directory: Path) -> Layout | None:
    """The workspace of a directory: any folder of the code, of any worktree, or of ``.kgd``. None if there is none.

    Costs a few file look-ups and ignores the environment.
    """
    place = find_place(directory)
    if place is None:
        return None
    inside = place.common_dir / _GIT_DIR
    if is_workspace(inside):
        return code_layout(place)
    if not is_workspace(place.common_dir):
        return None
    if place.common_dir.name == _GIT_DIR:
        outer = find_place(place.common_dir.parent)
        if outer and outer.common_dir == place.common_dir.parent:
            return code_layout(outer)
    return standalone_layout(place)


def check_configuration(directory: Path) -> None:
    """Check the configuration of a directory's repositories, without which `locate` finds no workspace.

    Raises:
        Damaged: git cannot read it.
    """
    place = find_place(directory)
    for git_dir in (place.common_dir / _GIT_DIR, place.common_dir) if place else ():
        config = git_dir / "config"
        try:
            if config.is_file():
                pygit2.Config(str(config)).get_multivar("kgd.format")
        except (OSError, pygit2.GitError) as error:
            raise Damaged(
                f"git cannot read the configuration of a repository: {error}",
                at=str(config),
                next=f"Mend the named line; `git config -f {shlex.quote(str(config))} --list` checks the file.",
            ) from None


def code_root(directory: Path) -> Path | None:
    """The top of the work tree that holds the directory, None outside of any repository."""
    place = find_place(directory)
    return place.top if place else None


def removed(layout: Layout) -> Path | None:
    """The repository that an earlier `remove` kept, and that creating a workspace restores."""
    kept = layout.git_dir.with_name(RETIRED)
    return kept if layout.in_code and is_workspace(kept) else None


def code_layout(place: Place) -> Layout:
    """The paths that a workspace of this code repository has, whether it exists or not."""
    git_dir = place.common_dir / _GIT_DIR
    # A bare repository has no main work tree, and linked worktrees come and go.
    above = place.main_tree or place.common_dir
    return Layout(git_dir, above / WORK_TREE, place.main_tree, CODE_BRANCH)


def standalone_layout(place: Place) -> Layout:
    branch = setting(place.common_dir, "kgd.branch") or OWN_BRANCH
    return Layout(place.common_dir, place.main_tree or place.common_dir, None, branch)


def is_clone(place: Place) -> bool:
    """Whether a standalone workspace, not code, is checked out there: the result of a plain ``git clone``."""
    branch = refs.checked_out(place.common_dir)
    tip = refs.read_ref(place.common_dir, branch) if branch and place.top == place.main_tree else None
    if tip is None:
        return False
    try:
        store = ObjectStore(place.common_dir)
        top = store.tree(store.tree_of(tip))
        data = store.read(top[b"kgd.yaml"][1], _MARK_LIMIT) if b"kgd.yaml" in top else b""
    except KgdError:
        return False
    return b".gitattributes" in top and _MARKS(data) is not None
