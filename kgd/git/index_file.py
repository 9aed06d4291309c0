"""Git's index: a rewritten copy with other blobs at some paths, ready to replace the original.

The rewrite uses only object ids and never looks at the work tree, whose files can therefore neither delay nor mislead
it. Git fills in times and sizes at its next comparison.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterable, Set
from pathlib import Path
from typing import NamedTuple

import pygit2

from kgd.errors import Unavailable
from kgd.git import user_index
from kgd.git.objects import ObjectId
from kgd.git.store import FileEntry

Stamp = tuple[int, int, int]
"""Inode, time and size of a file."""
KEPT_SIZE = 2 << 20
"""Size in bytes of the largest index (16,000 files) whose entries stay in memory, where they take twice this size."""


class Replacement(NamedTuple):
    """The new blob of a path; `expected` are the blobs that the path may have now. None means absent.

    `mode` is git's file mode; None keeps the current mode.
    """

    path: str
    expected: frozenset[ObjectId | None]
    new: ObjectId | None
    mode: bytes | None = None


class Unmerged(Exception):
    """The index holds paths with an unfinished merge. `path` is one of them."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class DamagedIndex(Exception):
    """The file is not an index that git can read; building a new one loses only staged changes."""


class Rewriter:
    """Rewrites of the index at `source` into the new file `target`, which then replaces it.

    The entries of the last rewrite are kept, unless there are very many, and used again if `target` became `source`
    and no other program has replaced it since. For one thread.
    """

    def __init__(self, source: Path, target: Path) -> None:
        self._source, self._target = source, target
        self._kept: tuple[Stamp, pygit2.Index] | None = None

    def rewrite(self, replacements: Iterable[Replacement], left_out: Set[str] = frozenset()) -> list[str]:
        """Write a copy of the index with the replacements to the target, which must not exist.

        Returns the paths with an unexpected blob: the user staged them, so they are left alone. Writes the whole index,
        in about 0.3 ms for 1,000 files, or three times as long if it is read first. The stages of an unfinished
        merge are never dropped. Replaced paths that a sparse checkout has `left_out` keep git's flag.

        Raises:
            Unmerged: Paths have an unfinished merge.
            DamagedIndex: Git could not read the file.
            Unavailable: git can read it but kgd cannot (a split or sparse index).
            OSError: The copy cannot be written.
        """
        kept, self._kept = self._kept, None
        replacements = list(replacements)
        index = kept[1] if kept and kept[0] == stamp(self._source) else _copied(self._source, self._target)
        staged = _replaced(index, replacements)
        _write(index)
        if flagged := [one.path for one in replacements if one.path in left_out and one.path in index]:
            user_index.leave_out(self._source.parent, self._target, flagged)
            return staged
        if (written := stamp(self._target))[2] <= KEPT_SIZE:
            self._kept = written, index
        return staged


def _copied(source: Path, target: Path) -> pygit2.Index:
    shutil.copyfile(source, target)
    if not is_intact(target):
        target.unlink()
        raise DamagedIndex
    try:
        index = pygit2.Index(str(target))
    except (pygit2.GitError, OSError) as error:
        target.unlink(missing_ok=True)
        raise Unavailable(
            "kgd cannot read a split or sparse index",
            at=str(source),
            next="Run `git update-index --no-split-index` and `git sparse-checkout disable` in the workspace.",
        ) from error
    unmerged = next(iter(index.conflicts or ()), None)
    if unmerged is not None:
        target.unlink(missing_ok=True)
        raise Unmerged(next(side.path for side in unmerged if side is not None))
    return index


def _replaced(index: pygit2.Index, replacements: Iterable[Replacement]) -> list[str]:
    """Apply the replacements; return the paths that were left alone."""
    staged = []
    for path, expected, new, mode in replacements:
        entry = _present(index, path)
        present = bytes(entry.id.raw) if entry else None
        if present not in expected:
            staged.append(path)
        elif new is None:
            if entry:
                index.remove(path)
        elif present != new or _mode(mode, entry) != _mode(None, entry):
            index.add(pygit2.IndexEntry(path, pygit2.Oid(raw=new), _mode(mode, entry)))
    return staged


def build(target: Path, files: Iterable[FileEntry]) -> None:
    """Write a new index that holds exactly these files."""
    target.unlink(missing_ok=True)
    index = pygit2.Index(str(target))
    for path, mode, id in files:
        index.add(pygit2.IndexEntry(path, pygit2.Oid(raw=id), _mode(mode, None)))
    _write(index)


def entries(source: Path, paths: Iterable[str]) -> dict[str, ObjectId | None]:
    """The blobs that the index holds at these paths; None for each if there is no readable index."""
    try:
        index = pygit2.Index(str(source))
        return {path: bytes(index[path].id.raw) if path in index else None for path in paths}
    except (pygit2.GitError, OSError):
        return dict.fromkeys(paths)


def _write(index: pygit2.Index) -> None:
    try:
        index.write()
    except pygit2.GitError as error:  # libgit2 raises it for a full or read-only disk
        raise OSError(f"the index could not be written: {error}") from error


def _present(index: pygit2.Index, path: str) -> pygit2.IndexEntry | None:
    try:
        return index[path]
    except KeyError:
        return None


def _mode(wanted: bytes | None, present: pygit2.IndexEntry | None) -> pygit2.enums.FileMode:
    bits = int(wanted, 8) if wanted else int(present.mode) if present else 0
    return pygit2.enums.FileMode.BLOB_EXECUTABLE if bits & 0o100 else pygit2.enums.FileMode.BLOB


def stamp(path: Path) -> Stamp:
    """Values that change when another program writes the file; zeros if there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return (0, 0, 0)
    return found.st_ino, found.st_mtime_ns, found.st_size


def is_intact(path: Path) -> bool:
    """Whether the checksum is right (or all zeros: `index.skipHash`). If it is right, an unreadable index has an
    unsupported format."""
    data = path.read_bytes()
    return data[:4] == b"DIRC" and data[-20:] in (bytes(20), hashlib.sha1(data[:-20]).digest())
