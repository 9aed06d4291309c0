"""The location of a workspace's repository, and the name and email of its user.

A standalone workspace is an ordinary repository. In a code repository the workspace is a repository inside the code's
common git directory (``.git/kgd``), so that every worktree finds the same workspace. Its work tree is ``.kgd/``.
Relative paths link the two, as for an absorbed submodule: the folder of the code can be moved, and a copy of it is
independent. The only change to the code repository is a line in ``info/exclude``.

Name and email are resolved as git does.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import shlex
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pygit2

from kgd.errors import Damaged, KgdError, Unavailable
from kgd.git import program, refs
from kgd.git.discovery import Place, find_place, is_shallow, is_workspace, open_bare, setting
from kgd.git.store import ObjectStore
from kgd.model.change import Author

FORMAT = 1
WORK_TREE = ".kgd"
CODE_BRANCH = "refs/heads/kgd"
OWN_BRANCH = "refs/heads/main"
ORIGIN = "origin"
"""The remote that a clone is made from; a new workspace of a code repository is named after it."""
RETIRED = "kgd.removed"
"""The name that the git directory gets when a workspace is removed from a code repository."""
_GIT_DIR = "kgd"
_MARKED = ("kgd.yaml", ".gitattributes")
"""Files in the top folder of every workspace."""
_MARK_LIMIT = 1 << 16
_MARKS = re.compile(rb"(?ms)^format:.*^workspace:|^workspace:.*^format:").search
"""Matches the settings of a workspace, but not an unrelated file of that name."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one workspace's repository. They are equal for all worktrees of a code repository.

    `code_tree` is the main work tree of the code; None for a standalone workspace and in a bare code repository.
    `branch` is the full name of the visible branch.
    """

    git_dir: Path
    work_tree: Path
    code_tree: Path | None
    branch: str

    @property
    def derived_dir(self) -> Path:
        """The folder of data that can be rebuilt: index, snapshot, locks, intents."""
        return self.git_dir / "kgd"

    @property
    def in_code(self) -> bool:
        """Whether the workspace belongs to a code repository."""
        return self.work_tree not in (self.git_dir, self.git_dir.parent)

    @property
    def is_bare(self) -> bool:
        """Whether the workspace has no work tree."""
        return self.work_tree == self.git_dir

    @property
    def folder(self) -> Path:
        """The work tree; if there is none, the folder that holds ``.git``, or the bare repository itself."""
        return self.git_dir.parent if self.is_bare and self.git_dir.name == ".git" else self.work_tree

    @property
    def git_command(self) -> str:
        """The git program for a command in the work tree, as the user types it."""
        return git_in(self.folder)

    def open(self) -> ObjectStore:
        """Open the repository. Call `kgd.git.integrity.recover` first: libgit2 hangs on a truncated loose object.

        Raises:
            Unavailable: kgd cannot read the repository, or its history is incomplete because the clone is shallow.
        """
        if is_shallow(self.git_dir):
            # Versions and merges need the whole history, and a wrong version would let an edit overwrite another.
            raise Unavailable(
                "the repository is a shallow clone, which lacks older history",
                at=str(self.git_dir),
                next=f"Run `{self.git_command} fetch --unshallow`.",
            )
        return ObjectStore(self.git_dir, self.work_tree)


def locate(directory: Path) -> Layout | None:
    """The workspace that a directory belongs to. The directory may be any folder in the code, in a worktree, or in
    ``.kgd``. None if there is none.

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
    """Check the configuration of a directory's repositories; if git cannot read it, `locate` finds no workspace.

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
                next=f"Correct that line; `git config -f {shlex.quote(str(config))} --list` checks the file.",
            ) from None


def code_root(directory: Path) -> Path | None:
    """The top of the work tree that holds the directory, or None outside any repository."""
    place = find_place(directory)
    return place.top if place else None


def origin_of(place: Place) -> str:
    """The address of the remote that a clone is made from; empty without one."""
    return setting(place.common_dir, f"remote.{ORIGIN}.url") or ""


def project_name(directory: Path) -> str:
    """The name of the remote repository, so that two clones in differently named folders agree; without a remote, that
    of the top folder."""
    place = find_place(directory)
    url = origin_of(place) if place else ""
    name = url.rstrip("/").replace(":", "/").rsplit("/", 1)[-1].removesuffix(".git")
    if name.strip("."):  # `git clone .` leaves a URL without a name
        return name
    return ((place.top if place else None) or directory).name


def removed(layout: Layout) -> Path | None:
    """The repository that an earlier `remove` kept, and that creating a workspace restores."""
    kept = layout.git_dir.with_name(RETIRED)
    return kept if layout.in_code and is_workspace(kept) else None


def code_layout(place: Place) -> Layout:
    """The paths of this code repository's workspace, whether or not it exists."""
    git_dir = place.common_dir / _GIT_DIR
    # A bare repository has no main work tree, and linked worktrees come and go.
    above = place.main_tree or place.common_dir
    return Layout(git_dir, above / WORK_TREE, place.main_tree, CODE_BRANCH)


def own_layout(directory: Path, *, bare: bool = False) -> Layout:
    """The paths of a new standalone workspace in this directory."""
    return Layout(directory / ".git", directory / ".git" if bare else directory, None, OWN_BRANCH)


def standalone_layout(place: Place) -> Layout:
    branch = setting(place.common_dir, "kgd.branch") or OWN_BRANCH
    is_bare = setting(place.common_dir, "core.bare") == "true"
    return Layout(place.common_dir, (not is_bare and place.main_tree) or place.common_dir, None, branch)


def git_in(folder: Path) -> str:
    """The git program for a command in a folder, as the user types it. Without the folder, a copied command would run
    in the code tree."""
    return f"git -C {shlex.quote(str(folder))}"


def is_clone(place: Place) -> bool:
    """Whether a standalone workspace, not code, is checked out there: the result of a plain ``git clone``."""
    branch = refs.checked_out(place.common_dir) if place.top == place.main_tree else None
    if branch is None:
        return False
    try:  # git also reads repositories that kgd cannot read, such as partial clones
        listed = program.run(place.common_dir, [*program.LOCAL, "ls-tree", "-z", "--name-only", branch, "--", *_MARKED])
        if len(listed.split(b"\0")) <= len(_MARKED):
            return False
        settings = [*program.LOCAL, "cat-file", "blob", f"{branch}:kgd.yaml"]
        return _MARKS(program.run(place.common_dir, settings, limit=_MARK_LIMIT)) is not None
    except (KgdError, program.GitFailed):
        return False


KEYS = ("author.name", "user.name", "author.email", "user.email")
SIGNING = ("gpg.format", "user.signingkey")


def person(layout: Layout, own_file: str | None = None) -> Author:
    """The name and email of the user: from `author.*` or `user.*` in the workspace's configuration, otherwise in the
    configuration of the code repository and the user, otherwise login@host.

    Reads files only and starts no program; about 0.1 ms.

    Args:
        own_file: The user's configuration file if ``GIT_CONFIG_GLOBAL`` names one.
    """
    settings, login = _settings(layout, own_file), _login()
    name = settings.get("author.name") or settings.get("user.name") or login
    email = settings.get("author.email") or settings.get("user.email") or f"{login}@{socket.gethostname()}"
    return Author(name, email)


def is_known(layout: Layout, own_file: str | None = None) -> bool:
    """Whether git's configuration has a name. If not, `person` derives one from the login."""
    return bool(_settings(layout, own_file))


def signing_key(layout: Layout, own_file: str | None = None) -> tuple[str, str]:
    """`gpg.format` and `user.signingkey`, read as `person` reads names."""
    settings = _settings(layout, own_file, SIGNING)
    return settings.get("gpg.format", ""), settings.get("user.signingkey", "")


def _settings(layout: Layout, own_file: str | None, keys: tuple[str, ...] = KEYS) -> dict[str, str]:
    """The settings of these names; the nearest configuration takes precedence."""
    outer = layout.git_dir.parent if layout.in_code else layout.git_dir
    found: dict[str, str] = {}
    readers: list[Callable[[], pygit2.Config]] = list(_config_readers(outer, own_file))
    if layout.in_code:
        readers.append(lambda: pygit2.Config(str(layout.git_dir / "config")))
    for read in readers:
        # A configuration that cannot be read is treated as empty.
        with contextlib.suppress(pygit2.GitError, OSError, KeyError, ValueError):
            config = read()
            for key in keys:
                if key in config and (value := str(config[key]).strip()):
                    found[key] = value
    return found


def _config_readers(outer: Path, own_file: str | None) -> Iterator[Callable[[], pygit2.Config]]:
    """Yield functions that read the system, user and repository configuration, the nearest last."""
    if own_file is None:
        # libgit2 does not open a code repository with SHA-256.
        with contextlib.suppress(pygit2.GitError, ValueError):
            # Opened as bare, since a missing work tree does not change the user's name.
            usual = open_bare(outer).config
            yield lambda: usual
            return
    # Each file is read alone: an opened file has the level of a repository, which only one file can have.
    yield lambda: pygit2.Config.get_system_config()
    if own_file is None:
        yield lambda: pygit2.Config.get_xdg_config()
        yield lambda: pygit2.Config.get_global_config()
    elif os.path.isfile(own_file):  # libgit2 ignores the variable
        yield lambda: pygit2.Config(own_file)
    yield lambda: pygit2.Config(str(outer / "config"))


def _login() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return f"user{os.getuid()}"
