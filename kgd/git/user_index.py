"""The user's index and their running git commands, as the git program sees them.

kgd asks git only after another program has written the index. libgit2 does not show the flags of an entry, and cannot
compare an index with a commit without the repository's own work tree.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

from kgd.errors import KgdError
from kgd.git import program
from kgd.git.objects import ObjectId, raw, text

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
    """The paths that a sparse checkout leaves out of the work tree: the entries with git's flag skip-worktree."""
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
