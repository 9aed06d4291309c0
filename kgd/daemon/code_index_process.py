"""The process that parses the files of a code tree for a daemon.

Parsers written in C get a lot of untrusted input. In a separate process, they can crash, hang or use too much memory
without harming the daemon and its calls.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kgd.errors import KgdError
from kgd.index.code_index import CodeIndex
from kgd.overlay.code_reader import CodeReader, FileToRead
from kgd.symbols.extraction import VERSION
from kgd.workspace import child_process
from kgd.workspace.child_process import Answer, Order
from kgd.workspace.writing.secrets import secret_in

if TYPE_CHECKING:
    from kgd.ingest.document_reader import DocumentReader as Documents

MEMORY = 3 << 30
"""Limit of the address space in bytes; files have at most a megabyte or two."""
PROGRAM = ("-m", "kgd.daemon.code_index_process")
FILE_SECONDS = 30.0
"""Limit of processor time per file, in seconds."""
SILENT_SECONDS = 900.0
"""Time limit per file, for a process that hangs without using the processor."""


def main(arguments: list[str]) -> int:
    """`arguments`: the index, and the top of the code tree."""
    cut = Chunker()

    def reader() -> Callable[[Order, Callable[[str], None]], Answer]:
        index = CodeIndex(Path(arguments[0]), VERSION, is_child=True)
        return partial(carried_out, CodeReader(index, arguments[1], cut))

    try:
        child_process.serve(reader, memory=MEMORY, seconds=FILE_SECONDS)
    finally:
        cut.close()
    return 0


def carried_out(reader: CodeReader, order: Order, begin: Callable[[str], None]) -> Answer:
    """Execute an order: ``read`` with files, ``gone`` with paths, ``follow``."""
    if "read" in order:
        return {"read": reader.read([FileToRead(*one) for one in order["read"]], begin)}
    if "gone" in order:
        return {"gone": reader.remove(order["gone"])}
    return {"followed": len(reader.follow(begin=begin))}


class Chunker:
    """Splits documents into chunks. The readers are imported with the first document, since a tree may have none."""

    def __init__(self) -> None:
        self._documents: Documents | None = None

    def __call__(self, path: str, data: bytes) -> list[tuple[str, str]]:
        """A document's chunks: headings and text. Raises ValueError if the document is unreadable."""
        from kgd.ingest.chunks import chunks
        from kgd.ingest.document_reader import DocumentReader as Documents
        from kgd.ingest.documents import LEFT_OUT, SEPARATOR

        if self._documents is None:
            self._documents = Documents()
        try:
            text = self._documents.read(path, data)
        except KgdError as error:
            raise ValueError(error.message) from error
        title = text.title or path.rpartition("/")[2]
        whole = text.text
        if secret_in(whole):  # as for ingested documents: chunks have more readers than files
            whole = "\n".join(LEFT_OUT if secret_in(line) else line for line in whole.split("\n"))
        return [(SEPARATOR.join(one.heading_path), one.text) for one in chunks(whole, text.kind, title)]

    def close(self) -> None:
        if self._documents is not None:
            self._documents.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
