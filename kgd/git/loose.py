"""This file is where loose objects are read, in pure Python: libgit2 1.9.7 reads a cut one for ever (libgit2#7342).

kgd writes packs, so these are few: what a person committed since the last gc, and what had to be written without a
pack. Slower than libgit2 by some ten microseconds, and the content is always checked against its name.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from pathlib import Path

from kgd.errors import Limit
from kgd.git.objects import ObjectId

_HEADER = 64
"""Bytes that hold kind and size, and more than any of git's own headers has."""


def exists(objects_dir: Path, id: ObjectId) -> bool:
    return os.path.isfile(_path(objects_dir, id))


def header(objects_dir: Path, id: ObjectId) -> tuple[str, int] | None:
    """Kind and size as the object claims them; None where there is no such file. Raises as `read`."""
    try:
        with open(_path(objects_dir, id), "rb") as file:
            start = zlib.decompressobj().decompress(file.read(4096), _HEADER)
    except FileNotFoundError:
        return None
    except zlib.error as error:
        raise ValueError(f"a loose object is broken: {error}") from error
    return _parse(start)[:2]


def read(objects_dir: Path, id: ObjectId, limit: int) -> tuple[str, bytes] | None:
    """Kind and content; None where there is no such file.

    Raises:
        ValueError: It is cut, or not what its name says.
        Limit: It has more than `limit` bytes.
        OSError: The disk cannot read it.
    """
    found = header(objects_dir, id)
    if found is None:
        return None
    kind, size = found
    if size > limit:
        raise Limit(f"an object has {size} bytes, {limit} are read at most", at=id.hex())
    inflate = zlib.decompressobj()
    try:
        with open(_path(objects_dir, id), "rb") as file:
            whole = inflate.decompress(file.read(), size + _HEADER)
    except zlib.error as error:
        raise ValueError(f"a loose object is broken: {error}") from error
    body = whole[_parse(whole)[2] :]
    if not inflate.eof or len(body) != size or hashlib.sha1(whole).digest() != id:
        raise ValueError("a loose object is not what its name says")
    return kind, body


def _path(objects_dir: Path, id: ObjectId) -> str:
    """As text: each object that is in no pack is looked for here, and a Path takes longer than the look."""
    name = id.hex()
    return f"{objects_dir}{os.sep}{name[:2]}{os.sep}{name[2:]}"


def _parse(data: bytes) -> tuple[str, int, int]:
    """Kind, size, and where the content begins."""
    end = data.find(b"\0", 0, _HEADER)
    kind, _, size = data[: max(end, 0)].partition(b" ")
    if kind not in (b"blob", b"tree", b"commit", b"tag") or not size.isdigit():
        raise ValueError("a loose object has no header")
    return kind.decode(), int(size), end + 1
