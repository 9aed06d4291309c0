"""Git repositories: the one that contains a directory, found without git, and opening it with libgit2.

Asking git instead would let the environment (GIT_DIR and others), the user's configuration and ownership checks decide
where a workspace is.

Threads share the handle of a repository and take turns, because pygit2 holds the interpreter's lock in most calls. It
releases the lock in `Repository.walk` and in all functions that it calls through cffi, such as `ahead_behind` and
`blame`. These must not be used with a shared handle: libgit2 would then refresh, read and free packs at the same time.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pygit2

from kgd.errors import NotFound, Unavailable


@dataclass(frozen=True, slots=True)
class Place:
    """A repository as seen from one directory.

    `top` is the work tree that holds the directory (None in a bare repository or inside a git directory), `git_dir`
    its git directory, `common_dir` the directory shared by all worktrees, `main_tree` the main work tree (None if
    bare).
    """

    top: Path | None
    git_dir: Path
    common_dir: Path
    main_tree: Path | None


def find_place(directory: Path) -> Place | None:
    """The nearest repository at or above the directory; None if there is none.

    Raises:
        Unavailable: A folder on the way cannot be read.
    """
    if "\0" in os.fspath(directory):
        return None
    directory = directory.resolve()
    for at in (directory, *directory.parents):
        try:
            found = _place_at(at)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                continue  # a repository cannot exist there
            reason = f"this folder cannot be read: {error.strerror}"
            raise Unavailable(reason, at=str(at), next="Check its permissions.") from None
        if found:
            return found
    return None


def repository_of(directory: Path, next: str) -> Place:
    """Like `find_place`, but raises NotFound, with the next step, if there is no repository."""
    if (place := find_place(directory)) is None:
        raise NotFound("there is no git repository here", at=str(directory), next=next)
    return place


def _place_at(at: Path) -> Place | None:
    dot = at / ".git"
    if dot.is_file():
        target = _gitdir_line(dot)
        if target and _is_git_dir(target):
            return _place(at, target)
    elif _is_git_dir(dot):
        return _place(at, dot.resolve())
    return _place(None, at) if _is_git_dir(at) else None


def _place(top: Path | None, git_dir: Path) -> Place:
    common = _common_dir(git_dir)
    if top is not None and git_dir == common:
        return Place(top, git_dir, common, top)
    return Place(top, git_dir, common, _main_tree(common))


def _is_git_dir(path: Path) -> bool:
    """Git's own test: a worktree's git directory has ``commondir`` instead of objects and refs.

    A workspace without HEAD or refs is accepted as well: they are restored at startup.
    """
    has_head = (path / "HEAD").is_file()
    if has_head and (path / "commondir").is_file():
        return True
    return (path / "objects").is_dir() and ((has_head and (path / "refs").is_dir()) or is_workspace(path))


def is_workspace(git_dir: Path) -> bool:
    """Whether a git directory is marked as a workspace's, and has a folder for objects."""
    return (git_dir / "objects").is_dir() and setting(git_dir, "kgd.format") is not None


def is_shallow(git_dir: Path) -> bool:
    """Whether the repository lacks its history before some commits, as after ``git clone --depth``."""
    try:
        return (git_dir / "shallow").stat().st_size > 0
    except OSError:
        return False


def is_partial(git_dir: Path) -> bool:
    """Whether the repository may lack objects, as after ``git clone --filter``; git would fetch them when needed."""
    try:
        names = [entry.name.lower() for entry in pygit2.Config(str(git_dir / "config"))]
    except (pygit2.GitError, OSError):
        return False
    return _names_promisor(names)


def _names_promisor(names: Iterable[str]) -> bool:
    return any(name == "extensions.partialclone" or name.endswith(".promisor") for name in names)


def _gitdir_line(dot: Path) -> Path | None:
    content = dot.read_bytes()[:4096].decode("utf-8", "surrogateescape")
    if not content.startswith("gitdir:"):
        return None
    return (dot.parent / content[7:].strip()).resolve()


def _common_dir(git_dir: Path) -> Path:
    try:
        named = (git_dir / "commondir").read_text(errors="surrogateescape").strip()
    except (FileNotFoundError, NotADirectoryError):
        return git_dir
    return (git_dir / named).resolve()


def setting(git_dir: Path, key: str) -> str | None:
    """One value of the repository's own configuration; None if the value is not set or cannot be read."""
    try:
        values = [value for file in config_files(git_dir) for value in pygit2.Config(str(file)).get_multivar(key)]
    except (OSError, pygit2.GitError):
        return None
    return str(values[-1]) if values else None


def config_files(git_dir: Path) -> list[Path]:
    """The files of a repository's own configuration; a later one takes precedence.

    git writes the second one for settings of the main work tree, such as those of `git sparse-checkout`, and moves
    core.worktree there. Raises as `pygit2.Config`.
    """
    shared, own = git_dir / "config", git_dir / "config.worktree"
    if own.is_file():
        config = pygit2.Config(str(shared))
        if "extensions.worktreeConfig" in config and config.get_bool("extensions.worktreeConfig"):
            return [shared, own]
    return [shared]


def _main_tree(common: Path) -> Path | None:
    named = setting(common, "core.worktree")
    if named:  # a submodule: its git directory is inside that of the outer repository
        return (common / named).resolve()
    bare = setting(common, "core.bare")
    return None if bare == "true" or (bare is None and common.name != ".git") else common.parent


def open_bare(git_dir: Path) -> pygit2.Repository:
    """Open a repository as bare; libgit2's handle (some 10 KiB) is freed with the last reference. Raises as
    `pygit2.Repository`."""
    repository = pygit2.Repository(str(git_dir), pygit2.enums.RepositoryOpenFlag.BARE)
    # Each of these refers back to the repository, so that only the garbage collector would free it.
    del repository.branches, repository.references, repository.remotes, repository.submodules
    return repository


def check_configuration(git_dir: Path, work_tree: Path | None) -> None:
    """Refuse a repository that kgd cannot read, or whose own configuration would lead libgit2 elsewhere.

    Raises:
        Unavailable: The message names the necessary change.
    """
    try:
        files = [pygit2.Config(str(file)) for file in config_files(git_dir)]
        found = {entry.name.lower(): entry.value for config in files for entry in config}
    except (pygit2.GitError, OSError) as error:
        raise Unavailable(f"the repository's config cannot be read: {error}", at=str(git_dir)) from error
    elsewhere = found.get("core.worktree")
    alternates = git_dir / "objects" / "info" / "alternates"
    problems = (
        (
            found.get("extensions.objectformat", "sha1") != "sha1",
            "the repository uses SHA-256; kgd reads only SHA-1",
            "Create it with `git init --object-format=sha1`.",
        ),
        (
            found.get("extensions.refstorage", "files") != "files",
            "the repository stores its refs in the reftable format",
            "Run `git refs migrate --ref-format=files`.",
        ),
        (
            _names_promisor(found),
            "the repository is a partial clone",
            "Clone it again, without --filter.",
        ),
        (
            elsewhere is not None and not _is_expected(git_dir, elsewhere, work_tree),
            "core.worktree points to another directory",
            "Remove core.worktree from the config.",
        ),
        (
            alternates.exists() and bool(alternates.read_bytes().strip()),
            "the repository borrows objects from another repository",
            "Run `git repack -ad`, then remove objects/info/alternates.",
        ),
    )
    for has_problem, message, next_step in problems:
        if has_problem:
            raise Unavailable(message, at=str(git_dir), next=next_step)


def _is_expected(git_dir: Path, named: str, work_tree: Path | None) -> bool:
    place = (git_dir / named).resolve()
    return place == work_tree.resolve() if work_tree else place.name == ".kgd"
