"""Facts about a file in the code tree, read once and cached while its stamps stay the same."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from kgd.overlay.languages import extension_of, language_of, mime_type_of

TEXT: Final = "text"
BINARY: Final = "binary"
LARGE: Final = "large"
"""A text file, judged by its beginning, that is too large to count its lines."""
UNREADABLE: Final = "unreadable"
SYMLINK: Final = "symlink"
UNREAD: Final = "unread"
"""A file that was not read yet, because the scan was interrupted."""

COUNTED_BYTES = 8 << 20
"""Maximum size in bytes of a file whose lines are counted."""
HEAD_BYTES = 8 << 10
"""A NUL byte among these makes a file binary, as in git."""
_CHUNK = 256 << 10

_FINE_TICK_NS = 50_000_000
_COARSE_TICK_NS = 2_000_000_000
_SECOND_NS = 1_000_000_000
_FIRST_MOMENT = datetime(1, 1, 1, tzinfo=UTC)
_LAST_MOMENT = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


class File(NamedTuple):
    """The cached facts about one file. A hundred thousand are in memory, so everything else is computed on demand.

    `ctime_ns` is 0 if the stamps do not prove anything (`stamps_settled`); the next scan reads such a file again.
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    content: str
    lines: int
    file_type: str

    def has_stamps_of(self, found: os.stat_result) -> bool:
        """Whether the file on disk is still the file that was read."""
        stamps = (self.ctime_ns, self.mtime_ns, self.size, self.inode)
        same = stamps == (found.st_ctime_ns, found.st_mtime_ns, found.st_size, found.st_ino)
        return same and self.content not in (UNREAD, UNREADABLE)

    def says_the_same_as(self, other: File) -> bool:
        """Whether both have the same visible facts, regardless of other stamps."""
        return self[:2] == other[:2] and self[4:] == other[4:]


def unread(found: os.stat_result) -> File:
    """A file known only from its directory entry. For a symlink, this is all, because its target is not read."""
    content, file_type = (SYMLINK, SYMLINK) if stat.S_ISLNK(found.st_mode) else (UNREAD, "")
    return File(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, content, 0, file_type)


def read(path: str, name: str, file: File, now_ns: int) -> File:
    """The file with the facts about its content. Reads at most `COUNTED_BYTES`; never raises for the content."""
    try:
        # A plain open would block on a FIFO that replaced the file since it was listed.
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
    """Whether any change after `now_ns` will have another stamp.

    File systems have time stamps of limited resolution (4 ms, or 1 to 2 s on FAT and some network mounts). A file that
    is read within that time of its last change can change again without a different stamp; git calls such entries
    "racily clean".
    """
    tick = _FINE_TICK_NS if ctime_ns % _SECOND_NS else _COARSE_TICK_NS
    return ctime_ns + tick < now_ns


def data_of(name: str, file: File) -> dict[str, Any]:
    """The facts about a file, in the form that is served and, with `--store`, stored."""
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
    """One line about the file: ``python, 120 lines, 4.2 kB``."""
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
    """ISO 8601 in UTC, to the second; times outside the calendar are clamped."""
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
    """A name of arbitrary bytes as text that JSON and YAML can represent."""
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
            # Appended data changes the stamps; following a growing file might never end.
            break
        part = os.read(fd, _CHUNK)
    return TEXT, lines + (last != b"\n"), file_type
