"""This file is where a host's file is read and written: its bytes, its mark and its mode stay what they were."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

from kgd.errors import Forbidden, Invalid, Limit, Unavailable
from kgd.git.files import replace

LARGEST = 32 << 20
"""Bytes; hosts keep whole histories in their files."""
BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class HostFile:
    """A file as it is. `place` is where it really lies; `text` is None where there is none."""

    path: Path
    place: Path
    text: str | None
    bom: str = ""


def read(path: Path) -> HostFile:
    """The file, through whatever links lead to it.

    Raises:
        Invalid: It is not text, not a plain file, or a link that leads nowhere.
        Limit: It is larger than any host's.
        Unavailable: It cannot be read.
    """
    place = Path(os.path.realpath(path))
    try:
        if not place.exists():
            if path.is_symlink():
                raise Invalid("this link leads nowhere", at=str(path))
            return HostFile(path, place, None)
        if not place.is_file():
            raise Invalid("this is no plain file", at=str(path))
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
    """Put the text in the place of the file, whole or not at all; returns the folders that were made for it.

    Raises:
        Forbidden: The file, or its folder, is read-only.
        Unavailable: The disk refuses, or somebody changed the file since it was read.
    """
    if read(file.path) != file:
        raise Unavailable("somebody else writes this file just now", at=str(file.path), next="Do it again.")
    mode = 0o644
    made = [folder for folder in file.place.parents if not folder.exists()]
    try:
        file.place.parent.mkdir(parents=True, exist_ok=True)
        if file.text is not None:
            mode = stat.S_IMODE(file.place.stat().st_mode)
            if not mode & stat.S_IWUSR:
                raise Forbidden("this file is read-only", at=str(file.path), next="Make it writable, and do it again.")
        replace(file.place, (file.bom + text).encode(), mode=mode)
        file.place.chmod(mode)
    except OSError as error:
        raise Unavailable(f"this file cannot be written: {error.strerror}", at=str(file.path)) from None
    return made


def delete(file: HostFile, made: list[Path]) -> None:
    """Take away a file that was made, and of the folders that were made for it those that are empty.

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
