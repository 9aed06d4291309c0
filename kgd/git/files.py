"""Files: exclusive creation, flushing, atomic replacement; reading of regular files only; and kgd's own JSON files.

A damaged JSON file never makes a call fail: it is reported once in the log, renamed and treated as missing.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import logging
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from kgd.errors import MALFORMED, KgdError

_libc = ctypes.CDLL(None, use_errno=True)


def write_new(path: Path, data: bytes, *, flush: bool = True, mode: int = 0o644) -> None:
    """Create a file, complete and flushed, or leave no file.

    Never writes through an existing name: it may be a hard link to a live file (see ``kgd.git.refs``). The caller
    flushes the folder.
    """
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        try:
            rest = memoryview(data)
            while rest:  # a short write is the first sign of a full disk
                rest = rest[os.write(fd, rest) :]
            if flush:
                os.fsync(fd)
        finally:
            os.close(fd)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def replace(path: Path, data: bytes, *, flush: bool = True, mode: int = 0o644) -> None:
    """Replace a file atomically; with `flush` its folder is flushed too. The umask applies.

    The temporary file has a fixed name, so that a killed writer leaves at most one. Writers in one folder wait for each
    other.
    """
    new = path.with_name(path.name + ".kgd-new")
    with _locked_folder(path.parent):
        new.unlink(missing_ok=True)
        write_new(new, data, flush=flush, mode=mode)
        os.replace(new, path)
    if flush:
        sync_folder(path.parent)


@contextlib.contextmanager
def _locked_folder(path: Path) -> Iterator[None]:
    """Exclude other threads and processes that lock the folder, where the file system has such locks."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def read_regular(path: str | Path, limit: int) -> bytes | None:
    """At most `limit` bytes of a regular file; None if it cannot be read. Follows no link, and waits for no pipe."""
    with contextlib.suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            if stat.S_ISREG(os.fstat(fd).st_mode):
                return file.read(limit)
    return None


def sync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_file(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_file_system(folder: Path) -> None:
    """Flush everything on the folder's file system in one call, including the writes of other programs."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(fd):
            raise OSError(ctypes.get_errno(), "the disk could not be flushed")
    except AttributeError:  # not on every system
        os.sync()
    finally:
        os.close(fd)


def is_cut(data: bytes, whole: bytes) -> bool:
    """Whether `data` may be the remains of an unflushed `whole` after a power cut: its beginning, or zeros instead of
    bytes."""
    return len(data) <= len(whole) and all(there in (0, meant) for there, meant in zip(data, whole, strict=False))


def inode(path: Path) -> int:
    """The inode of a path; 0 if there is none."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return 0


def same_file(a: Path, b: Path) -> bool:
    """Whether both names lead to one inode; False if either is missing."""
    try:
        return os.path.samestat(os.lstat(a), os.lstat(b))
    except (FileNotFoundError, NotADirectoryError):
        return False


ASIDE = ".damaged"
"""Suffix of a damaged file that was set aside. It replaces an earlier one."""

_Value = TypeVar("_Value")

log = logging.getLogger("kgd.state")


def read_state(path: Path, parse: Callable[[Any], _Value], *, read_only: bool = False) -> _Value | None:
    """Read a JSON file, and return the result of `parse`; None if the file is missing or cannot be used.

    Args:
        parse: Converts the document; raises one of `MALFORMED`, or KgdError, if the document has another shape.
        read_only: Leave a damaged file in its place.
    """
    try:
        with path.open("rb") as file:  # open until the end, so that a new file cannot get its inode number
            try:
                return parse(json.loads(file.read()))
            except (KgdError, *MALFORMED) as error:
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):  # another writer may have replaced it
                    _report(path, error, read_only)
    except IsADirectoryError as error:
        _report(path, error, read_only)
    except OSError:
        pass
    return None


def _report(path: Path, error: Exception, read_only: bool) -> None:
    aside = path if read_only else path.with_name(path.name + ASIDE)
    try:
        if not read_only:
            os.replace(path, aside)
    except OSError:  # as on a read-only disk
        aside = path
    reason = f"{type(error).__name__}: {error}"[:200]
    log.warning("a damaged state file is ignored", extra={"path": str(aside), "reason": reason})
