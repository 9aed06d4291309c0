"""Files: exclusive creation, flushing, atomic replacement; and reading of regular files only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
from pathlib import Path

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
    """Replace a file atomically; with `flush` its folder is flushed too. The umask applies."""
    new = path.with_name(path.name + ".kgd-new")
    new.unlink(missing_ok=True)
    write_new(new, data, flush=flush, mode=mode)
    os.replace(new, path)
    if flush:
        sync_folder(path.parent)


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


def same_file(a: Path, b: Path) -> bool:
    """Whether both names lead to one inode; False if either is missing."""
    try:
        return os.path.samestat(os.lstat(a), os.lstat(b))
    except (FileNotFoundError, NotADirectoryError):
        return False
