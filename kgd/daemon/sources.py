"""This file is where a person's files are found and read for taking in: bounded, in order, and never through a link."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kgd.errors import Invalid, NotFound
from kgd.ingest import formats
from kgd.ingest.readers.text import Unreadable
from kgd.overlay.listing import MACHINE_MADE, NEVER, rules_of

MOST_LOOKED_AT = 1_000_000
"""Entries of a folder and those below it that are looked at."""
MOST_FILES = 50_000
"""Files that one folder is taken in with."""
SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/boot", "/run")
"""What belongs to the machine and is nobody's document."""
NONETHELESS = ("/dev/shm", "/run/media", "/run/user")
"""Below it, but a person's: files in memory, and disks that a desktop has mounted."""


@dataclass(slots=True)
class Folder:
    """The files below a folder that are documents by their names, as paths from there, in order.

    `left` counts by suffix what is none; `trouble` says what was passed by.
    """

    root: Path
    paths: list[str] = field(default_factory=list)
    left: Counter[str] = field(default_factory=Counter)
    trouble: list[str] = field(default_factory=list)


def located(text: str, cwd: Path | None) -> Path:
    """The absolute path that somebody wrote, links on the way to it looked through.

    Raises:
        Invalid: It cannot be a path of this machine, or belongs to the machine itself.
        NotFound: Nothing is there.
    """
    if "\0" in text or not text.strip():
        raise Invalid("this is no path", at="source")
    path = Path(os.path.expanduser(text))
    if not path.is_absolute():
        if cwd is None:
            raise Invalid("give an absolute path", at="source")
        path = cwd / path
    try:
        real = path.resolve(strict=True)
    except FileNotFoundError:
        raise NotFound("nothing is there", at=str(path)[-80:], next="Look at the path once more.") from None
    except (OSError, RuntimeError):  # a link that leads to itself
        raise Invalid("this path leads nowhere", at=str(path)[-80:]) from None
    if real == Path("/") or (_is_below(real, SYSTEM) and not _is_below(real, NONETHELESS)):
        raise Invalid("this belongs to the machine and is no document", at=str(real)[-80:])
    return real


def _is_below(path: Path, places: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(place) for place in places)


def look_through(
    root: Path, environment: Mapping[str, str] | None = None, wanted: Callable[[str], bool] = formats.is_document
) -> Folder:
    """What is below a folder, without what git ignores, hidden files, and what programs made for themselves.

    `wanted` tells by its name whether a file is meant.
    """
    folder = Folder(root)
    rules = rules_of(root, environment)
    looked = 0
    waiting = [""]
    while waiting:
        below = waiting.pop()
        names: list[str] = []
        inner: list[str] = []
        try:
            with os.scandir(root / below) as entries:
                for entry in entries:
                    looked += 1
                    if looked > MOST_LOOKED_AT:
                        break
                    _sort_in(entry, below, rules.ignored, folder, names, inner, wanted)
        except OSError as error:
            folder.trouble.append(f"{below or '.'}: this folder cannot be read: {error.strerror}")
            continue
        folder.paths += sorted(names)
        if len(folder.paths) > MOST_FILES or looked > MOST_LOOKED_AT:
            folder.trouble.append(
                f"there is more than {MOST_FILES:,} documents or {MOST_LOOKED_AT:,} entries here: the rest was left"
            )
            del folder.paths[MOST_FILES:]
            break
        waiting += sorted(inner, reverse=True)
    return folder


def _sort_in(
    entry: os.DirEntry[str],
    below: str,
    ignored: frozenset[str],
    folder: Folder,
    names: list[str],
    inner: list[str],
    wanted: Callable[[str], bool],
) -> None:
    path = f"{below}/{entry.name}" if below else entry.name
    if path in ignored or entry.name in NEVER or entry.name in MACHINE_MADE:
        return
    try:
        if entry.is_symlink():
            folder.left["symbolic link"] += 1
        elif entry.is_dir(follow_symlinks=False):
            if not entry.name.startswith("."):
                inner.append(path)
        elif not entry.is_file(follow_symlinks=False):
            folder.left["pipe, socket or device"] += 1
        elif wanted(entry.name):
            if len(names) <= MOST_FILES:
                names.append(path)
        elif not entry.name.startswith("."):
            folder.left[f".{formats.suffix_of(entry.name)}"] += 1
    except OSError:
        folder.trouble.append(f"{path}: it went away while it was looked at")


def read_file(path: Path, limit: int) -> bytes:
    """All bytes of a file, as they were at one moment; read once more where it changed meanwhile.

    Raises:
        Unreadable: It is no file, too large, cannot be opened, or changes all the time.
    """
    for _ in range(2):
        try:
            data = _read_once(path, limit)
        except OSError as error:
            raise Unreadable(f"it cannot be read: {error.strerror}") from None
        if data is not None:
            return data
    raise Unreadable("it changed while it was read, twice", next="Take it in when nobody writes to it.")


def beginning(path: Path, length: int) -> bytes:
    """The first bytes of a file; none of what is no file or cannot be read."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            return file.read(length) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except OSError:
        return b""


def _read_once(path: Path, limit: int) -> bytes | None:
    # Not blocking: a FIFO that took the place of a file would hold a plain open for good.
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            raise Unreadable("it is a folder, a pipe or a device and no file")
        if before.st_size > limit:
            raise Unreadable(f"it has {before.st_size >> 20:,} MiB, more than {limit >> 20} MiB; not read")
        data = file.read(limit + 1)
        after = os.fstat(fd)
    if len(data) > limit:
        raise Unreadable(f"it has more than {limit >> 20} MiB; not read")
    same = (before.st_size, before.st_mtime_ns, before.st_ctime_ns) == (
        after.st_size,
        after.st_mtime_ns,
        after.st_ctime_ns,
    )
    return data if same and len(data) == after.st_size else None


def shown(path: str) -> str:
    """A path as text: a file system holds names that are not UTF-8, an answer cannot."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
