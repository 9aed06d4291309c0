"""Pack files and loose objects: durable writing, reading, and release from protection.

All objects of one flush become one small pack. The cost of a flush depends on the number of new files, not of bytes, so
a pack is two to twenty times faster than loose objects. The order of writing makes this safe. ``.keep`` comes first:
without it, a concurrent ``git gc --prune=now`` could remove the pack before a ref leads to it. The index comes last and
by rename, since git finds a pack only by its index.

Loose objects are read in pure Python: libgit2 1.9.7 loops forever on a truncated one (libgit2#7342). There are few of
them: a person's commits since the last gc.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from kgd.errors import Limit
from kgd.git.files import sync_file, sync_folder, write_new
from kgd.git.objects import Object, ObjectId

KEEP = b"kgd\n"
"""Content of kgd's own ``.keep`` files."""
_KINDS = {"commit": 1, "tree": 2, "blob": 3, "tag": 4}
_SIZE_LIMIT = 1 << 31
"""Above this size the index needs a second table; a flush never comes close to it."""
_FANOUT = struct.Struct(">256L")
_IDX_MAGIC = b"\377tOc\0\0\0\2"


class Pack(NamedTuple):
    name: str
    pack: bytes
    idx: bytes


STORED = 8 << 10
"""Largest object that a flush does not compress. `zlib.compress` releases the interpreter lock, and beside many threads
getting it back costs more than the compression. A roll-up compresses the object."""
_STORED_BLOCK = struct.Struct("<HBHH")


def build(objects: Iterable[Object]) -> Pack:
    """The pack and index of the objects, in the given order and without duplicates. For speed, the objects are not
    deltified."""
    parts, rows, size = [b""], [], 12
    for id, kind, body in {item.id: item for item in objects}.values():
        part = _header(_KINDS[kind], len(body)) + _deflated(body)
        rows.append((id, zlib.crc32(part), size))
        parts.append(part)
        size += len(part)
        if size >= _SIZE_LIMIT:
            raise Limit("one flush would exceed 2 GiB", next="Split the change.")
    parts[0] = struct.pack(">4sLL", b"PACK", 2, len(rows))
    body = b"".join(parts)
    checksum = hashlib.sha1(body).digest()
    return Pack(checksum.hex(), body + checksum, _index(sorted(rows), checksum))


def _deflated(body: bytes) -> bytes:
    """A zlib stream of these bytes; a short input becomes one uncompressed block."""
    if len(body) > STORED:
        return zlib.compress(body, 1)
    size = len(body)
    # The header of zlib, and of a last block without compression; see RFC 1950 and 1951.
    return b"%b%b%b" % (_STORED_BLOCK.pack(0x0178, 1, size, size ^ 0xFFFF), body, zlib.adler32(body).to_bytes(4, "big"))


def write(pack_dir: Path, objects: Sequence[Object]) -> Path:
    """Write the objects as one durable pack and return its path without suffix.

    Once written, the pack survives a power cut, and a concurrent gc until `release` is called. After an exception no
    pack is visible, or only an unreferenced pack (if the last flush failed). That pack is never removed: in the
    meantime a gc may have deleted other copies of its objects.

    Raises:
        OSError: The disk is full, read-only or broken.
        Limit: The pack would have more than 2 GiB.
    """
    name, body, idx = build(objects)
    if not pack_dir.is_dir():
        pack_dir.mkdir(exist_ok=True)
        sync_folder(pack_dir.parent)
    stem = _unused(pack_dir / f"pack-{name}")
    keep, half = stem.with_suffix(".keep"), stem.with_suffix(".kgd")
    for leftover in (keep, half):
        leftover.unlink(missing_ok=True)
    visible = False
    try:
        write_new(keep, KEEP, flush=False)  # guards against running programs, not against power cuts
        write_new(stem.with_suffix(".pack"), body, mode=0o444)
        write_new(half, idx, mode=0o444)
        os.rename(half, stem.with_suffix(".idx"))
        visible = True
        sync_folder(pack_dir)
    except BaseException:
        for suffix in () if visible else (".kgd", ".pack"):
            stem.with_suffix(suffix).unlink(missing_ok=True)
        keep.unlink(missing_ok=True)
        raise
    return stem


def place(stem: Path, pack_dir: Path, keep: bytes) -> Path:
    """Move a finished pack into `pack_dir`, flushed, and protected by a ``.keep`` before git can see it.

    Returns its new stem. The caller flushes the folder.

    Raises:
        OSError: The disk is full or broken; nothing is left in `pack_dir`.
    """
    there = _unused(pack_dir / stem.name)
    there.with_suffix(".keep").unlink(missing_ok=True)
    try:
        write_new(there.with_suffix(".keep"), keep, flush=False)
        for suffix in (".pack", ".idx"):
            sync_file(stem.with_suffix(suffix))
            os.rename(stem.with_suffix(suffix), there.with_suffix(suffix))
    except OSError:  # no program has seen the pack, since its index comes last
        for suffix in (".pack", ".keep"):
            there.with_suffix(suffix).unlink(missing_ok=True)
        raise
    return there


def _unused(stem: Path) -> Path:
    """The stem, or another stem if a pack with the same objects already has it.

    That pack may not be durable, if a flush failed, and a running gc may remove it.
    """
    while stem.with_suffix(".idx").exists() or stem.with_suffix(".pack").exists():
        stem = stem.with_name(f"pack-{hashlib.sha1(stem.name.encode()).hexdigest()}")
    return stem


def release(stem: Path) -> None:
    """Remove the ``.keep``: a ref leads to the objects now, or they are not needed."""
    stem.with_suffix(".keep").unlink(missing_ok=True)


def intact(stem: Path) -> bool:
    """Whether pack and index are complete and belong together, by their checksums. Reads the whole pack."""
    try:
        pack_sum, pack_end = _checksum(stem.with_suffix(".pack"))
        idx_sum, idx_end = _checksum(stem.with_suffix(".idx"))
    except (OSError, ValueError):
        return False
    return pack_sum == pack_end[20:] == idx_end[:20] and idx_sum == idx_end[20:]


def stems(pack_dir: Path) -> list[Path]:
    """The stems of all packs, sorted by name."""
    return sorted(path.with_suffix("") for path in pack_dir.glob("pack-*.idx"))


def ids_of(stem: Path) -> list[ObjectId]:
    """The ids in the pack's index, in pack order. Raises OSError or ValueError if unreadable."""
    with open(stem.with_suffix(".idx"), "rb") as file:
        count = _count(file)
        ids = file.read(20 * count)
        file.seek(4 * count, os.SEEK_CUR)  # checksums
        offsets = struct.unpack(f">{count}L", file.read(4 * count))
    return [ids[20 * at : 20 * at + 20] for at in sorted(range(count), key=offsets.__getitem__)]


def count_of(stem: Path) -> int:
    """The number of objects in the pack's index; one short read. Raises as `ids_of`."""
    with open(stem.with_suffix(".idx"), "rb") as file:
        return _count(file)


def _count(file: BinaryIO) -> int:
    head = file.read(8 + _FANOUT.size)
    if len(head) < 8 + _FANOUT.size or head[:8] != _IDX_MAGIC:
        raise ValueError("not a version 2 pack index")
    return int(_FANOUT.unpack(head[8:])[255])


def _header(kind: int, size: int) -> bytes:
    byte = kind << 4 | size & 15
    size >>= 4
    out = bytearray()
    while size:
        out.append(byte | 128)
        byte = size & 127
        size >>= 7
    out.append(byte)
    return bytes(out)


def _index(rows: list[tuple[ObjectId, int, int]], checksum: bytes) -> bytes:
    fanout = [0] * 256
    for id, _, _ in rows:
        fanout[id[0]] += 1
    for at in range(1, 256):
        fanout[at] += fanout[at - 1]
    count = len(rows)
    body = b"".join(
        [
            _IDX_MAGIC,
            _FANOUT.pack(*fanout),
            *[id for id, _, _ in rows],
            struct.pack(f">{count}L", *[crc for _, crc, _ in rows]),
            struct.pack(f">{count}L", *[offset for _, _, offset in rows]),
            checksum,
        ]
    )
    return body + hashlib.sha1(body).digest()


def _checksum(path: Path) -> tuple[bytes, bytes]:
    """SHA-1 over all but the last 20 bytes, and the last 40 bytes."""
    digest = hashlib.sha1()
    with open(path, "rb") as file:
        left = os.fstat(file.fileno()).st_size - 20
        if left < 20:  # the smallest possible pack has 41 bytes
            raise ValueError("too short")
        while left:
            part = file.read(min(left, 1 << 20))
            if not part:
                raise ValueError("cut while it was read")
            digest.update(part)
            left -= len(part)
        file.seek(-40, os.SEEK_END)
        return digest.digest(), file.read(40)


_HEADER = 64
"""Bytes to read for kind and size; longer than any of git's headers."""


def is_loose(objects_dir: Path, id: ObjectId) -> bool:
    return os.path.isfile(_loose_path(objects_dir, id))


def read_loose_header(objects_dir: Path, id: ObjectId) -> tuple[str, int] | None:
    """Kind and size as the object's header states them; None if there is no such file. Raises as `read_loose`."""
    try:
        with open(_loose_path(objects_dir, id), "rb") as file:
            start = zlib.decompressobj().decompress(file.read(4096), _HEADER)
    except FileNotFoundError:
        return None
    except zlib.error as error:
        raise ValueError(f"a loose object is broken: {error}") from error
    return _parse_loose(start)[:2]


def read_loose(objects_dir: Path, id: ObjectId, limit: int) -> tuple[str, bytes] | None:
    """Kind and content; None if there is no such file.

    Raises:
        ValueError: The file is truncated, or its content does not match its name.
        Limit: The object has more than `limit` bytes.
        OSError: The file cannot be read.
    """
    found = read_loose_header(objects_dir, id)
    if found is None:
        return None
    kind, size = found
    if size > limit:
        raise Limit(f"an object has {size} bytes; the limit is {limit}", at=id.hex())
    inflate = zlib.decompressobj()
    try:
        with open(_loose_path(objects_dir, id), "rb") as file:
            whole = inflate.decompress(file.read(), size + _HEADER)
    except zlib.error as error:
        raise ValueError(f"a loose object is broken: {error}") from error
    body = whole[_parse_loose(whole)[2] :]
    if not inflate.eof or inflate.unused_data or len(body) != size or hashlib.sha1(whole).digest() != id:
        raise ValueError("the content of a loose object does not match its id")
    return kind, body


def _loose_path(objects_dir: Path, id: ObjectId) -> str:
    """The path, as a string because this is called often: making a Path takes longer than looking the file up."""
    name = id.hex()
    return f"{objects_dir}{os.sep}{name[:2]}{os.sep}{name[2:]}"


def _parse_loose(data: bytes) -> tuple[str, int, int]:
    """Kind, size, and the offset of the content."""
    end = data.find(b"\0", 0, _HEADER)
    kind, _, size = data[: max(end, 0)].partition(b" ")
    if kind not in (b"blob", b"tree", b"commit", b"tag") or not size.isdigit():
        raise ValueError("a loose object has no header")
    return kind.decode(), int(size), end + 1
