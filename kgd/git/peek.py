"""This file is where the refs of another repository on this machine are read as files, without a program.

The directory is somebody else's: nothing but plain files of bounded size is read, and none that could block.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from kgd.git.objects import ObjectId

_VALUE = re.compile(rb"([0-9a-f]{40})\n?\Z").match
_LOOSE_LIMIT = 1 << 10
_PACKED_LIMIT = 16 << 20


def read(git_dir: Path, ref: str, prefix: str, limit: int) -> dict[str, ObjectId]:
    """What `ref` holds and the refs that begin with `prefix` (which ends in a slash); absent ones are left out.

    Raises:
        ValueError: Something there is no plain ref; git has to be asked.
        OSError: It cannot be read.
    """
    found: dict[str, ObjectId] = {}
    for line in (_content(git_dir / "packed-refs", _PACKED_LIMIT) or b"").splitlines():
        id, blank, raw = line.partition(b" ")
        if blank and len(id) == 40 and _wanted(os.fsdecode(raw), ref, prefix):
            found[os.fsdecode(raw)] = _id(id)
    for name in [ref, *(_below(git_dir, prefix, limit) if prefix else [])]:
        content = _content(git_dir / name, _LOOSE_LIMIT)
        if content is not None:
            found[name] = _id(content)
    if len(found) > limit:
        raise ValueError("too many refs")
    return found


def _wanted(name: str, ref: str, prefix: str) -> bool:
    return name == ref or bool(prefix and name.startswith(prefix))


def _below(git_dir: Path, prefix: str, limit: int) -> list[str]:
    names: list[str] = []
    for folder, _, files in os.walk(git_dir / prefix):
        above = os.path.relpath(folder, git_dir)
        names += [f"{above}/{file}" for file in files if not file.endswith(".lock")]
        if len(names) > limit:
            raise ValueError("too many refs")
    return names


def _content(path: Path, limit: int) -> bytes | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        found = os.fstat(fd)
        if stat.S_ISDIR(found.st_mode):
            return None
        if not stat.S_ISREG(found.st_mode) or found.st_size > limit:
            raise ValueError("no plain file of a sensible size")
        return os.read(fd, limit)
    finally:
        os.close(fd)


def _id(digits: bytes) -> ObjectId:
    matched = _VALUE(digits)
    if not matched:
        raise ValueError("no plain ref")
    return bytes.fromhex(matched[1].decode())
