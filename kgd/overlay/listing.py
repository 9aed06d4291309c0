"""This file is where it is decided which entries of a tree belong to it.

In a git repository: what git would track or show as new, that is everything but ignored files. git says what is
ignored; the entries themselves come from our own walk, which also finds empty directories and what git cannot hold.

Outside a repository: everything but version control folders and what programs made for themselves (`MACHINE_MADE`, and
directories that say so with a ``CACHEDIR.TAG`` or ``pyvenv.cfg``). Hidden files such as ``.env.example`` are listed.

Never: ``.git`` and ``.kgd``; FIFOs, sockets and devices; what is inside nested repositories and submodules, which are
listed as directories without members. Symlinks are listed and not followed.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kgd.errors import KgdError, Limit
from kgd.git.program import GitFailed, run
from kgd.model.uri import from_path

NEVER = frozenset({".git", ".kgd"})
MACHINE_MADE = frozenset(
    {".hg", ".svn", ".bzr", ".jj", "_darcs", "CVS", "node_modules", "__pycache__", ".venv", ".tox", ".nox", ".DS_Store"}
    | {".cache", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis", ".gradle", ".terraform", ".Trash"}
)
_SAYS_SO = frozenset({"CACHEDIR.TAG", "pyvenv.cfg"})

NESTED = "nested repository"
UNREADABLE = "unreadable"

IGNORED = "ignored"
SPECIAL = "FIFO, socket or device"
TOO_LONG = "path too long or too deep for a URI"
VANISHED = "vanished while it was read"

_OUTSIDE = (
    "not a git repository",
    # What git 2.39 says of a folder deep inside one that it ignores.
    "directory entry not superset of prefix",
)
_GIT_SECONDS = 60.0
_OUTPUT_LIMIT = 128 << 20


class Rules(NamedTuple):
    """What to leave out of a tree. `trouble` says why git could not be asked, though it should have been."""

    repository: bool
    ignored: frozenset[str] = frozenset()
    trouble: str = ""


class Folder(NamedTuple):
    """The entries of one directory that belong to the tree, unsorted. `note` says why a directory shows none."""

    files: list[tuple[str, os.stat_result]]
    folders: list[str]
    note: str = ""


def rules_of(root: Path, environment: Mapping[str, str] | None = None, last: Rules | None = None) -> Rules:
    """The rules for the tree at `root`, by one run of git, which leaves the repository as it is, index included.

    With a person's `environment` their own ignore file (``core.excludesFile``) counts too. Where git fails in a
    repository the `last` rules stay in force, since without any a build folder would flood the graph.
    """
    asked = ["ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"]
    try:
        out = run(None, asked, cwd=root, environment=environment, deadline=_GIT_SECONDS, limit=_OUTPUT_LIMIT)
    except GitFailed as failure:
        if any(sign in failure.said for sign in _OUTSIDE):
            return Rules(repository=False)
        trouble = failure.said.splitlines()[0] if failure.said else str(failure)
    except KgdError as error:
        if not (root / ".git").exists():
            return Rules(repository=False)
        trouble = error.message
    else:
        ignored = frozenset(os.fsdecode(path.rstrip(b"/")) for path in out.split(b"\0") if path)
        if "." in ignored and not (root / ".git").exists():
            # A folder that a repository around it ignores as a whole (a scratch folder, a home under git).
            return Rules(repository=False)
        return Rules(repository=True, ignored=ignored)
    known = last if last is not None and last.repository else Rules(repository=False)
    return known._replace(trouble=trouble[:200])


def look_into(root: str, path: str, rules: Rules, skipped: Counter[str]) -> Folder | None:
    """The members of the directory at `path` (relative to `root`; the root itself is the empty string).

    None where it is not there any more, or outside a repository says that it is machine-made. Counts what is left out.
    """
    files: list[tuple[str, os.stat_result]] = []
    folders: list[str] = []
    prefix = f"{path}/" if path else ""
    try:
        with os.scandir(f"{root}/{path}") as entries:
            for entry in entries:
                name = entry.name
                if name in NEVER:
                    if path and name == ".git" and _is_git_entry(entry.path):
                        skipped[NESTED] += 1
                        return Folder([], [], NESTED)
                    continue
                if not rules.repository:
                    if path and name in _SAYS_SO:
                        skipped[IGNORED] += 1
                        return None
                    if name in MACHINE_MADE:
                        skipped[IGNORED] += 1
                        continue
                elif prefix + name in rules.ignored:
                    skipped[IGNORED] += 1
                    continue
                _sort_in(entry, files, folders, skipped)
    except (FileNotFoundError, NotADirectoryError):
        skipped[VANISHED] += 1
        return None
    except OSError:
        skipped["unreadable directory"] += 1
        return Folder([], [], UNREADABLE)
    return Folder(files, folders)


def fits(scheme: str, workspace: str, path: str) -> bool:
    """Whether the path has a URI at all: kgd's limits of length and depth are stricter than a file system's."""
    try:
        from_path(scheme, workspace, path)
    except Limit:
        return False
    return True


def belongs(
    root: Path,
    path: str,
    rules: Rules,
    *,
    directory: bool,
    listed: bool = False,
    environment: Mapping[str, str] | None = None,
) -> bool:
    """Whether the tree has a file, or a directory, at `path` now: what a scan would say, for one path.

    A few `lstat`s, and in a repository one question to git unless the path is known to be `listed`.
    """
    steps = path.split("/")
    if NEVER.intersection(steps):
        return False
    for depth in range(1, len(steps)):
        above = f"{root}/{'/'.join(steps[:depth])}"
        if not _is_plain_directory(above) or _is_git_entry(f"{above}/.git"):
            return False
    try:
        mode = os.lstat(f"{root}/{path}").st_mode
    except (OSError, ValueError):
        return False
    if not (stat.S_ISDIR(mode) if directory else stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
        return False
    if listed:
        return True
    if not rules.repository:
        return not MACHINE_MADE.intersection(steps) and not _machine_made(root, steps, directory)
    return _git_takes(root, path, environment)


def _sort_in(
    entry: os.DirEntry[str], files: list[tuple[str, os.stat_result]], folders: list[str], skipped: Counter[str]
) -> None:
    try:
        if entry.is_dir(follow_symlinks=False):
            folders.append(entry.name)
            return
        found = entry.stat(follow_symlinks=False)
    except OSError:
        skipped[VANISHED] += 1
        return
    if stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode):
        files.append((entry.name, found))
    else:
        skipped[SPECIAL] += 1


def _is_git_entry(path: str) -> bool:
    """A ``.git`` that git would take for one: a file that leads to a repository, or a directory with a HEAD."""
    return os.path.isfile(path) or os.path.lexists(f"{path}/HEAD")


def _is_plain_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False


def _machine_made(root: Path, steps: list[str], directory: bool) -> bool:
    folders = [steps[:depth] for depth in range(1, len(steps) + directory)]
    return any(os.path.lexists(root.joinpath(*folder, mark)) for folder in folders for mark in _SAYS_SO)


def _git_takes(root: Path, path: str, environment: Mapping[str, str] | None) -> bool:
    """Whether git tracks the path or shows it as new. True where git cannot be asked: it is there, and a wrong no would
    store a node for it."""
    # Not `check-ignore`: it refuses the literal pathspecs that every run of git has here.
    asked = ["ls-files", "--cached", "--others", "--exclude-standard", "--directory", "-z", "--", path]
    try:
        return run(None, asked, cwd=root, environment=environment, deadline=_GIT_SECONDS) != b""
    except (GitFailed, KgdError):
        return True
