"""Git's index: a rewritten copy with other blobs at some paths, ready to replace the original.

Works by object id alone and never looks at the work tree, so its files can neither delay nor deceive it. Git fills in
times and sizes at its next comparison.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pygit2

from kgd.errors import Unavailable
from kgd.git.objects import ObjectId
from kgd.git.store import FileEntry


class Replacement(NamedTuple):
    """The new blob of a path; `expected` are the values it may hold now. None means absent.

    `mode` is git's file mode; None keeps the present one.
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


def rewrite(source: Path, target: Path, replacements: Iterable[Replacement]) -> list[str]:
    """Write a copy of the index at `source` with the replacements to `target`, which must not exist.

    Returns the paths with an unexpected value: they are staged by the user, and stay. Cost: the whole index, about 1.5
    ms for 1,000 files. The stages of an unfinished merge are never dropped.

    Raises:
        Unmerged: Paths have an unfinished merge.
        DamagedIndex: Git could not read the file.
        Unavailable: git can read it but kgd cannot (a split or sparse index).
        OSError: The disk refused.
    """
    shutil.copyfile(source, target)
    if not is_intact(target):
        target.unlink()
        raise DamagedIndex
    try:
        index = pygit2.Index(str(target))
        index.read()
    except (pygit2.GitError, OSError) as error:
        target.unlink(missing_ok=True)
        raise Unavailable(
            "the index is of a kind that kgd cannot read (split or sparse)",
            at=str(source),
            next="Run `git update-index --no-split-index` and `git sparse-checkout disable` in the workspace.",
        ) from error
    unmerged = next(iter(index.conflicts or ()), None)
    if unmerged is not None:
        target.unlink(missing_ok=True)
        raise Unmerged(next(side.path for side in unmerged if side is not None))
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
    _write(index)
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


def is_intact(path: Path) -> bool:
    """Whether the checksum holds (zeros: `index.skipHash`); then an unreadable index is of an unsupported format."""
    data = path.read_bytes()
    return data[:4] == b"DIRC" and data[-20:] in (bytes(20), hashlib.sha1(data[:-20]).digest())
