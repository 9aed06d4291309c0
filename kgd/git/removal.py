"""This file is where a workspace's repository is let go: what kgd put around it goes, the knowledge itself stays."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pygit2

from kgd.git import refs
from kgd.git.layout import EXCLUDE, RETIRED, Layout
from kgd.git.objects import make


def remove(layout: Layout) -> Path:
    """Uninstall, and return where the knowledge is kept: the repository itself is never deleted.

    In a code repository ``.kgd/`` goes unless it holds something that is not committed, and the git directory is
    renamed, so that nothing finds it and `create_in_code_repository` brings it back. On its own only derived data go.
    """
    shutil.rmtree(layout.derived_dir, ignore_errors=True)
    if not layout.in_code:
        return layout.git_dir
    if _remove_published(layout):
        _unexclude(layout.git_dir.parent)
    kept = layout.git_dir.with_name(RETIRED)
    number = 1
    while kept.exists():
        number += 1
        kept = layout.git_dir.with_name(f"{RETIRED}-{number}")
    layout.git_dir.rename(kept)
    _untie(kept)
    return kept


def _untie(git_dir: Path) -> None:
    """Without a work tree it is bare; git would not open it while its configuration says otherwise."""
    config = pygit2.Config(str(git_dir / "config"))
    config["core.bare"] = True
    del config["core.worktree"]


def _unexclude(common_dir: Path) -> None:
    path = common_dir / "info" / "exclude"
    if path.exists():
        lines = path.read_bytes().split(b"\n")
        path.write_bytes(b"\n".join(line for line in lines if line != EXCLUDE.encode()))


def _remove_published(layout: Layout) -> bool:
    """Take away the files that are as the branch has them; whether nothing else was in the work tree."""
    store, tip = layout.open(), refs.read_ref(layout.git_dir, layout.branch)
    if not layout.work_tree.is_dir():
        return True
    for path, _, id in store.files(store.tree_of(tip)) if tip else ():
        file = layout.work_tree / path
        if file.is_file() and not file.is_symlink() and make("blob", file.read_bytes()).id == id:
            file.unlink()
    folders = [Path(folder) for folder, _, _ in os.walk(layout.work_tree, topdown=False)]
    for folder in folders:
        if folder != layout.work_tree and not any(folder.iterdir()):
            folder.rmdir()
    (layout.git_dir / "index").unlink(missing_ok=True)
    if [entry.name for entry in layout.work_tree.iterdir()] in ([], [".git"]):
        (layout.work_tree / ".git").unlink(missing_ok=True)
        layout.work_tree.rmdir()
        return True
    return False
