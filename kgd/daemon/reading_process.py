"""This file is where the process begins that looks into the files of a code tree for a daemon.

Parsers written in C are given what strangers wrote, and much of it: here they can crash, swallow memory or never end
without the daemon noticing more than that, and what they compute delays nobody who asks. It is told what to read by
lines of JSON, answers in lines of JSON, and ends when its input does.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from kgd.errors import KgdError
from kgd.index.code import CodeIndex
from kgd.index.database import IndexDamaged
from kgd.overlay.reading import CodeReader, FileToRead
from kgd.symbols.extracting import VERSION
from kgd.workspace.secrets import secret_in

if TYPE_CHECKING:
    from kgd.ingest.reading import DocumentReader as Documents

MEMORY = 3 << 30
"""Bytes of address space; the files that are read have a megabyte or two."""
NICE = 10


def main(arguments: list[str]) -> int:
    """`arguments`: the index, and the top of the code tree."""
    with contextlib.suppress(OSError, ValueError):
        os.nice(NICE)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # a library that prints would speak in between
    cut = Cutter()
    try:
        return serve(CodeReader(CodeIndex(Path(arguments[0]), VERSION), arguments[1], cut), sys.stdin.buffer, answers)
    finally:
        cut.close()


def serve(reading: CodeReader, orders: BinaryIO, answers: BinaryIO) -> int:
    """Carries out one order after the other: ``read`` with files, ``gone`` with paths, ``follow``."""

    def tell(answer: dict[str, Any]) -> None:
        answers.write(orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE))
        answers.flush()

    for line in orders:
        order = orjson.loads(line)
        try:
            if "read" in order:
                files = [FileToRead(*one) for one in order["read"]]
                tell({"read": reading.read(files, lambda path: tell({"begin": path}))})
            elif "gone" in order:
                tell({"gone": reading.remove(order["gone"])})
            else:
                tell({"followed": len(reading.follow(begin=lambda path: tell({"begin": path})))})
        except KgdError as error:
            tell({"error": error.message, "damaged": isinstance(error, IndexDamaged)})
    return 0


class Cutter:
    """Cuts documents into chunks. What reading them needs is brought by the first one: a tree may have none."""

    def __init__(self) -> None:
        self._documents: Documents | None = None

    def __call__(self, path: str, data: bytes) -> list[tuple[str, str]]:
        """A document's chunks: headings and text. ValueError where it cannot be read."""
        from kgd.ingest.chunks import chunks
        from kgd.ingest.documents import LEFT_OUT, SEPARATOR
        from kgd.ingest.reading import DocumentReader as Documents

        if self._documents is None:
            self._documents = Documents()
        try:
            text = self._documents.read(path, data)
        except KgdError as error:
            raise ValueError(error.message) from error
        title = text.title or path.rpartition("/")[2]
        whole = text.text
        if secret_in(whole):  # as in what is taken in: chunks are read by more people than files are
            whole = "\n".join(LEFT_OUT if secret_in(line) else line for line in whole.split("\n"))
        return [(SEPARATOR.join(one.heading_path), one.text) for one in chunks(whole, text.kind, title)]

    def close(self) -> None:
        if self._documents is not None:
            self._documents.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
