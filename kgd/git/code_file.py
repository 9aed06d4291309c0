"""One file of the code: its bytes in the work tree, or in a commit.

Nothing outside the tree is read: a symbolic link is not followed, and a file below a linked folder counts as missing.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Literal, NamedTuple

from kgd.errors import Limit
from kgd.git import program
from kgd.git.code_log import LOCAL
from kgd.git.discovery import Place
from kgd.git.objects import moment
from kgd.git.program import GitFailed

LARGEST = 4 << 20
"""Bytes of the largest file that is read."""
SECONDS = 10.0
_HEAD = 8 << 10
"""A NUL byte among these makes a file binary, as in git."""

State = Literal["text", "binary", "large", "link", "absent", "unreadable"]


class Content(NamedTuple):
    """The bytes of a file, or the target of a link; empty in the states `large`, `absent` and `unreadable`."""

    state: State
    data: bytes = b""
    size: int = 0


def in_work_tree(top: Path, path: str) -> Content:
    """The content of a file as checked out."""
    above = os.path.dirname(path)
    if os.path.realpath(top / above) != os.path.join(os.path.realpath(top), above).rstrip("/"):
        return Content("absent")  # a folder above it is a link, which may lead out of the tree
    try:
        found = os.lstat(top / path)
        if stat.S_ISLNK(found.st_mode):
            return Content("link", os.fsencode(os.readlink(top / path)))
        if not stat.S_ISREG(found.st_mode):
            return Content("absent")
        fd = os.open(top / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            data = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        is_missing = isinstance(error, ValueError) or error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
        return Content("absent" if is_missing else "unreadable")
    return _content(data, found.st_size)


def in_commit(code: Place, commit: str, path: str) -> Content:
    """The content of a file in a commit; its size is unknown if it is too large.

    Raises:
        Unavailable: git needs more than ten seconds.
    """
    command = [*LOCAL, "cat-file", "blob", f"{commit}:{path}"]
    try:
        data = program.run(code.git_dir, command, deadline=SECONDS, limit=LARGEST)
    except GitFailed:
        return Content("absent")
    except Limit:
        return Content("large")
    return _content(data, len(data))


def subject(code: Place, commit: str) -> tuple[int, str]:
    """Unix time and subject of a commit.

    Raises:
        GitFailed, Unavailable: git cannot read the commit.
    """
    command = [*LOCAL, "log", "-n1", "--encoding=UTF-8", "--format=%ct %s", commit, "--"]
    at, _, told = program.run(code.git_dir, command, deadline=SECONDS).partition(b" ")
    return moment(at), told.decode("utf-8", "replace").strip()


def _content(data: bytes, size: int) -> Content:
    if len(data) > LARGEST:
        return Content("large", size=size)
    return Content("binary" if b"\0" in data[:_HEAD] else "text", data, size)
