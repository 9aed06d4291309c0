"""Listing of the code tree: which entries of a directory belong to it, and the walk that collects them.

In a git repository, these are all entries except ignored files. git reports the ignored paths; the entries come from a
walk, which also finds empty directories and files that git cannot store.

Outside a repository, these are all entries except version control folders and generated directories (`MACHINE_MADE`, or
marked by a ``CACHEDIR.TAG`` or ``pyvenv.cfg``). Hidden files such as ``.env.example`` are listed.

Never listed are ``.git`` and ``.kgd``; FIFOs, sockets and devices; and the content of nested repositories and
submodules, which are listed as directories without members. Symlinks are listed but not followed.
"""

from __future__ import annotations

import os
import stat
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from kgd.errors import KgdError, Limit
from kgd.git.objects import raw
from kgd.git.program import GitFailed, run
from kgd.model.uri import MAX_BYTES, MAX_SEGMENTS, from_path
from kgd.overlay.facts import read, unread
from kgd.overlay.tree import Directory

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
    # git 2.39's message for a folder deep inside an ignored one
    "directory entry not superset of prefix",
)
_GIT_SECONDS = 60.0
_OUTPUT_LIMIT = 128 << 20

Progress = Callable[[int, int], None]
"""Called with (files read, files to read), at intervals and at the end."""

PROGRESS_EVERY = 128


class Rules(NamedTuple):
    """The exclusions of a tree: ignored paths, and the folders among them. `trouble` is the reason if git failed."""

    repository: bool
    ignored: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    trouble: str = ""

    @property
    def unknown(self) -> str:
        """The reason why the ignored files of a repository are not known; empty if they are."""
        return "" if self.repository else self.trouble


class Folder(NamedTuple):
    """The members of one directory, unsorted. `note` is the reason why a directory shows no members."""

    files: list[tuple[str, os.stat_result]]
    folders: list[str]
    note: str = ""


def rules_of(root: Path, environment: Mapping[str, str] | None = None, last: Rules | None = None) -> Rules:
    """The rules for the tree at `root`, found by one run of git that does not modify the repository or its index.

    With the `environment` of a user, their own ignore file (``core.excludesFile``) applies as well. If git fails in a
    repository, the `last` rules stay in force, because without rules a build folder would flood the graph, and files
    with secrets would be read. Without `last`, the rules are `unknown`.
    """
    asked = ["ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"]
    try:
        out = run(None, asked, cwd=root, environment=environment, deadline=_GIT_SECONDS, limit=_OUTPUT_LIMIT)
    except GitFailed as failure:
        if any(sign in failure.said for sign in _OUTSIDE):
            return Rules(repository=False)
        trouble = _in_words(failure)
    except KgdError as error:
        if not (root / ".git").exists():
            return Rules(repository=False)
        trouble = error.message
    else:
        paths = [os.fsdecode(path) for path in out.split(b"\0") if path]
        ignored = frozenset(path.rstrip("/") for path in paths)
        folders = frozenset(path.rstrip("/") for path in paths if path.endswith("/"))
        if "." in ignored and not (root / ".git").exists():
            # A surrounding repository ignores the whole folder (a scratch folder, or a home under git).
            return Rules(repository=False)
        return Rules(repository=True, ignored=ignored, folders=folders)
    known = last if last is not None and last.repository else Rules(repository=False)
    return known._replace(trouble=trouble[:200])


def _in_words(failure: GitFailed) -> str:
    lines = [line.strip() for line in failure.said.splitlines()] or [str(failure)]
    if trust := next((line for line in lines if line.startswith("git config --global --add safe.directory")), ""):
        return f"another user owns the repository; if you trust that user, run `{trust}`"
    return lines[0]


def look_into(root: str, path: str, rules: Rules, skipped: Counter[str]) -> Folder | None:
    """The members of the directory at `path` (relative to `root`; empty for the root). Counts the entries left out.

    None if the directory no longer exists or, outside a repository, is marked as generated.
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
    """Whether the path has a URI: kgd's limits on length and depth are stricter than the limits of a file system."""
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
    """Whether the tree has a file, or a directory, at `path` now: the same result as a scan, but for one path.

    Takes a few `lstat` calls and, in a repository, one run of git unless the path is known to be `listed`.
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
    """A ``.git`` that git accepts: a file that points to a repository, or a directory with a HEAD."""
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
    """Whether git tracks the path or shows it as new. True if git fails: the path exists, and a wrong "no" would store
    a node for it."""
    # Not `check-ignore`, which refuses the literal pathspecs that every run of git has here.
    asked = ["ls-files", "--cached", "--others", "--exclude-standard", "--directory", "-z", "--", path]
    try:
        return run(None, asked, cwd=root, environment=environment, deadline=_GIT_SECONDS) != b""
    except (GitFailed, KgdError):
        return True


class Stopped(Exception):
    """The walk was stopped on request."""


class Pending(NamedTuple):
    """Files of one directory to read; `prefix` is the directory's path with its slash."""

    directory: Directory
    prefix: str
    names: list[str]


class Walk:
    """One pass over a tree: `list` it, then `read` the changed files. Readers do not see the pass.

    With `candidates`, files and directories that are neither known nor among these paths are left out.
    """

    def __init__(
        self, root: str, workspace: str, rules: Rules, stop: threading.Event, candidates: set[str] | None = None
    ) -> None:
        self.skipped: Counter[str] = Counter()
        self.new: set[str] = set()
        """Paths of listed files and directories that were not known."""
        self._candidates = candidates
        self._root, self._workspace, self._rules, self._stop = root, workspace, rules, stop
        self._pending: list[Pending] = []

    def list(self, known: Directory | None) -> Directory | None:
        """The directories of the tree, with known facts for unchanged files; other files have not been read yet.

        Raises:
            Stopped: The walk was stopped, between two directories.
        """
        return self._list("", 0, known)

    def read(self, now: Callable[[], int], progress: Progress | None) -> None:
        """Read the files that `list` left unread. After `Stopped` the tree keeps the files read so far."""
        total, done = sum(len(pending.names) for pending in self._pending), 0
        for directory, prefix, names in self._pending:
            for name in names:
                if done % PROGRESS_EVERY == 0:
                    self._check()
                    if progress and done:
                        progress(done, total)
                directory.files[name] = read(f"{self._root}/{prefix}{name}", name, directory.files[name], now())
                done += 1
        if progress:
            progress(total, total)

    def _list(self, path: str, depth: int, known: Directory | None) -> Directory | None:
        self._check()
        folder = look_into(self._root, path, self._rules, self.skipped)
        if folder is None:
            return None
        made = Directory(note=folder.note)
        prefix = f"{path}/" if path else ""
        # The longest spelling has three characters per byte; the exact length matters only near the limit.
        room = MAX_BYTES - 3 * len(raw(prefix)) - len(self._workspace) - 8
        pending: list[str] = []
        for name, found in folder.files:
            if not self._has_uri("file", prefix + name, depth, room):
                continue
            file = known.files.get(name) if known else None
            if file is None and not self._is_candidate(prefix + name):
                continue
            if file is None or not file.has_stamps_of(found):
                file = unread(found)
                if not file.file_type:
                    pending.append(name)
            made.files[name] = file
        for name in folder.folders:
            if not self._has_uri("dir", prefix + name, depth, room):
                continue
            below = known.folders.get(name) if known else None
            if below is None and not self._is_candidate(prefix + name):
                continue
            inner = self._list(prefix + name, depth + 1, below)
            if inner is not None:
                made.folders[name] = inner
        if known is not None and not pending and _is_same(known, made):
            return known
        made.add_up()
        if pending:
            self._pending.append(Pending(made, prefix, pending))
        return made

    def _is_candidate(self, path: str) -> bool:
        if self._candidates is not None and path not in self._candidates:
            return False
        self.new.add(path)
        return True

    def _has_uri(self, scheme: str, path: str, depth: int, room: int) -> bool:
        if depth < MAX_SEGMENTS and room > 3 * 255:
            return True
        if fits(scheme, self._workspace, path):
            return True
        self.skipped[TOO_LONG] += 1
        return False

    def _check(self) -> None:
        if self._stop.is_set():
            raise Stopped


def settle(known: Directory | None, new: Directory) -> Directory:
    """`new`, reusing the objects of `known` for all unchanged directories.

    Readers' caches and the next diff thus recognise them as unchanged.
    """
    if known is None or known is new:
        return new
    for name, inner in new.folders.items():
        new.folders[name] = settle(known.folders.get(name), inner)
    return known if _is_same(known, new) else new


def _is_same(one: Directory, two: Directory) -> bool:
    return (
        one.note == two.note
        and one.files == two.files
        and one.folders.keys() == two.folders.keys()
        and all(folder is two.folders[name] for name, folder in one.folders.items())
    )
