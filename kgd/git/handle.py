"""Handles of libgit2 on repositories: freed when the last reference goes, some 10 KiB each."""

from __future__ import annotations

from pathlib import Path

import pygit2


def open_bare(git_dir: Path) -> pygit2.Repository:
    """Open a repository as if it were bare. Raises as `pygit2.Repository`."""
    repository = pygit2.Repository(str(git_dir), pygit2.enums.RepositoryOpenFlag.BARE)
    # Each of these refers back to the repository, which only the garbage collector would then free.
    del repository.branches, repository.references, repository.remotes, repository.submodules
    return repository
