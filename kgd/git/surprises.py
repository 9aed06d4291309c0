"""This file is where a repository is refused whose own settings would lead kgd elsewhere, or that it cannot read."""

from __future__ import annotations

from pathlib import Path

import pygit2

from kgd.errors import Unavailable


def refuse_surprises(git_dir: Path, work_tree: Path | None) -> None:
    """libgit2 obeys what a repository's own configuration says; refuse what would lead elsewhere or cannot be read.

    Raises:
        Unavailable: Said with what to do.
    """
    try:
        config = pygit2.Config(str(git_dir / "config"))
        found = {entry.name.lower(): entry.value for entry in config}
    except (pygit2.GitError, OSError) as error:
        raise Unavailable(f"the repository's config cannot be read: {error}", at=str(git_dir)) from error
    place = str(git_dir)
    if found.get("extensions.objectformat", "sha1") != "sha1":
        raise Unavailable("the repository uses SHA-256, kgd reads SHA-1", at=place, next="Make it with sha1.")
    if found.get("extensions.refstorage", "files") != "files":
        raise Unavailable("the repository keeps its refs as reftable", at=place, next="Run `git refs migrate`.")
    if "extensions.partialclone" in found or any(n.endswith(".promisor") for n in found):
        raise Unavailable("the repository is a partial clone", at=place, next="Clone it without --filter.")
    if found.get("extensions.worktreeconfig", "false") == "true":
        raise Unavailable("the repository has configuration per worktree", at=place, next="Remove the extension.")
    elsewhere = found.get("core.worktree")
    if elsewhere is not None and not _expected(git_dir, elsewhere, work_tree):
        raise Unavailable("core.worktree leads somewhere else", at=place, next="Remove it from the config.")
    alternates = git_dir / "objects" / "info" / "alternates"
    if alternates.exists() and alternates.read_bytes().strip():
        raise Unavailable(
            "the repository borrows objects from another one", at=place, next="Run `git repack -ad`, remove alternates."
        )


def _expected(git_dir: Path, named: str, work_tree: Path | None) -> bool:
    place = (git_dir / named).resolve()
    return place == work_tree.resolve() if work_tree else place.name == ".kgd"
