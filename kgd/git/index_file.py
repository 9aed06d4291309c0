"""Git's index: a rewritten copy with other blobs at some paths, ready to replace the original; and moves of index and
work tree to another commit.

The rewrite uses only object ids and never looks at the work tree, whose files can therefore neither delay nor mislead
it. Git fills in times and sizes at its next comparison.

The git program reports the user's staged changes and the files that a sparse checkout leaves out; it is started only
after another program has written the index. libgit2 does not show the flags of an entry, and cannot compare an index
with a commit without the repository's own work tree. The system's list of processes shows running git commands.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterable, Set
from pathlib import Path
from typing import NamedTuple

import pygit2

from kgd.errors import KgdError, Unavailable
from kgd.git import program
from kgd.git.files import replace
from kgd.git.layout import Layout
from kgd.git.objects import ObjectId, raw, text
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
            leave_out(self._source.parent, self._target, flagged)
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


_HARMLESS = {b"blame", b"cat-file", b"daemon", b"diff", b"fsmonitor--daemon", b"gc", b"gui", b"grep", b"help", b"log"}
_HARMLESS |= {b"ls-files", b"maintenance", b"rev-list", b"show", b"status"}
"""Commands that move no branch. They may run for hours, as with a pager."""
_WITH_VALUE = {b"-C", b"-c", b"--git-dir", b"--work-tree", b"--namespace", b"--exec-path", b"--config-env"}
_LAST_LINE = 4096
"""Bytes at the end of a branch's log that hold its last line."""
_PLAIN_VERSION = 2
"""The version of an index without extended flags."""


def staged(git_dir: Path, commit: ObjectId) -> dict[str, ObjectId | None]:
    """The blobs of the paths at which the index differs from a commit; None if the index has no file there.

    Empty if git cannot read the index. Paths with an unfinished merge are left out.
    """
    try:
        found = program.run(git_dir, ["diff-index", "--cached", "--raw", "-z", "--no-abbrev", commit.hex(), "--"])
    except (program.GitFailed, KgdError):
        return {}
    words = found.split(b"\0")
    rows = ((head.split(), path) for head, path in zip(words[::2], words[1::2], strict=False))
    return {
        text(path): None if status == b"D" else bytes.fromhex(id.decode())
        for (_, _, _, id, status), path in rows
        if status != b"U"
    }


def left_out(git_dir: Path) -> frozenset[str]:
    """The paths that a sparse checkout leaves out of the work tree: the entries with git's flag skip-worktree.

    O(1) for an index without such flags (version 2), otherwise O(index): git rewrites the whole file at each change,
    and the file does not tell which entries have changed.
    """
    try:
        with open(git_dir / "index", "rb") as file:
            version = int.from_bytes(file.read(8)[4:], "big")
        if version == _PLAIN_VERSION:
            return frozenset()
        found = program.run(git_dir, ["ls-files", "-t", "-z", "--cached"])
    except (OSError, program.GitFailed, KgdError):
        return frozenset()
    return frozenset(text(line[2:]) for line in found.split(b"\0") if line.startswith(b"S "))


def leave_out(git_dir: Path, index: Path, paths: Iterable[str]) -> None:
    """Set the flag skip-worktree in an index file.

    Raises:
        GitFailed, KgdError: The flag could not be set.
    """
    variables = {"GIT_INDEX_FILE": str(index)}
    names = b"".join(raw(path) + b"\0" for path in paths)
    arguments = ["update-index", "--skip-worktree", "-z", "--stdin"]
    program.run(git_dir, arguments, input=names, environment=program.without_user(variables))


def is_commit_open(git_dir: Path, branch: str) -> bool:
    """Whether git has written the message of a commit that is not on the branch: it waits for an editor or a hook, or
    the user has given up the commit."""
    try:
        return os.stat(git_dir / "COMMIT_EDITMSG").st_mtime_ns >= os.stat(git_dir / "logs" / branch).st_mtime_ns
    except OSError:
        return False


def is_after_reset(git_dir: Path, branch: str) -> bool:
    """Whether `git reset` was the last command that moved a branch, as its log tells."""
    try:
        with open(git_dir / "logs" / branch, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LAST_LINE))
            return b"\treset:" in file.read().splitlines()[-1]
    except (OSError, IndexError):
        return False


def is_git_running(work_tree: Path, git_dir: Path) -> bool:
    """Whether a git command that may move a branch runs in the work tree, as far as the system lists processes."""
    inside, own = os.path.realpath(work_tree), os.path.realpath(git_dir)
    with contextlib.suppress(OSError), os.scandir("/proc") as entries:
        return any(_is_at_work(entry.path, inside, own) for entry in entries if entry.name.isdigit())
    return False


def _is_at_work(process: str, inside: str, own: str) -> bool:
    """Whether a process is a git command below `inside`. kgd's own commands run in the git directory."""
    try:
        with open(f"{process}/comm", "rb") as file:
            if file.read().strip() != b"git":
                return False
        place = os.readlink(f"{process}/cwd") + os.sep
        if not place.startswith(inside + os.sep) or place.startswith(own + os.sep):
            return False
        with open(f"{process}/cmdline", "rb") as file:
            return _command(file.read().split(b"\0")[1:]) not in _HARMLESS
    except OSError:
        return False


def _command(arguments: list[bytes]) -> bytes:
    """The command among git's arguments, such as ``commit``."""
    rest = iter(arguments)
    for word in rest:
        if word in _WITH_VALUE:
            next(rest, None)
        elif not word.startswith(b"-"):
            return word
    return b""


MARK = "kgd-checkout"
"""A file in the git directory that names the new files of a move. git writes the index last, and the next start of kgd
undoes a move that was interrupted: files that are missing would look as if a person had deleted them."""


def run_in_work_tree(layout: Layout, *arguments: str) -> bytes:
    """Run git in the work tree.

    Raises:
        Unavailable: git failed.
    """
    try:
        return program.run(layout.git_dir, [f"--work-tree={layout.work_tree}", *arguments], cwd=layout.work_tree)
    except program.GitFailed as error:
        raise Unavailable(f"git cannot use the work tree: {error.said}", at=str(layout.work_tree)) from error


def move_work_tree(layout: Layout, before: ObjectId, after: ObjectId, added: Iterable[str]) -> None:
    """Move index and work tree, which must match `before`. If that fails, both stay as they were.

    Args:
        added: The paths of files that only `after` has.

    Raises:
        Unavailable: git failed; the disk may be full.
        OSError: The disk is full, read-only or broken.
    """
    replace(layout.git_dir / MARK, b"\0".join(map(raw, added)))
    try:
        run_in_work_tree(layout, "update-index", "-q", "--refresh")
        run_in_work_tree(layout, "read-tree", "-m", "-u", before.hex(), after.hex())
    except Unavailable:
        with contextlib.suppress(Unavailable, OSError):  # the next start repeats it
            settle_work_tree(layout)
        raise
    (layout.git_dir / MARK).unlink()


def settle_work_tree(layout: Layout) -> None:
    """After an interrupted move, restore all files from the branch; otherwise do nothing.

    Edits of these files since the interruption are lost.

    Raises:
        Unavailable: git failed.
        OSError: The disk is full, read-only or broken.
    """
    mark = layout.git_dir / MARK
    if not mark.exists():
        return
    (layout.git_dir / "index.lock").unlink(missing_ok=True)
    for path in filter(None, mark.read_bytes().split(b"\0")):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(layout.work_tree / text(path))
    run_in_work_tree(layout, "read-tree", "--reset", layout.branch)  # git may have finished after kgd was killed
    run_in_work_tree(layout, "checkout-index", "--all", "--force", "--quiet")
    mark.unlink()
