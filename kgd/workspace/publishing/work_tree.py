"""The work tree's files: untrusted input, shared with editors that take no lock.

This module never follows a link, opens a special file or reads past a limit. It replaces a file by swapping two names
atomically, so the former content survives in a private folder, where an editor with an open descriptor may still write
to it.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import stat
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from kgd.codec.settings import PATH as SETTINGS
from kgd.errors import whole
from kgd.git.files import write_new
from kgd.git.objects import ObjectId, object_id
from kgd.workspace.parts import FILE_LIMIT

DEPTH_LIMIT = 80
TICK_NS = 50_000_000
"""A file written within the last `TICK_NS` may change again without a new time stamp, so its hash is not cached."""
OWNED_FOLDERS = {"nodes": ".yaml", "conflicts": ".yaml", "memories": ".md", "bulk": ".yaml"}
"""The files of the work tree that kgd owns, apart from the settings: those with these extensions in these folders."""

_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}
_Exchange = Callable[[Path, str, int], None]
_STAMP = struct.Struct("=4Q").pack
_64_BITS = 2**64 - 1


class Found(NamedTuple):
    """The blob id of the bytes at a path, or the reason why they are not read. If both are missing, there is no
    file."""

    id: ObjectId | None
    odd: str = ""


class Odd(Exception):
    """An obstacle on the way to a path. `where` is its path, `reason` one sentence."""

    def __init__(self, where: str, reason: str) -> None:
        super().__init__(f"{where}: {reason}")
        self.where, self.reason = where, reason


READ = 10
"""The cost of reading or writing a file in looks at files."""


class Scan(NamedTuple):
    """All of kgd's files by path. The content of `odd_folders` cannot be seen, so a file missing there is not treated
    as deleted."""

    files: dict[str, Found]
    odd_folders: tuple[str, ...]


def is_owned(path: str) -> bool:
    """Whether kgd tracks edits of this path; it ignores editors' temporary files."""
    top, slash, _ = path.partition("/")
    if not slash:
        return path == SETTINGS
    name = path.rpartition("/")[2]
    return top in OWNED_FOLDERS and name.endswith(OWNED_FOLDERS[top]) and not is_temporary(name)


def is_temporary(name: str) -> bool:
    return name.startswith((".", "#", "~")) or name.endswith(("~", ".tmp", ".swp", ".bak", "#"))


def _misnamed(path: str) -> str:
    """Why a file with the other extension of YAML is not read; empty for other files."""
    is_wrong = path.endswith(".yml") and OWNED_FOLDERS.get(path.partition("/")[0]) == ".yaml"
    return "files here end with .yaml, so kgd does not read this one: rename it" if is_wrong else ""


def _stamp(found: os.stat_result) -> bytes:
    """A value that changes with every write. Times may exceed 64 bits, because some file systems allow years up to
    2446."""
    return _STAMP(found.st_mtime_ns & _64_BITS, found.st_ctime_ns & _64_BITS, found.st_size, found.st_ino)


class Hurried(Exception):
    """The process stops and has no time for more files; the next start continues."""


class WorkTree:
    """One work tree. For one thread; only `hurry` is thread-safe.

    Args:
        root: Its top folder, which may be missing.
        parts: A private folder on the same file system, for files being written.
        exchange: Swaps two names atomically, or None to try the system's own.
    """

    def __init__(self, root: Path, parts: Path, *, exchange: _Exchange | None = None) -> None:
        self.root, self.parts = root, parts
        self._exchange = exchange
        self._known: dict[int, bytes] = {}
        """Stamp and blob id by the hash of the path, packed into one object per file; the paths would take half of the
        memory. If two paths have the same hash, their stamps differ, since they have different inodes."""
        self._serial = 0
        self._left: int | None = None

    def hurry(self, files: int) -> None:
        """From now on, raise `Hurried` after looking at this many files, or after reading or writing a tenth as
        many."""
        self._left = files

    def _spend(self, files: int) -> None:
        if self._left is not None:
            self._left -= files
            if self._left < 0:
                raise Hurried

    # ---- reading

    def exists(self) -> bool:
        try:
            os.close(self._open_folder(""))
        except (OSError, Odd):
            return False
        return True

    def look(self, path: str) -> Found:
        """The file at the path. An unchanged file is not opened again."""
        try:
            with self._at(path) as (fd, name):
                return self._look(path, name, fd, os.stat(name, dir_fd=fd, follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return Found(None)
        except Odd as odd:
            return Found(None, odd.reason)

    def read(self, path: str) -> bytes | None:
        """The bytes at the path; None if there is no file or it cannot be read."""
        with contextlib.suppress(OSError, Odd), self._at(path) as (fd, name):
            return _read(name, fd)
        return None

    def is_folder(self, path: str) -> bool:
        """Whether the path is a folder, and one of kgd's folders or inside one."""
        if path.partition("/")[0] not in OWNED_FOLDERS:
            return False
        with contextlib.suppress(OSError, Odd):
            os.close(self._open_folder(path))
            return True
        return False

    def scan(self, below: str = "") -> Scan:
        """All of kgd's files, and the special files in its folders; with `below`, only the files in that folder. About
        7 us per file."""
        files: dict[str, Found] = {}
        odd: list[str] = []
        if not below and ((settings := self.look(SETTINGS)).id or settings.odd):
            files[SETTINGS] = settings
        for folder in [below] if below else OWNED_FOLDERS:
            try:
                fd = self._open_folder(folder)
            except FileNotFoundError:
                continue
            except Odd as error:
                files[folder] = Found(None, error.reason)
                odd.append(folder)
                continue
            for path, found in self._scan(folder, fd, odd, 1 + folder.count("/")):
                files[path] = found
        if not below:
            there = set(map(hash, files))
            self._known = {at: known for at, known in self._known.items() if at in there}
        return Scan(files, tuple(odd))

    # ---- writing

    def flush(self, path: str) -> None:
        """Flush another program's write or removal; ignore a file that cannot be flushed."""
        with contextlib.suppress(OSError, Odd), self._at(path) as (fd, name):
            with contextlib.suppress(FileNotFoundError), _opened(name, fd) as file:
                os.fsync(file)
            os.fsync(fd)

    def prepare(self, data: bytes, aside: Path) -> None:
        """Write bytes to `aside` for `place`. The file appears complete or not at all."""
        self._spend(READ)
        self._serial += 1
        part = self.parts / f"part-{self._serial}"
        part.unlink(missing_ok=True)
        write_new(part, data, flush=False)  # no flush, since git has the content
        os.rename(part, aside)

    def place(self, path: str, aside: Path) -> bool:
        """Put the prepared file at the path; its former content moves to `aside`. False if there was no former content.

        Creates missing folders.

        Raises:
            Odd: There is a link or a file where a folder is needed; nothing was changed.
            OSError: The disk is full, read-only or broken.
        """
        self._known.pop(hash(path), None)
        with self._at(path, make=True) as (fd, name):
            while True:
                try:
                    os.link(aside, name, dst_dir_fd=fd)
                except FileExistsError:
                    with contextlib.suppress(FileNotFoundError):  # it was deleted in the meantime: link again
                        self._swap(aside, name, fd)
                        return True
                else:
                    aside.unlink()
                    return False

    def take_away(self, path: str, aside: Path) -> bool:
        """Remove the file at the path; its former content moves to `aside`. False if there was no file.

        Empty folders are removed too.

        Raises:
            Odd, OSError: As for `place`.
        """
        self._known.pop(hash(path), None)
        try:
            with self._at(path) as (fd, name):
                os.rename(name, aside, src_dir_fd=fd)
        except (FileNotFoundError, NotADirectoryError):
            return False
        self._remove_empty(path.rpartition("/")[0])
        return True

    # ---- inside

    @contextlib.contextmanager
    def _at(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """A descriptor of the path's folder, and the name in it."""
        folder, name = _split(path)
        fd = self._open_folder(folder, make=make)
        try:
            yield fd, name
        finally:
            os.close(fd)

    def _open_folder(self, folder: str, *, make: bool = False) -> int:
        """A descriptor of a folder, reached without following a link anywhere below the root."""
        fd = os.open(self.root, _FOLDER_FLAGS)
        done = ""
        for name in folder.split("/") if folder else ():
            done = f"{done}/{name}" if done else name
            try:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(name, 0o755, dir_fd=fd)
                inner = os.open(name, _FOLDER_FLAGS, dir_fd=fd)
            except FileNotFoundError:
                os.close(fd)
                raise
            except OSError as error:
                reason = _why_no_folder(name, fd, error)
                os.close(fd)
                raise Odd(done, reason) from None
            os.close(fd)
            fd = inner
        return fd

    def _look(self, path: str, name: str, fd: int, found: os.stat_result) -> Found:
        self._spend(1)
        reason = _why_not(found) or _misnamed(path)
        if reason:
            return Found(None, reason)
        key = _stamp(found)
        known = self._known.get(hash(path))
        if known and known.startswith(key):
            return Found(known[len(key) :])
        self._spend(READ)
        hashed_at = time.time_ns()
        try:
            data = _read(name, fd)
        except FileNotFoundError:
            return Found(None)
        except Odd as odd:
            return Found(None, odd.reason)
        except OSError as error:
            return Found(None, f"it cannot be read: {error.strerror}")
        id = object_id("blob", data)
        self._known.pop(hash(path), None)
        if hashed_at - max(found.st_mtime_ns, found.st_ctime_ns) > TICK_NS and len(data) == found.st_size:
            self._known[hash(path)] = key + id
        return Found(id)

    def _scan(self, folder: str, fd: int, odd: list[str], depth: int) -> Iterator[tuple[str, Found]]:
        """Scan a folder recursively, and close `fd`."""
        try:
            with os.scandir(fd) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
            for entry in entries:
                path = f"{folder}/{entry.name}"
                try:
                    found = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(found.st_mode):
                        if depth >= DEPTH_LIMIT:
                            raise Odd(path, f"folders are nested deeper than {DEPTH_LIMIT}")
                        inner = os.open(entry.name, _FOLDER_FLAGS, dir_fd=fd)
                        yield from self._scan(path, inner, odd, depth + 1)
                    elif is_owned(path):
                        yield path, self._look(path, entry.name, fd, found)
                    elif not is_temporary(entry.name) and (reason := _why_not(found) or _misnamed(path)):
                        yield path, Found(None, reason)
                    if stat.S_ISLNK(found.st_mode):
                        odd.append(path)
                except FileNotFoundError:
                    continue
                except Odd as error:
                    odd.append(path)
                    yield path, Found(None, error.reason)
                except OSError as error:
                    odd.append(path)
                    yield path, Found(None, f"it cannot be read: {error.strerror}")
        finally:
            os.close(fd)

    def _swap(self, aside: Path, name: str, fd: int) -> None:
        exchange = self._exchange or _exchange_names
        if exchange is not _no_exchange:
            try:
                exchange(aside, name, fd)
                return
            except OSError as error:
                if error.errno not in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
                    raise
            self._exchange = _no_exchange
        _exchange_by_steps(aside, name, fd)

    def _remove_empty(self, folder: str) -> None:
        while folder:
            above, _, last = folder.rpartition("/")
            try:
                fd = self._open_folder(above)
            except (OSError, Odd):
                return
            try:
                os.rmdir(last, dir_fd=fd)
            except OSError:
                return  # not empty
            finally:
                os.close(fd)
            folder = above


_IGNORED = dict.fromkeys([*range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
"""Characters that some file systems ignore in names."""


def _split(path: str) -> tuple[str, str]:
    """Folder and name.

    Raises:
        Odd: The path points outside the work tree or into a repository's own folder, on any file system.
    """
    for part in path.translate(_IGNORED).lower().split("/"):
        if part in ("", ".", "..", ".git", "git~1") or "\0" in part:
            raise Odd(path, "its path points outside the work tree, or into a repository")
    folder, _, name = path.rpartition("/")
    return folder, name


def same_device(a: Path, b: Path) -> bool:
    try:
        return os.stat(a).st_dev == os.stat(b).st_dev
    except OSError:
        return True


@contextlib.contextmanager
def _opened(name: str, fd: int) -> Iterator[int]:
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY, dir_fd=fd)
    try:
        yield file
    finally:
        os.close(file)


def _read(name: str, fd: int) -> bytes:
    with _opened(name, fd) as file:
        reason = _why_not(os.fstat(file))
        if reason:
            raise Odd(name, reason)
        parts, size = [], 0
        while part := os.read(file, 1 << 16):
            parts.append(part)
            size += len(part)
            if size > FILE_LIMIT:
                raise Odd(name, _too_large(size))
        return b"".join(parts)


def _why_not(found: os.stat_result) -> str:
    """The reason not to read a file; empty for a regular file within the size limit."""
    if not stat.S_ISREG(found.st_mode):
        return f"it is {_KINDS.get(stat.S_IFMT(found.st_mode), 'not a file')}, and only plain files are read"
    return _too_large(found.st_size) if found.st_size > FILE_LIMIT else ""


def _too_large(size: int) -> str:
    return f"it has {whole(size, 1 << 20)} MiB; the limit is {FILE_LIMIT >> 20} MiB"


def _why_no_folder(name: str, fd: int, error: OSError) -> str:
    try:
        found = os.stat(name, dir_fd=fd, follow_symlinks=False)
    except OSError:
        return f"it cannot be opened: {error.strerror}"
    if stat.S_ISDIR(found.st_mode):
        return f"the folder cannot be opened: {error.strerror}"
    return f"{_KINDS.get(stat.S_IFMT(found.st_mode), 'a file')} is where a folder should be; links are not followed"


_libc = ctypes.CDLL(None, use_errno=True)
_RENAME_EXCHANGE = 2


def _exchange_names(aside: Path, name: str, fd: int) -> None:
    try:
        call = _libc.renameat2
    except AttributeError:
        raise OSError(errno.ENOSYS, "no renameat2") from None
    if call(-100, os.fsencode(aside), fd, os.fsencode(name), _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _no_exchange(aside: Path, name: str, fd: int) -> None:
    """Marks a file system that cannot swap names; `_exchange_by_steps` is used instead."""
    raise OSError(errno.ENOSYS, "no exchange")


def _exchange_by_steps(aside: Path, name: str, fd: int) -> None:
    """Swap without system support. For a moment no file has the name; a file that another program creates there first
    is kept."""
    out = aside.with_name(aside.name + ".out")
    os.rename(name, out, src_dir_fd=fd)
    with contextlib.suppress(FileExistsError):
        os.link(aside, name, dst_dir_fd=fd)
    os.replace(out, aside)
