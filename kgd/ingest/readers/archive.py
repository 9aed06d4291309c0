"""This file is where formats that are zip archives are opened, as far as what is in them can be held."""

from __future__ import annotations

import zipfile
import zlib
from io import BytesIO

from kgd.ingest.readers.text import Unreadable

MOST_FILES = 10_000
MOST_BYTES = 256 << 20
"""Of all files of one archive, unpacked."""

BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError)


def opened(data: bytes) -> zipfile.ZipFile:
    """The archive, whose list of files says that it can be unpacked.

    A list that lies is noticed when more bytes come than it said: the library stops there.

    Raises:
        Unreadable: It is no archive, or a bomb.
    """
    try:
        archive = zipfile.ZipFile(BytesIO(data))
        files = archive.infolist()
    except BROKEN:
        raise Unreadable("it is broken: no sound archive") from None
    if len(files) > MOST_FILES:
        raise Unreadable(f"it has more than {MOST_FILES:,} files in it")
    if sum(file.file_size for file in files) > MOST_BYTES:
        raise Unreadable(f"unpacked it would have more than {MOST_BYTES >> 20} MiB")
    return archive
