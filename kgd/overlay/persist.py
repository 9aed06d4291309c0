"""Cache of file facts over a restart, so that a start does not read every file.

Derived data: a missing, damaged or foreign file counts as empty, and each fact holds only while its file's stamps do.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import orjson

from kgd.overlay.facts import File
from kgd.overlay.tree import Directory

_FORMAT = b"kgd-facts 1 "

log = logging.getLogger(__name__)


def save(path: Path, root: Directory) -> None:
    """Replace the cache file. A failure is logged, not raised; the next start then reads the tree again."""
    body = b"".join(_lines(root))
    unfinished = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(exist_ok=True)
        with open(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(_header(body))
            file.write(body)
        unfinished.replace(path)
    except OSError as error:
        log.warning("the cache of the code tree could not be written", extra={"reason": error.strerror})
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)


def load(path: Path) -> Directory | None:
    """The saved tree, or None. O(files), without touching any of them."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    header, newline, body = data.partition(b"\n")
    if header + newline != _header(body):
        return None
    try:
        return _tree(io.BytesIO(body))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _header(body: bytes) -> bytes:
    return _FORMAT + hashlib.blake2b(body, digest_size=20).hexdigest().encode() + b"\n"


def _lines(root: Directory) -> Iterator[bytes]:
    """A line for each directory, above its members. One document for all would need five times its size to read."""
    todo = [("", root)]
    while todo:
        path, directory = todo.pop()
        files = {_to_text(name): list(file) for name, file in directory.files.items()}
        yield orjson.dumps([path, directory.note, files], option=orjson.OPT_APPEND_NEWLINE)
        todo += [(f"{path}/{_to_text(name)}", folder) for name, folder in directory.folders.items()]


def _tree(lines: Iterable[bytes]) -> Directory | None:
    made: dict[str, Directory] = {}
    words: dict[str, str] = {}
    for line in lines:
        path, note, files = orjson.loads(line)
        directory = made[path] = Directory(note=note)
        for name, (size, mtime_ns, ctime_ns, inode, content, lines_in_it, file_type) in files.items():
            # Intern the words: a hundred thousand copies of "python" would take 5 MB.
            content, file_type = words.setdefault(content, content), words.setdefault(file_type, file_type)
            directory.files[_from_text(name)] = File(size, mtime_ns, ctime_ns, inode, content, lines_in_it, file_type)
        if path:
            above, _, own = path.rpartition("/")
            made[above].folders[_from_text(own)] = directory
    for directory in reversed(made.values()):
        directory.add_up()
    return made.get("")


def _to_text(name: str) -> str:
    """A name of arbitrary bytes as text that JSON can hold: one character a byte."""
    return os.fsencode(name).decode("latin-1")


def _from_text(text: str) -> str:
    return os.fsdecode(text.encode("latin-1"))
