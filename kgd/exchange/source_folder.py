"""Reading of a user's folder: bounded, ordered, and without following links out of it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from kgd.errors import Limit
from kgd.exchange.plan import Trouble
from kgd.model.node import NODE_BYTES

MOST_BYTES = 2**30
"""Largest number of bytes read from one source."""
MOST_FILES = 200_000
"""Largest number of files listed in a folder."""
PRUNED = frozenset({"node_modules", "__pycache__", "venv", "target", "dist", "build"})


@dataclass(slots=True)
class Folder:
    """The files below a folder, by relative paths with ``/``; `left` counts unwanted files by suffix."""

    root: Path
    troubles: list[Trouble] = field(default_factory=list)
    left: dict[str, int] = field(default_factory=dict)
    taken: int = 0

    def paths(self, wants: Callable[[str], bool], enters: Callable[[str], bool]) -> Iterator[str]:
        """The wanted files in order. Folders that `enters` refuses are skipped.

        Raises:
            Limit: The folder has more than 200,000 files.
        """
        looked = 0
        for base, folders, names in os.walk(self.root, onerror=self._unread):
            where = os.path.relpath(base, self.root).replace(os.sep, "/")
            before = "" if where == "." else where + "/"
            for name in [n for n in folders if os.path.islink(os.path.join(base, n))]:
                folders.remove(name)
                if enters(before + name):
                    self.troubles.append(Trouble(before + name, "a symbolic link is not followed"))
            folders[:] = sorted(name for name in folders if enters(before + name))
            for name in sorted(names):
                looked += 1
                if looked > MOST_FILES:
                    raise Limit(
                        f"a folder has at most {MOST_FILES:,} files",
                        at=str(self.root)[-80:],
                        next="Import a part of it.",
                    )
                if wants(before + name):
                    yield before + name
                elif not name.startswith("."):
                    suffix = os.path.splitext(name)[1].lower()
                    self.left[suffix] = self.left.get(suffix, 0) + 1

    def read(self, path: str) -> bytes | None:
        """The bytes of a file. If the file cannot be read, report it and return None.

        Raises:
            Limit: More than 1 GiB was read in all.
        """
        full = self.root / path
        try:
            fd = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            self._skip(path, "a symbolic link is not followed" if full.is_symlink() else _unreadable(error))
            return None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            self._skip(path, "not a regular file; skipped")
            return None
        try:
            with os.fdopen(fd, "rb") as file:
                data = file.read(NODE_BYTES + 1)
        except OSError as error:
            self._skip(path, _unreadable(error))
            return None
        if len(data) > NODE_BYTES:
            self._skip(path, f"larger than {NODE_BYTES // 1024} KiB; skipped")
            return None
        self.taken += len(data)
        if self.taken > MOST_BYTES:
            raise Limit("the source has more than 1 GiB of text", at=str(self.root)[-80:], next="Import a part of it.")
        return data

    def leads_out(self, path: str) -> bool:
        """Whether a folder on this path is a symbolic link. Walks do not follow links, but a name in a file may."""
        return any((self.root / "/".join(path.split("/")[:n])).is_symlink() for n in range(1, path.count("/") + 1))

    def text(self, path: str) -> str | None:
        """The text of a file. If the file is not text, report it and return None."""
        data = self.read(path)
        if data is None:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            self._skip(path, "not UTF-8; skipped", f":{line}")
            return None

    def _skip(self, path: str, reason: str, line: str = "") -> None:
        self.troubles.append(Trouble(shown(path) + line, reason))

    def _unread(self, error: OSError) -> None:
        path = os.path.relpath(error.filename or self.root, self.root)
        self._skip(path, f"the folder {_unreadable(error)}")


def _unreadable(error: OSError) -> str:
    return f"cannot be read: {error.strerror}"


def shown(path: str) -> str:
    """A path as text for an answer; file names need not be UTF-8."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def is_text_name(path: str) -> bool:
    """Whether the name is valid text, which URIs and answers require."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
