"""Snapshot of the graph: one file that is either complete and valid, or ignored.

    bytes    meaning
    8        ``kgdgraph``
    4        format version, big-endian, as all numbers
    8        length of the arrays
    4        length of the JSON
    2        length of the root tree
    32       SHA-256 of all that follows
    ...      root tree (ASCII hex) whose graph this is
    ...      JSON in addition to the graph, and spaces up to the next multiple of 8
    ...      the arrays, which `kgd.graph.arrays` reads

Nothing is used before the checksum matches. A file of another format version is left alone and not used. The file is
only ever replaced, never changed, because processes map its arrays.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson

MAGIC = b"kgdgraph"
FORMAT = 3
_HEADER = struct.Struct(">8sIQIH32s")


class Snapshot(NamedTuple):
    """The graph of a root tree (given in hex). A tree diff updates it to another tree."""

    tree: str
    care: Any
    """JSON data about paths that need special treatment."""
    arrays: memoryview
    """Mapped from the file, which may be replaced or removed while this is in use."""


def write(path: Path, tree: str, care: Any, arrays: Sequence[bytes | memoryview]) -> None:
    """Replace the snapshot atomically.

    Raises:
        OSError: The file cannot be written, or the folder is gone (it is never created here). The old snapshot is
            unchanged. Nothing depends on a snapshot, so this error may be ignored.
    """
    name, json = tree.encode("ascii"), orjson.dumps(care)
    json += b" " * (-(_HEADER.size + len(name) + len(json)) % 8)
    digest = hashlib.sha256(name + json)
    for part in arrays:
        digest.update(part)
    length = sum(memoryview(part).nbytes for part in arrays)
    header = _HEADER.pack(MAGIC, FORMAT, length, len(json), len(name), digest.digest())
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    try:
        with open(handle, "wb") as file:
            file.writelines((header, name, json, *arrays))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def read(path: Path) -> Snapshot | None:
    """The snapshot; None if it is missing or damaged, or has another format. Never raises."""
    try:
        with open(path, "rb") as file:
            magic, version, length, json_length, name_length, checksum = _HEADER.unpack(file.read(_HEADER.size))
            if magic != MAGIC or version != FORMAT:
                return None
            start = _HEADER.size + name_length + json_length
            if os.fstat(file.fileno()).st_size != start + length:
                return None
            if hashlib.file_digest(file, "sha256").digest() != checksum:  # read, not mapped: no page stays resident
                return None
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        name, json = data[_HEADER.size : _HEADER.size + name_length], data[_HEADER.size + name_length : start]
        return Snapshot(str(name, "ascii"), orjson.loads(json), data[start:])
    except (OSError, struct.error, ValueError):  # orjson's and Unicode's errors are ValueErrors
        return None
