"""Local files for ingestion: listed in order and read with limits, without following links."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kgd.errors import Invalid, NotFound, whole
from kgd.ingest import document_reader
from kgd.ingest.readers.result import Unreadable
from kgd.overlay.listing import MACHINE_MADE, NEVER, rules_of

MOST_LOOKED_AT = 1_000_000
"""Largest number of directory entries that are visited below one folder."""
MOST_FILES = 50_000
"""Largest number of files ingested from one folder."""
SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/boot", "/run")
"""System folders, which do not contain documents."""
NONETHELESS = ("/dev/shm", "/run/media", "/run/user")
"""Exceptions, which contain user files: memory file systems, and disks mounted by a desktop."""


@dataclass(slots=True)
class Folder:
    """The documents below a folder by name, as sorted relative paths.

    `left` counts other files by suffix; `trouble` has a line for each unreadable folder or file.
    """

    root: Path
    paths: list[str] = field(default_factory=list)
    left: Counter[str] = field(default_factory=Counter)
    trouble: list[str] = field(default_factory=list)


def located(text: str, cwd: Path | None) -> Path:
    """The absolute path of a user's input, with links resolved.

    Raises:
        Invalid: The input is not a valid path, or is a system folder.
        NotFound: The path does not exist.
    """
    if "\0" in text or not text.strip():
        raise Invalid("this is not a path", at="source")
    path = Path(os.path.expanduser(text))
    if not path.is_absolute():
        if cwd is None:
            raise Invalid("give an absolute path", at="source")
        path = cwd / path
    try:
        real = path.resolve(strict=True)
    except FileNotFoundError:
        raise NotFound("this path does not exist", at=str(path)[-80:], next="Check the path.") from None
    except (OSError, RuntimeError):  # a link to itself
        raise Invalid("this path cannot be resolved", at=str(path)[-80:]) from None
    if real == Path("/") or (_is_below(real, SYSTEM) and not _is_below(real, NONETHELESS)):
        raise Invalid("this path belongs to the operating system and cannot be ingested", at=str(real)[-80:])
    return real


def _is_below(path: Path, places: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(place) for place in places)


def look_through(
    root: Path,
    environment: Mapping[str, str] | None = None,
    wanted: Callable[[str], bool] = document_reader.is_document,
) -> Folder:
    """The files below a folder, without ignored, hidden and generated files. `wanted` selects files by name."""
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
                    _classify(entry, below, rules.ignored, folder, names, inner, wanted)
        except OSError as error:
            folder.trouble.append(f"{below or '.'}: this folder cannot be read: {error.strerror}")
            continue
        folder.paths += sorted(names)
        if len(folder.paths) > MOST_FILES or looked > MOST_LOOKED_AT:
            folder.trouble.append(
                f"there are more than {MOST_FILES:,} documents or {MOST_LOOKED_AT:,} entries: the others were skipped"
            )
            del folder.paths[MOST_FILES:]
            break
        waiting += sorted(inner, reverse=True)
    return folder


def _classify(
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
            folder.left[f".{document_reader.suffix_of(entry.name)}"] += 1
    except OSError:
        folder.trouble.append(f"{path}: it has since been removed")


def read_file(path: Path, limit: int) -> bytes:
    """The bytes of a file at one moment; the file is read again if it changes during the read.

    Raises:
        Unreadable: The path is not a file, or the file is too large, cannot be opened, or keeps changing.
    """
    for _ in range(2):
        try:
            data = _read_once(path, limit)
        except OSError as error:
            raise Unreadable(f"it cannot be read: {error.strerror}") from None
        if data is not None:
            return data
    raise Unreadable("it changed twice while it was being read", next="Ingest it again when it no longer changes.")


def beginning(path: Path, length: int) -> bytes:
    """The first bytes of a file; empty if it is not a file or unreadable."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            return file.read(length) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    except OSError:
        return b""


def _read_once(path: Path, limit: int) -> bytes | None:
    # Non-blocking: opening a FIFO would block permanently.
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        before = os.fstat(fd)
        if not stat.S_ISREG(before.st_mode):
            raise Unreadable("it is a folder, a pipe or a device, not a file")
        if before.st_size > limit:
            raise Unreadable(f"it has {whole(before.st_size, 1 << 20):,} MiB, more than {limit >> 20} MiB; not read")
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
    """A path as valid UTF-8 text; file systems allow other names."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
