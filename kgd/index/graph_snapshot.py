"""Snapshot of the graph between starts: one file that is either whole and valid, or ignored.

    bytes    meaning
    8        ``kgdgraph``
    4        format version, big-endian, as all numbers
    8        length of the body
    32       SHA-256 of tree and body
    2 + n    root tree (ASCII hex) whose graph this is, after its length
    ...      the body: JSON

Nothing is trusted before the checksum matches. A file of another format version is left alone and not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import orjson

MAGIC = b"kgdgraph"
FORMAT = 1
_HEADER = struct.Struct(">8sIQ32sH")


class Snapshot(NamedTuple):
    """The graph of a root tree (hex), as `LiveGraph.load` reads it. A tree diff brings it to another tree."""

    tree: str
    rows: Any


def write(path: Path, tree: str, rows: Any) -> None:
    """Replace the snapshot atomically.

    Raises:
        OSError: The disk refused, or the folder has moved away (it is never created here). The old snapshot is
            unchanged. Nothing depends on a snapshot, so this may be ignored.
    """
    body = orjson.dumps(rows)
    name = tree.encode("ascii")
    header = _HEADER.pack(MAGIC, FORMAT, len(body), _checksum(name, body), len(name))
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)  # mode 0600
    try:
        with open(handle, "wb") as file:
            file.writelines((header, name, body))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def read(path: Path) -> Snapshot | None:
    """The snapshot, or None if there is none, it is damaged, or its format differs. Raises nothing."""
    try:
        data = path.read_bytes()
        magic, version, length, checksum, name_length = _HEADER.unpack_from(data)
        if magic != MAGIC or version != FORMAT:
            return None
        start = _HEADER.size + name_length
        name, body = data[_HEADER.size : start], memoryview(data)[start:]
        if len(body) != length or _checksum(name, body) != checksum:
            return None
        return Snapshot(name.decode("ascii"), orjson.loads(body))
    except (OSError, struct.error, ValueError):  # orjson's and Unicode's errors are ValueErrors
        return None


def _checksum(name: bytes, body: bytes | memoryview) -> bytes:
    digest = hashlib.sha256(name)
    digest.update(body)
    return digest.digest()
