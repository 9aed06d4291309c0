"""Reading and writing of a host's file; keeps its byte order mark and its mode."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from kgd.errors import Forbidden, Invalid, Limit, Unavailable
from kgd.git.files import replace

LARGEST = 32 << 20
"""Bytes; some hosts keep whole histories in their files."""
BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class HostFile:
    """A file. `place` is its path without links; `text` is None if it does not exist."""

    path: Path
    place: Path
    text: str | None
    bom: str = ""


def read(path: Path) -> HostFile:
    """Read a file; follows links.

    Raises:
        Invalid: It is not UTF-8, not a plain file, or a broken link.
        Limit: It is larger than `LARGEST`.
        Unavailable: It cannot be read.
    """
    place = Path(os.path.realpath(path))
    try:
        if not place.exists():
            if path.is_symlink():
                raise Invalid("this link is broken", at=str(path))
            return HostFile(path, place, None)
        if not place.is_file():
            raise Invalid("this is not a plain file", at=str(path))
        if place.stat().st_size > LARGEST:
            raise Limit(f"this file is larger than {LARGEST >> 20} MiB", at=str(path))
        text = place.read_bytes().decode()
    except UnicodeDecodeError:
        raise Invalid("this file is not UTF-8", at=str(path)) from None
    except OSError as error:
        raise Unavailable(f"this file cannot be read: {error.strerror}", at=str(path)) from None
    bom = BOM if text.startswith(BOM) else ""
    return HostFile(path, place, text.removeprefix(BOM), bom)


def write(file: HostFile, text: str) -> list[Path]:
    """Replace the file atomically; returns the folders that were created for it.

    Raises:
        Forbidden: The file, or its folder, is read-only.
        Unavailable: The disk refuses, or the file changed since it was read.
    """
    if read(file.path) != file:
        raise Unavailable("another program is writing this file", at=str(file.path), next="Try again.")
    mode = 0o644
    made = [folder for folder in file.place.parents if not folder.exists()]
    try:
        file.place.parent.mkdir(parents=True, exist_ok=True)
        if file.text is not None:
            mode = stat.S_IMODE(file.place.stat().st_mode)
            if not mode & stat.S_IWUSR:
                raise Forbidden("this file is read-only", at=str(file.path), next="Make it writable and try again.")
        replace(file.place, (file.bom + text).encode(), mode=mode)
        file.place.chmod(mode)
    except OSError as error:
        raise Unavailable(f"this file cannot be written: {error.strerror}", at=str(file.path)) from None
    return made


def delete(file: HostFile, made: list[Path]) -> None:
    """Delete a created file, and the folders in `made` above it if they are empty.

    Raises:
        Unavailable: The disk refuses.
    """
    try:
        file.place.unlink()
    except OSError as error:
        raise Unavailable(f"this file cannot be removed: {error.strerror}", at=str(file.path)) from None
    for folder in sorted(made, key=lambda one: len(one.parts), reverse=True):
        if file.place.is_relative_to(folder):
            try:
                folder.rmdir()
            except OSError:
                return
