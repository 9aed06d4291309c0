"""This file is where a file is looked at: its facts, read once and kept for as long as its stamps stay the same."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from kgd.overlay.languages import extension_of, language_of, mime_type_of

TEXT: Final = "text"
BINARY: Final = "binary"
LARGE: Final = "large"
"""Text as far as its beginning shows, and too large to count its lines."""
UNREADABLE: Final = "unreadable"
SYMLINK: Final = "symlink"
UNREAD: Final = "unread"
"""Not looked into yet: a scan was interrupted before its turn came."""

COUNTED_BYTES = 8 << 20
"""Lines are counted in files up to this size."""
HEAD_BYTES = 8 << 10
"""A NUL byte among these makes a file binary, as git has it."""
_CHUNK = 256 << 10

_FINE_TICK_NS = 50_000_000
_COARSE_TICK_NS = 2_000_000_000
_SECOND_NS = 1_000_000_000
_FIRST_MOMENT = datetime(1, 1, 1, tzinfo=UTC)
_LAST_MOMENT = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


class File(NamedTuple):
    """What is kept of one file; a hundred thousand of these are in memory, so everything else is made when asked for.

    `ctime_ns` is 0 where the stamps prove nothing (`stamps_settled`): such a file is read again by the next scan.
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    content: str
    lines: int
    file_type: str

    def has_stamps_of(self, found: os.stat_result) -> bool:
        """Whether the file on disk is still the one that was read."""
        return (
            self.ctime_ns == found.st_ctime_ns
            and self.mtime_ns == found.st_mtime_ns
            and self.size == found.st_size
            and self.inode == found.st_ino
            and self.content not in (UNREAD, UNREADABLE)
        )

    def says_the_same_as(self, other: File) -> bool:
        """Whether both have the same facts; stamps that nobody sees are left out."""
        return self[:2] == other[:2] and self[4:] == other[4:]


def unread(found: os.stat_result) -> File:
    """A file of which only its directory entry is known. A symlink is complete with that: its target is not read."""
    if stat.S_ISLNK(found.st_mode):
        return File(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, SYMLINK, 0, SYMLINK)
    return File(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, UNREAD, 0, "")


def read(path: str, name: str, file: File, now_ns: int) -> File:
    """The same file with what its content says. Reads at most `COUNTED_BYTES`; never raises for what it finds."""
    try:
        # A FIFO that took the file's place since it was listed would block a plain open for good.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return file._replace(content=UNREADABLE, file_type=language_of(name))
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return file._replace(content=UNREADABLE, file_type=language_of(name))
        content, lines, file_type = _look_into(fd, name, file.size)
    except OSError:
        return file._replace(content=UNREADABLE, file_type=language_of(name))
    finally:
        os.close(fd)
    settled = stamps_settled(file.ctime_ns, now_ns)
    return file._replace(content=content, lines=lines, file_type=file_type, ctime_ns=file.ctime_ns if settled else 0)


def stamps_settled(ctime_ns: int, now_ns: int) -> bool:
    """Whether a change after `now_ns` is sure to carry another stamp.

    File systems stamp by a tick (4 ms, or 1 to 2 s on FAT and some network mounts). A file that is read within the tick
    of its last change can change again and look the same; git knows such entries as racily clean.
    """
    tick = _FINE_TICK_NS if ctime_ns % _SECOND_NS else _COARSE_TICK_NS
    return ctime_ns + tick < now_ns


def data_of(name: str, file: File) -> dict[str, Any]:
    """The named facts of a file, as they are served and, with `--store`, stored."""
    binary = file.content == BINARY
    data: dict[str, Any] = {
        "file_type": file.file_type or language_of(name),
        "extension": readable(extension_of(name)),
        "size_bytes": file.size,
    }
    if file.content == TEXT:
        data["line_count"] = file.lines
    elif file.content == LARGE:
        data["line_count_skipped"] = f"larger than {COUNTED_BYTES >> 20} MiB"
    if file.content == SYMLINK:
        data["mime_type"] = "inode/symlink"
    else:
        data["mime_type"] = mime_type_of(name, data["file_type"], binary=binary)
    data["last_modified"] = utc(file.mtime_ns)
    if file.content in (BINARY, SYMLINK, UNREADABLE):
        data[file.content] = True
    return data


def summary_of(file: File) -> str:
    """One line that tells a reader what the file is: ``python, 120 lines, 4.2 kB``."""
    if file.content == SYMLINK:
        return "symbolic link"
    words = [file.file_type] if file.file_type else []
    if file.content == TEXT:
        words.append("1 line" if file.lines == 1 else f"{file.lines} lines")
    words.append(readable_size(file.size))
    if file.content == UNREADABLE:
        words.append("cannot be read")
    return ", ".join(words)


def utc(time_ns: int) -> str:
    """ISO 8601 in UTC, to the second; times beyond the calendar are cut to its ends."""
    try:
        moment = datetime.fromtimestamp(time_ns // _SECOND_NS, UTC)
    except (OverflowError, ValueError, OSError):
        moment = _LAST_MOMENT if time_ns > 0 else _FIRST_MOMENT
    return moment.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def readable_size(size: int) -> str:
    if size < 1000:
        return f"{size} B"
    power = 1
    while size >= 999.5 * 1000**power and power < 4:
        power += 1
    amount = size / 1000**power
    unit = ("kB", "MB", "GB", "TB")[power - 1]
    return f"{amount:.1f} {unit}" if amount < 9.95 else f"{amount:.0f} {unit}"


def readable(name: str) -> str:
    """A name of any bytes as text that JSON and YAML can hold."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _look_into(fd: int, name: str, size: int) -> tuple[str, int, str]:
    """Content kind, number of lines, file type."""
    head = os.read(fd, HEAD_BYTES if size > COUNTED_BYTES else _CHUNK)
    if b"\0" in head[:HEAD_BYTES]:
        return BINARY, 0, language_of(name, binary=True)
    file_type = language_of(name, head)
    if size > COUNTED_BYTES:
        return LARGE, 0, file_type
    lines, seen, part, last = 0, 0, head, b"\n"
    while part:
        lines += part.count(b"\n")
        last = part[-1:]
        seen += len(part)
        if seen >= size:
            # What is appended meanwhile changes the stamps; following a file that grows could last for ever.
            break
        part = os.read(fd, _CHUNK)
    return TEXT, lines + (last != b"\n"), file_type
